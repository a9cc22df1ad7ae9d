// The table of settings: one row, made by a migration. Triggers keep `revision` and the history.
import { sql } from 'drizzle-orm';
import { check, text } from 'drizzle-orm/pg-core';
import { ENFORCEMENTS, FILE_EXTENSIONS, SETTINGS_DEFAULTS } from '../../core/matching/settings.ts';
import { kept, oneOf, weir } from './columns.ts';

/** The id of the only row. */
export const ALL_RULES = 'all';

export const settings = weir.table(
  'settings',
  {
    id: text().primaryKey().default(ALL_RULES),
    enforcement: text({ enum: ENFORCEMENTS }).notNull().default(SETTINGS_DEFAULTS.enforcement),
    fileExtensions: text({ enum: FILE_EXTENSIONS }).notNull().default(SETTINGS_DEFAULTS.fileExtensions),
    ...kept,
  },
  (table) => [
    check('settings_are_one', sql`${table.id} = ${sql.raw(`'${ALL_RULES}'`)}`),
    check('settings_enforcement_is_known', oneOf(table.enforcement, ENFORCEMENTS)),
    check('settings_file_extensions_is_known', oneOf(table.fileExtensions, FILE_EXTENSIONS)),
  ],
);

export type SettingsRow = typeof settings.$inferSelect;
