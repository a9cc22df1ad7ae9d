// All rules, tiers and routes as one JSON document, with callers in a full export. Exports write it and imports read
// it. Defaults are left out and the order is fixed, so that two exports can be compared line by line.

import { asc, getTableColumns, gt, sql } from 'drizzle-orm';
import type { AnyPgColumn, PgTable } from 'drizzle-orm/pg-core';
import * as z from 'zod';
import { inNumbers } from '../../authoring/rate.ts';
import { checkRoute, routeFields } from '../../authoring/route-schema.ts';
import { checkRule } from '../../authoring/rule-problems.ts';
import { type RuleFields, ruleFields, WRITTEN_DEFAULTS, writtenLimits } from '../../authoring/rule-schema.ts';
import { tierFields, tierName } from '../../authoring/tier-schema.ts';
import { ROUTE_DEFAULTS } from '../../core/matching/origin-routes.ts';
import { SETTINGS_DEFAULTS, type Settings } from '../../core/matching/snapshot.ts';
import { asOfOneMoment } from '../../rules/publishing/content.ts';
import type { Database } from '../../rules/tables/repository.ts';
import {
  apiKeys,
  listEntries,
  type RouteRow,
  routes as routesTable,
  rules as rulesTable,
  settings as settingsTable,
  tenants,
  tiers as tiersTable,
  users,
} from '../../rules/tables/tables.ts';
import { keyBodies, listBodies, settingsFields, tenantBodies, userBodies } from '../schemas.ts';

// Values of a document: leaves out defaults, and compares two values.

/** Leaves out fields that have their defaults. */
export function withoutDefaults(
  row: Readonly<Record<string, unknown>>,
  fields: readonly string[],
  defaults: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const said = fields.filter((field) => !(field in defaults && isSame(row[field], defaults[field])));
  return Object.fromEntries(said.map((field) => [field, row[field]]));
}

/** Compares values that came from JSON. The order of keys does not matter, but the order of list entries does. */
export function isSame(a: unknown, b: unknown): boolean {
  return JSON.stringify(a, sortKeys) === JSON.stringify(b, sortKeys);
}

function sortKeys(_: string, value: unknown): unknown {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
}

// Tenants, users, keys and lists in a full export, for a backup or a move to another database. A key is exported as its
// hash: it works after an import, and nobody can read it from a backup.

/** A document of 10 MiB has far fewer entries. */
const MAX_ENTRIES = 100_000;
/** Neon answers with 10 MB at most. */
const PAGE_ROWS = 5_000;

export const CALLER_KINDS = ['tenants', 'users', 'keys', 'lists'] as const;
export type CallerCollection = (typeof CALLER_KINDS)[number];

export interface CallerPart {
  readonly table: PgTable & { readonly id: AnyPgColumn };
  /** In Postgres, under the schema `weir`. */
  readonly tableName: string;
  /** The fields that tell two entries apart. */
  readonly key: readonly string[];
  readonly defaults: Readonly<Record<string, unknown>>;
  /** All fields, those of the key first. */
  readonly fields: readonly string[];
}

const KEY_DEFAULTS = { name: '', userId: null, tenantId: null, tier: null, expiresAt: null, disabled: false };
const LIST_DEFAULTS = { reason: '', expiresAt: null };

export const CALLER_PARTS: Readonly<Record<CallerCollection, CallerPart>> = {
  tenants: partOf(tenants, 'tenants', { key: ['id'], defaults: { name: '', tier: null, anchorDay: null } }),
  users: partOf(users, 'users', { key: ['id'], defaults: { tier: null, tenantId: null } }),
  keys: partOf(apiKeys, 'api_keys', { key: ['id'], also: ['hash', 'prefix'], defaults: KEY_DEFAULTS }),
  lists: partOf(listEntries, 'list_entries', { key: ['list', 'kind', 'value'], defaults: LIST_DEFAULTS }),
};

interface Fields {
  readonly key: readonly string[];
  readonly also?: readonly string[];
  readonly defaults: CallerPart['defaults'];
}

function partOf(
  table: CallerPart['table'],
  tableName: string,
  { key, also = [], defaults }: Fields,
): CallerPart {
  return { table, tableName, key, defaults, fields: [...key, ...also, ...Object.keys(defaults)] };
}

const documentKey = keyBodies.shown
  .omit({ revision: true, createdAt: true, updatedAt: true })
  .partial()
  .required({ id: true, prefix: true })
  .extend({
    hash: z
      .string()
      .regex(/^[0-9a-f]{64}$/, 'must be a SHA-256 in 64 hexadecimal digits')
      .describe('The hash of the key. Weir does not store the key itself.'),
  })
  .strict()
  .meta({ id: 'DocumentKey' });

