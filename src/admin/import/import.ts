// Writes an import: everything in one transaction, or nothing.

import { type SQL, sql } from 'drizzle-orm';
import type { Values } from '../../authoring/bodies.ts';
import {
  bytesOfListEntry,
  bytesOfRoute,
  bytesOfRule,
  bytesOfTier,
  MAX_SAVED_BYTES,
} from '../../rules/publishing/snapshot-size.ts';
import { asActor, type Database } from '../../rules/tables/repository.ts';
import { ALL_RULES } from '../../rules/tables/tables.ts';
import { postgresErrorOf } from '../routes/history.ts';
import {
  CALLER_KINDS,
  CALLER_PARTS,
  type CallerCollection,
  type CallerDocument,
  DOCUMENT_RULE_FIELDS,
  DOCUMENT_TIER_DEFAULTS,
  documentRoute,
  FINGERPRINT,
  type ImportDocument,
  readStoredRows,
  type StoredRows,
} from './document.ts';
import {
  type HowToImport,
  type ImportMode,
  type ImportPlan,
  type ImportProblem,
  placeOf,
  planImport,
  twice,
} from './plan.ts';

// Writes rows of a document as SQL.

/** Thousands of rows as one parameter. */
export function recordsOf(table: string, rows: readonly object[]): SQL {
  const json = JSON.stringify(
    rows.map((row) =>
      Object.fromEntries(Object.entries(row).map(([field, value]) => [toColumnName(field), value])),
    ),
  );
  return sql`jsonb_populate_recordset(null::weir.${sql.identifier(table)}, ${json}::jsonb) as record`;
}

export const columnOf = (field: string) => sql.identifier(toColumnName(field));
const toColumnName = (field: string) => field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

// Writes the tenants, users, keys and lists of a document. There can be many, so Postgres compares them.

export interface CallerCounts {
  readonly created: number;
  readonly updated: number;
  readonly deleted: number;
  readonly unchanged: number;
}

/** The counts of each kind that the document has. */
export type CallerSummary = { readonly [K in CallerCollection]?: CallerCounts };

const kindsIn = (document: CallerDocument): CallerCollection[] =>
  CALLER_KINDS.filter((kind) => document[kind] !== undefined);

/** Entries that mean the same row: Postgres would refuse the second one. */
export const doubledCallers = (document: CallerDocument): ImportProblem[] =>
  kindsIn(document).flatMap((kind) => {
    const { key } = CALLER_PARTS[kind];
    const entries = (document[kind] ?? []).map((entry) => ({
      [key.at(-1) ?? '']: JSON.stringify(key.map((field) => entry[field])),
    }));
    return twice(kind, key.at(-1) ?? '', entries);
  });

/** Counts what an import would change. */
export async function countCallers(
  database: Database,
  document: CallerDocument,
  mode: ImportMode,
): Promise<CallerSummary> {
  const counts = kindsIn(document).map(async (kind) => {
    const { rows } = await database.execute<Record<'created' | 'updated' | 'matched' | 'total', number>>(
      countQuery(kind, document),
    );
    const { created = 0, updated = 0, matched = 0, total = 0 } = rows[0] ?? {};
    const deleted = mode === 'replace' ? total - matched : 0;
    return [kind, { created, updated, deleted, unchanged: total - updated - deleted }] as const;
  });
  return Object.fromEntries(await Promise.all(counts));
}

function countQuery(kind: CallerCollection, document: CallerDocument): SQL {
  const { tableName, key, fields } = CALLER_PARTS[kind];
  const isThere = sql`stored.id is not null`;
  return sql`
    select count(*) filter (where stored.id is null)::int as created, count(*) filter (where ${isThere})::int as matched,
      count(*) filter (where ${isThere} and ${columns('stored', fields)} is distinct from ${columns('record', fields)})::int
        as updated,
      (select count(*)::int from weir.${sql.identifier(tableName)}) as total
    from ${entriesOf(kind, document)}
    left join weir.${sql.identifier(tableName)} as stored on ${columns('stored', key)} = ${columns('record', key)}`;
}

/** First deletes rows that refer to other rows, so that no reference is left behind. */
export const callerDeletions = (document: CallerDocument, mode: ImportMode): SQL[] =>
  mode === 'merge'
    ? []
    : kindsIn(document)
        .reverse()
        .map((kind) => {
          const { tableName, key } = CALLER_PARTS[kind];
          return sql`delete from weir.${sql.identifier(tableName)} as stored where not exists (
            select from ${entriesOf(kind, document)} where ${columns('stored', key)} = ${columns('record', key)})`;
        });

/** Runs after the tiers are written, because callers refer to tiers. Each kind refers only to kinds before it. */
export const callerWrites = (document: CallerDocument): SQL[] =>
  kindsIn(document).map((kind) => {
    const { tableName, key, fields } = CALLER_PARTS[kind];
    const names = sql.join(fields.map(columnOf), sql`, `);
    return sql`
      insert into weir.${sql.identifier(tableName)} as stored (${names})
      select ${names} from ${entriesOf(kind, document)}
      on conflict (${sql.join(key.map(columnOf), sql`, `)}) do update set (${names}) = ${columns('excluded', fields)}
      where ${columns('stored', fields)} is distinct from ${columns('excluded', fields)}`;
  });

