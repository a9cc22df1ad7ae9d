// A database as the previous version has left it: its migrations in drizzle-kit's default table, everything in
// `public`.
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { drizzle } from 'drizzle-orm/node-postgres';
import { migrate } from 'drizzle-orm/node-postgres/migrator';
import type pg from 'pg';

const OWN = new URL('../../drizzle', import.meta.url).pathname;
/** The first migration that the previous version did not have. */
export const OWN_SCHEMA = '0018_own-schema';

/** A copy of the folder of migrations, as it was before this migration. */
export function migrationsBefore(tag: string, scratch: string): string {
  const folder = join(scratch, `before-${tag}`);
  cpSync(OWN, folder, { recursive: true });
  const file = join(folder, 'meta/_journal.json');
  const journal = JSON.parse(readFileSync(file, 'utf8')) as { entries: { tag: string }[] };
  const entries = journal.entries.filter((entry) => entry.tag < tag);
  writeFileSync(file, JSON.stringify({ ...journal, entries }));
  return folder;
}

/** Migrates as the previous version would. Returns a copy of the folder of that version's migrations. */
export async function migrateAsBefore(client: pg.Client, scratch: string): Promise<string> {
  const folder = migrationsBefore(OWN_SCHEMA, scratch);
  await migrate(drizzle(client), { migrationsFolder: folder });
  return folder;
}