const listOf = (schema: z.ZodType<Record<string, unknown>>, what: string) =>
  z.array(schema).max(MAX_ENTRIES).optional().describe(`If left out, ${what} stay as they are.`);

export const callerLists = {
  tenants: listOf(tenantBodies.create, 'tenants'),
  users: listOf(userBodies.create, 'users'),
  keys: listOf(documentKey, 'keys'),
  lists: listOf(listBodies.create, 'lists'),
};

export type CallerDocument = {
  readonly [K in CallerCollection]?: readonly Record<string, unknown>[] | undefined;
};

/** The entries of one kind as the document has them, in pages. */
export async function* readCallerPages(database: Database, kind: CallerCollection) {
  const { table, fields, defaults } = CALLER_PARTS[kind];
  for (let after: unknown; ; ) {
    const rows: Record<string, unknown>[] = await database
      .select()
      .from(table)
      .where(after === undefined ? undefined : gt(table.id, after))
      .orderBy(asc(table.id))
      .limit(PAGE_ROWS);
    yield rows.map((row) => withoutDefaults(row, fields, defaults));
    if (rows.length < PAGE_ROWS) return;
    after = rows.at(-1)?.['id'];
  }
}

const MAX_RULES = 20_000;
const MAX_TIERS = 1_000;
const MAX_ROUTES = 1_000;

const writtenRule = ruleFields
  .extend(writtenLimits)
  .partial()
  .required({ name: true })
  .extend({ id: z.guid().toLowerCase().optional().describe('Without an id, the name identifies the rule.') })
  .strict();

export const documentRule = writtenRule
  .transform(inNumbers)
  .superRefine((rule, context) => checkRule({ ...WRITTEN_DEFAULTS, ...rule } as RuleFields, context))
  .meta({ id: 'DocumentRule' });

export const DOCUMENT_RULE_FIELDS = Object.keys(writtenRule.shape);

export const documentRoute = routeFields
  .partial()
  .required({ name: true, origin: true })
  .extend({ id: z.guid().toLowerCase().optional().describe('Without an id, the name identifies the route.') })
  .strict()
  .superRefine((route, context) => checkRoute(route as Parameters<typeof checkRoute>[0], context))
  .meta({ id: 'DocumentRoute' });

export const documentTier = tierFields
  .partial()
  .extend({ name: tierName })
  .strict()
  .meta({ id: 'DocumentTier' });

export const documentSettings = z.strictObject(settingsFields).partial().meta({ id: 'DocumentSettings' });

export const importDocument = z
  .strictObject({
    weir: z.literal(1).describe('The version of this format.'),
    basedOn: z
      .int()
      .min(0)
      .optional()
      .describe('The import is refused if rules, tiers, routes or settings have changed since.'),
    tiers: z.array(documentTier).max(MAX_TIERS).optional().describe('If left out, tiers stay as they are.'),
    rules: z.array(documentRule).max(MAX_RULES).optional().describe('If left out, rules stay as they are.'),
    routes: z
      .array(documentRoute)
      .max(MAX_ROUTES)
      .optional()
      .describe('If left out, routes stay as they are.'),
    settings: documentSettings.optional().describe('Settings that are left out stay as they are.'),
    ...callerLists,
  })
  .meta({ id: 'RulesDocument' });

export type DocumentRule = z.infer<typeof documentRule>;
export type DocumentRoute = z.infer<typeof documentRoute>;
export type DocumentTier = z.infer<typeof documentTier>;
export type ImportDocument = z.infer<typeof importDocument>;

/** The defaults that a document leaves out. */
export const DOCUMENT_RULE_DEFAULTS = WRITTEN_DEFAULTS;
export const DOCUMENT_ROUTE_DEFAULTS = { ...ROUTE_DEFAULTS, enabled: true };
export const DOCUMENT_TIER_DEFAULTS = { displayName: '', priceCents: 0, limits: {}, isDefault: false };

export type RuleRow = typeof rulesTable.$inferSelect;
export type TierRow = typeof tiersTable.$inferSelect & { readonly isInUse: boolean };

export interface StoredRows {
  /** The last id in the history of rules, tiers, routes and settings. */
  readonly basedOn: number;
  /** A digest of the revisions of all rows. */
  readonly fingerprint: string;
  /** The size of the last publication. */
  readonly publishedBytes: number;
  readonly rules: readonly RuleRow[];
  readonly tiers: readonly TierRow[];
  readonly routes: readonly RouteRow[];
  readonly settings: Settings;
}