function entriesOf(kind: CallerCollection, document: CallerDocument): SQL {
  const { tableName, defaults } = CALLER_PARTS[kind];
  return recordsOf(
    tableName,
    (document[kind] ?? []).map((entry) => ({ ...defaults, ...entry })),
  );
}

const columns = (of: 'stored' | 'record' | 'excluded', fields: readonly string[]) =>
  sql`row(${sql.join(
    fields.map((field) => sql`${sql.identifier(of)}.${columnOf(field)}`),
    sql`, `,
  )})`;

export interface ImportRequest extends HowToImport {
  readonly document: ImportDocument;
  readonly actor: string;
  readonly dryRun: boolean;
  /** Imports even if rules, tiers or routes have changed since the document was exported. */
  readonly force: boolean;
}

export type ImportResult =
  | {
      readonly kind: 'done';
      readonly stored: StoredRows;
      readonly plan: ImportPlan;
      readonly callers: CallerSummary;
    }
  | { readonly kind: 'invalid'; readonly plan: ImportPlan }
  | { readonly kind: 'too-large'; readonly bytes: number }
  | { readonly kind: 'changed-since'; readonly basedOn: number }
  | { readonly kind: 'tiers-in-use'; readonly names: readonly string[] };

const MAX_TRIES = 2;

/** If somebody changes a rule between reading and writing, the import starts again, once. */
export async function importRules(database: Database, request: ImportRequest): Promise<ImportResult> {
  for (let tries = 1; ; tries += 1) {
    const stored = await readStoredRows(database);
    const callers = await countCallers(database, request.document, request.mode);
    const result = judge(request, stored, callers);
    if (result.kind !== 'done' || request.dryRun) return result;
    try {
      await write(database, { ...request, plan: result.plan, stored });
      return result;
    } catch (error) {
      if (postgresErrorOf(error).code !== 'WE409') throw error;
      if (tries === MAX_TRIES) return { kind: 'changed-since', basedOn: stored.basedOn };
    }
  }
}

function judge(
  { document, force, ...how }: ImportRequest,
  stored: StoredRows,
  callers: CallerSummary,
): ImportResult {
  const { basedOn } = stored;
  if (!force && document.basedOn !== undefined && document.basedOn !== basedOn)
    return { kind: 'changed-since', basedOn };
  const planned = planImport(document, stored, how);
  const plan = { ...planned, problems: [...planned.problems, ...doubledCallers(document)] };
  if (plan.problems.length > 0) return { kind: 'invalid', plan };
  const inUse = plan.tiers.deleted.filter(({ isInUse }) => isInUse);
  if (inUse.length > 0) return { kind: 'tiers-in-use', names: inUse.map(({ name }) => name) };
  const grownBy =
    growthOf(plan.rules, bytesOfRule) +
    growthOf(plan.tiers, bytesOfTier) +
    growthOf(plan.routes, bytesOfRoute) +
    growthOfLists(document, callers);
  const bytes = stored.publishedBytes + grownBy;
  if (grownBy > 0 && bytes > MAX_SAVED_BYTES) return { kind: 'too-large', bytes };
  return { kind: 'done', stored, plan, callers };
}

type AnyPlan = ImportPlan['rules'] | ImportPlan['tiers'] | ImportPlan['routes'];

function growthOf({ created, updated, deleted }: AnyPlan, bytesOf: (row: Values) => number): number {
  const sum = (rows: readonly object[]) => rows.reduce((so, row) => so + bytesOf(row as Values), 0);
  const [before, after] = [updated.map(({ from }) => from), updated.map(({ to }) => to)];
  return sum(created) + sum(after) - sum(before) - sum(deleted);
}

/** Estimates the bytes of new list entries, as if they were as long as the others. */
function growthOfLists({ lists = [] }: ImportDocument, callers: CallerSummary): number {
  const bytes = lists.reduce((sum, entry) => sum + bytesOfListEntry(entry), 0);
  return lists.length === 0 ? 0 : (bytes * (callers.lists?.created ?? 0)) / lists.length;
}

interface Writing extends ImportRequest {
  readonly plan: ImportPlan;
  readonly stored: StoredRows;
}

async function write(database: Database, { plan, stored, actor, document, mode }: Writing): Promise<void> {
  const changes = [
    ...callerDeletions(document, mode),
    ...tierStatements(plan.tiers),
    ...ruleStatements(plan.rules, stored),
    ...routeStatements(plan.routes, stored),
    ...settingsStatements(plan.settings),
    ...callerWrites(document),
  ];
  if (changes.length === 0) return;
  await database.batch([
    asActor(database, actor),
    database.execute(
      sql`lock table weir.tiers, weir.rules, weir.routes, weir.settings in share row exclusive mode`,
    ),
    database.execute(sql`
      select weir.weir_expect_unchanged(array['rules', 'tiers', 'routes', 'settings'],
        case when ${FINGERPRINT} is not distinct from ${stored.fingerprint} then ${stored.basedOn}::bigint else -1 end)`),
    ...changes.map((statement) => database.execute(statement)),
  ]);
}

