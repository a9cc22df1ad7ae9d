// The first of three files: document.ts reads and writes the document, plan.ts finds out what an import would change and
// what is wrong with it, import.ts writes the plan. An import is done as a whole or not at all.
//
// All rules, tiers, routes and settings as one JSON document, with callers in a full export. Exports write it and
// imports read it. Its lists are the collections of the admin route. Defaults are left out and the order is fixed, so
// that two exports can be compared line by line.

import { asc, getTableColumns, gt, sql } from 'drizzle-orm';
import * as z from 'zod';
import type { Values } from '../../authoring/bodies.ts';
import { SETTINGS_DEFAULTS, type Settings } from '../../core/matching/snapshot.ts';
import { asOfOneMoment } from '../../rules/publishing/content.ts';
import type { Database, Row } from '../../rules/tables/repository.ts';
import { settings as settingsTable, tiers as tiersTable } from '../../rules/tables/tables.ts';
import { isSame } from '../collection/changes.ts';
import type { Collection } from '../collection/declaration.ts';
import { CALLERS, COLLECTIONS, PLANNED, ROUTES, RULES, TIERS } from '../collections.ts';
import { settingsFields } from '../schemas.ts';

const listOf = ({ path, bodies, inDocuments }: Collection) =>
  z
    .array(bodies.inDocument)
    .max(inDocuments.mostEntries)
    .optional()
    .describe(`If left out, ${path} stay as they are.`);

export const importDocument = z
  .strictObject({
    weir: z.literal(1).describe('The version of this format.'),
    basedOn: z
      .int()
      .min(0)
      .optional()
      .describe('The import is refused if rules, tiers, routes or settings have changed since.'),
    settings: z
      .strictObject(settingsFields)
      .partial()
      .meta({ id: 'DocumentSettings' })
      .optional()
      .describe('Settings that are left out stay as they are.'),
    ...Object.fromEntries(COLLECTIONS.map((collection) => [collection.path, listOf(collection)])),
  })
  .meta({ id: 'RulesDocument' });

export type ImportDocument = z.infer<typeof importDocument> & Readonly<Record<string, unknown>>;

/** The entries of a collection; undefined: the document does not speak of it. */
export const entriesIn = (document: ImportDocument, { path }: Collection) =>
  document[path] as readonly Values[] | undefined;

function toEntry({ bodies: { documentFields, defaultsOf } }: Collection, row: Values): Values {
  const defaults = defaultsOf(row);
  const said = documentFields.filter((field) => !(field in defaults && isSame(row[field], defaults[field])));
  return Object.fromEntries(said.map((field) => [field, row[field]]));
}

export interface StoredRows {
  /** The last id in the history of rules, tiers, routes and settings. */
  readonly basedOn: number;
  /** A digest of the revisions of all rows. */
  readonly fingerprint: string;
  /** The size of the last publication. */
  readonly publishedBytes: number;
  readonly settings: Settings;
  rowsOf(collection: Collection): readonly Row[];
}

/** Reads all rows in one transaction. */
export async function readStoredRows(database: Database): Promise<StoredRows> {
  const all = ({ table, id }: Collection) => database.select().from(table).orderBy(asc(id));
  const [, state, rules, routes, tiers, settingRows] = await database.batch([
    asOfOneMoment(database),
    database.execute<{ based_on: string; fingerprint: string; bytes: string | null }>(sql`
      select coalesce(max(id), 0)::text as based_on, ${FINGERPRINT} as fingerprint,
        (select bytes::text from weir.last_publication) as bytes
      from weir.history where entity in ('rules', 'tiers', 'routes', 'settings')`),
    all(RULES),
    all(ROUTES),
    database
      .select({ ...getTableColumns(tiersTable), isInUse: IS_IN_USE })
      .from(tiersTable)
      .orderBy(asc(tiersTable.name)),
    database.select().from(settingsTable),
  ]);
  const { based_on = '0', fingerprint = '', bytes } = state.rows[0] ?? {};
  const { enforcement, fileExtensions } = settingRows[0] ?? SETTINGS_DEFAULTS;
  const rows = new Map<Collection, readonly unknown[]>([
    [RULES, rules],
    [ROUTES, routes],
    [TIERS, tiers],
  ]);
  return {
    basedOn: Number(based_on),
    fingerprint,
    publishedBytes: Number(bytes ?? 0),
    settings: { enforcement, fileExtensions },
    rowsOf: (collection) => rows.get(collection) as readonly Row[],
  };
}

/** The history alone is not enough: of two simultaneous changes, Postgres can commit the one with the lower id last. */
export const FINGERPRINT = sql`(select md5(string_agg(part, ',' order by part)) from (
  select revision::text as part from weir.rules union all select revision::text from weir.tiers
  union all select revision::text from weir.routes union all select revision::text from weir.settings) parts)`;

const IS_IN_USE = sql<boolean>`(exists (select 1 from weir.tenants where tier = tiers.name)
  or exists (select 1 from weir.users where tier = tiers.name)
  or exists (select 1 from weir.api_keys where tier = tiers.name))`;

const listsIn = (stored: StoredRows) =>
  PLANNED.map((collection) => {
    const entries = stored.rowsOf(collection).map((row) => toEntry(collection, row));
    return [
      collection.path,
      entries.sort((a, b) => (String(a['name']) < String(b['name']) ? -1 : 1)),
    ] as const;
  });

/** Settings are written in full, because an import does not change settings that a document leaves out. */
export const toDocument = (stored: StoredRows) => ({
  weir: 1,
  basedOn: stored.basedOn,
  ...Object.fromEntries(listsIn(stored)),
  settings: stored.settings,
});

// Streams the full export, a page of rows at a time, so that an isolate never holds all of it.

/** Neon answers with 10 MB at most. */
const PAGE_ROWS = 5_000;

async function* readPages(database: Database, collection: Collection) {
  const { table, id } = collection;
  for (let after: unknown; ; ) {
    const rows: Values[] = await database
      .select()
      .from(table)
      .where(after === undefined ? undefined : gt(id, after))
      .orderBy(asc(id))
      .limit(PAGE_ROWS);
    yield rows.map((row) => toEntry(collection, row));
    if (rows.length < PAGE_ROWS) return;
    after = rows.at(-1)?.[id.name];
  }
}

/**
 * The export reads pages one after the other, while other clients may write. So it reads referenced rows last: if a
 * client creates a tenant and its users meanwhile, the document has the tenant of every user in it.
 */
export async function* everythingAsText(database: Database): AsyncGenerator<string> {
  yield '{\n  "weir": 1';
  for (const collection of CALLERS.toReversed())
    yield* listAsText(collection.path, readPages(database, collection));
  const stored = await readStoredRows(database);
  for (const [path, entries] of listsIn(stored)) yield* listAsText(path, [entries]);
  yield `,\n  "settings": ${JSON.stringify(stored.settings)}\n}\n`;
}

type Pages = AsyncIterable<readonly object[]> | Iterable<readonly object[]>;

/** Writes one line for each entry, so that two backups can be compared. */
async function* listAsText(name: string, pages: Pages): AsyncGenerator<string> {
  yield `,\n  "${name}": [`;
  let separator = '\n';
  for await (const page of pages) {
    const lines = page.map((entry) => `    ${JSON.stringify(entry)}`);
    if (lines.length === 0) continue;
    yield separator + lines.join(',\n');
    separator = ',\n';
  }
  yield separator === '\n' ? ']' : '\n  ]';
}