/** Reads all rows in one transaction. */
export async function readStoredRows(database: Database): Promise<StoredRows> {
  const [, state, rules, tiers, routes, settingRows] = await database.batch([
    asOfOneMoment(database),
    database.execute<{ based_on: string; fingerprint: string; bytes: string | null }>(sql`
      select coalesce(max(id), 0)::text as based_on, ${FINGERPRINT} as fingerprint,
        (select bytes::text from weir.last_publication) as bytes
      from weir.history where entity in ('rules', 'tiers', 'routes', 'settings')`),
    database.select().from(rulesTable).orderBy(asc(rulesTable.id)),
    database
      .select({ ...getTableColumns(tiersTable), isInUse: IS_IN_USE })
      .from(tiersTable)
      .orderBy(asc(tiersTable.name)),
    database.select().from(routesTable).orderBy(asc(routesTable.id)),
    database.select().from(settingsTable),
  ]);
  const { based_on = '0', fingerprint = '', bytes } = state.rows[0] ?? {};
  const publishedBytes = Number(bytes ?? 0);
  const { enforcement, fileExtensions } = settingRows[0] ?? SETTINGS_DEFAULTS;
  const settings = { enforcement, fileExtensions };
  return { basedOn: Number(based_on), fingerprint, publishedBytes, rules, tiers, routes, settings };
}

/** The history alone is not enough: of two simultaneous changes, Postgres can commit the one with the lower id last. */
export const FINGERPRINT = sql`(select md5(string_agg(part, ',' order by part)) from (
  select revision::text as part from weir.rules union all select revision::text from weir.tiers
  union all select revision::text from weir.routes union all select revision::text from weir.settings) parts)`;

const IS_IN_USE = sql<boolean>`(exists (select 1 from weir.tenants where tier = tiers.name)
  or exists (select 1 from weir.users where tier = tiers.name)
  or exists (select 1 from weir.api_keys where tier = tiers.name))`;

export function toDocument({ basedOn, rules, tiers, routes, settings }: StoredRows) {
  return {
    weir: 1 as const,
    basedOn,
    tiers: tiers.map(toDocumentTier).sort(byName),
    rules: rules.map(toDocumentRule).sort(byName),
    routes: routes.map(toDocumentRoute).sort(byName),
    // Written in full, because an import does not change settings that a document leaves out.
    settings,
  };
}

const byName = (a: { readonly name: string }, b: { readonly name: string }) => (a.name < b.name ? -1 : 1);

const toDocumentRule = (row: RuleRow): DocumentRule => {
  const { id, ...said } = withoutDefaults(row, DOCUMENT_RULE_FIELDS, DOCUMENT_RULE_DEFAULTS);
  return { id, ...said } as DocumentRule;
};

const toDocumentRoute = (row: RouteRow): DocumentRoute => {
  const { id, ...said } = withoutDefaults(row, Object.keys(documentRoute.shape), DOCUMENT_ROUTE_DEFAULTS);
  return { id, ...said } as DocumentRoute;
};

const toDocumentTier = (row: TierRow): DocumentTier =>
  withoutDefaults(row, Object.keys(documentTier.shape), DOCUMENT_TIER_DEFAULTS) as DocumentTier;

// Streams the full export, a page of rows at a time, so that an isolate never holds all of it.

/**
 * The export reads pages one after the other, while other clients may write. So it reads referenced rows last: if a
 * client creates a tenant and its users meanwhile, the document has the tenant of every user in it.
 */
const READ_IN_ORDER: readonly CallerCollection[] = ['keys', 'users', 'tenants', 'lists'];

export async function* everythingAsText(database: Database): AsyncGenerator<string> {
  yield '{\n  "weir": 1';
  for (const kind of READ_IN_ORDER) yield* listAsText(kind, readCallerPages(database, kind));
  const { tiers, rules, routes, settings } = toDocument(await readStoredRows(database));
  for (const [name, entries] of Object.entries({ tiers, rules, routes })) yield* listAsText(name, [entries]);
  yield `,\n  "settings": ${JSON.stringify(settings)}\n}\n`;
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

export function toStream(texts: AsyncGenerator<string>): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  return new ReadableStream({
    async pull(controller) {
      const { value, done } = await texts.next();
      if (done) controller.close();
      else controller.enqueue(encoder.encode(value));
    },
  });
}