const TIER_FIELDS = ['name', ...Object.keys(DOCUMENT_TIER_DEFAULTS)];

/** Only one tier may be the default, so the old default is cleared before the new one is set. */
function tierStatements({ created, updated, deleted }: ImportPlan['tiers']): SQL[] {
  const changed = updated.map(({ to }) => to);
  return [
    ...deleteRows('tiers', 'name', deleted),
    ...updateRows(
      'tiers',
      'name',
      TIER_FIELDS,
      changed.filter(({ isDefault }) => !isDefault),
    ),
    ...updateRows(
      'tiers',
      'name',
      TIER_FIELDS,
      changed.filter(({ isDefault }) => isDefault),
    ),
    ...insertRows('tiers', TIER_FIELDS, created),
  ];
}

/**
 * Names must be unique after every single row. So a rule that takes over another's name is deleted and inserted again
 * with the same id, which also lets the history undo it step by step.
 */
function ruleStatements({ created, updated, deleted }: ImportPlan['rules'], stored: StoredRows): SQL[] {
  const gone = new Set(deleted.map(({ id }) => id));
  const holders = new Map(stored.rules.filter(({ id }) => !gone.has(id)).map(({ name, id }) => [name, id]));
  const takesName = ({ to }: (typeof updated)[number]) => (holders.get(to.name) ?? to.id) !== to.id;
  const replaced = updated.filter(takesName);
  const changed = updated.filter((one) => !takesName(one)).map(({ to }) => to);
  const again = replaced.map(({ from: { ordinal, createdAt }, to }) => ({ ...to, ordinal, createdAt }));
  return [
    ...deleteRows('rules', 'id', [...deleted, ...replaced.map(({ from }) => from)]),
    ...updateRows('rules', 'id', DOCUMENT_RULE_FIELDS, changed),
    ...insertRows('rules', [...DOCUMENT_RULE_FIELDS, 'ordinal', 'createdAt'], again),
    ...insertRows('rules', DOCUMENT_RULE_FIELDS, created),
  ];
}

const ROUTE_FIELDS = Object.keys(documentRoute.shape);

/** Like rules. Also, no two enabled routes may have the same host and prefix after any single row. */
function routeStatements({ created, updated, deleted }: ImportPlan['routes'], stored: StoredRows): SQL[] {
  const gone = new Set(deleted.map(({ id }) => id));
  const staying = stored.routes.filter(({ id }) => !gone.has(id));
  const names = new Map(staying.map(({ name, id }) => [name, id]));
  const places = new Map(staying.filter(({ enabled }) => enabled).map((row) => [placeOf(row), row.id]));
  const isHeld = ({ to }: (typeof updated)[number]) =>
    (names.get(to.name) ?? to.id) !== to.id || (places.get(placeOf(to)) ?? to.id) !== to.id;
  const replaced = updated.filter(isHeld);
  const changed = updated.filter((one) => !isHeld(one)).map(({ to }) => to);
  const again = replaced.map(({ from: { createdAt }, to }) => ({ ...to, createdAt }));
  return [
    ...deleteRows('routes', 'id', [...deleted, ...replaced.map(({ from }) => from)]),
    ...updateRows('routes', 'id', ROUTE_FIELDS, changed),
    ...insertRows('routes', [...ROUTE_FIELDS, 'createdAt'], again),
    ...insertRows('routes', ROUTE_FIELDS, created),
  ];
}

const settingsStatements = ({ to, changes }: ImportPlan['settings']): SQL[] =>
  Object.keys(changes).length === 0
    ? []
    : [
        sql`insert into weir.settings (id, enforcement, file_extensions)
          values (${ALL_RULES}, ${to.enforcement}, ${to.fileExtensions})
          on conflict (id) do update set enforcement = excluded.enforcement, file_extensions = excluded.file_extensions`,
      ];

function deleteRows(table: string, id: string, rows: readonly object[]): SQL[] {
  if (rows.length === 0) return [];
  return [
    sql`delete from weir.${sql.identifier(table)} where ${sql.identifier(id)} in
      (select ${sql.identifier(id)} from ${recordsOf(table, rows)})`,
  ];
}

function updateRows(table: string, id: string, fields: readonly string[], rows: readonly object[]): SQL[] {
  if (rows.length === 0) return [];
  const set = fields
    .filter((field) => field !== id)
    .map((field) => sql`${columnOf(field)} = record.${columnOf(field)}`);
  return [
    sql`update weir.${sql.identifier(table)} as stored set ${sql.join(set, sql`, `)}
      from ${recordsOf(table, rows)} where stored.${columnOf(id)} = record.${columnOf(id)}`,
  ];
}

function insertRows(table: string, fields: readonly string[], rows: readonly object[]): SQL[] {
  if (rows.length === 0) return [];
  const columns = sql.join(fields.map(columnOf), sql`, `);
  return [
    sql`insert into weir.${sql.identifier(table)} (${columns}) select ${columns} from ${recordsOf(table, rows)}`,
  ];
}
