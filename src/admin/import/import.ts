// Writes an import: everything in one transaction, or nothing.

import { getTableName, type SQL, sql } from 'drizzle-orm';
import type { AnyPgColumn } from 'drizzle-orm/pg-core';
import type { Values } from '../../authoring/bodies.ts';
import { invalidBody, ProblemError } from '../../http/internal-requests.ts';
import { MAX_SAVED_BYTES } from '../../rules/publishing/snapshot-size.ts';
import { asActor, type Database } from '../../rules/tables/repository.ts';
import { ALL_RULES } from '../../rules/tables/tables.ts';
import type { Collection, Deployment } from '../collection/declaration.ts';
import { CALLERS, TIERS } from '../collections.ts';
import { sqlStateOf } from '../problems.ts';
import { tooLarge } from '../publish-change.ts';
import { entriesIn, FINGERPRINT, type ImportDocument, readStoredRows, type StoredRows } from './document.ts';
import { type CollectionPlan, type ImportMode, type ImportPlan, planImport, takenBy } from './plan.ts';

export interface ImportRequest {
  readonly document: ImportDocument;
  readonly mode: ImportMode;
  readonly deployment: Deployment;
  readonly actor: string;
  readonly dryRun: boolean;
  /** Imports even if rules, tiers or routes have changed since the document was exported. */
  readonly force: boolean;
}

const MAX_TRIES = 2;

/** If somebody changes a rule between reading and writing, the import starts again, once. */
export async function importRules(database: Database, request: ImportRequest) {
  for (let tries = 1; ; tries += 1) {
    const stored = await readStoredRows(database);
    const { basedOn } = stored;
    const callers = await countCallers(database, request);
    const plan = expectPossible(request, stored, callers);
    if (request.dryRun) return { basedOn, plan, callers };
    try {
      await write(database, request, { plan, stored });
      return { basedOn, plan, callers };
    } catch (error) {
      if (sqlStateOf(error) !== 'WE409') throw error;
      if (tries === MAX_TRIES) throw changedSince(stored);
    }
  }
}

const changedSince = ({ basedOn }: StoredRows) =>
  new ProblemError({
    status: 409,
    code: 'changed-since',
    title: 'Rules, tiers, routes or settings have changed since',
    detail: `They are at ${basedOn} now. With force=true the document is taken over nevertheless.`,
  });

function expectPossible(
  { document, force, ...how }: ImportRequest,
  stored: StoredRows,
  callers: CallerSummary,
): ImportPlan {
  const { basedOn } = document;
  if (!force && basedOn !== undefined && basedOn !== stored.basedOn) throw changedSince(stored);
  const plan = planImport(document, stored, how);
  if (plan.errors.length > 0) throw invalidBody(plan.errors);
  const tiers = plan.collections.find(({ collection }) => collection === TIERS)?.deleted ?? [];
  const inUse = tiers.filter(({ isInUse }) => isInUse);
  if (inUse.length > 0)
    throw new ProblemError({
      status: 409,
      code: 'still-in-use',
      title: 'Tiers that are not in the document are still in use',
      detail: `By users, tenants or keys: ${inUse.map(({ name }) => name).join(', ')}.`,
    });
  const grownBy =
    plan.collections.reduce((sum, one) => sum + growthOf(one), 0) + growthOfCallers(document, callers);
  const bytes = stored.publishedBytes + grownBy;
  if (grownBy > 0 && bytes > MAX_SAVED_BYTES) throw tooLarge(bytes);
  return plan;
}

function growthOf({ collection, created, updated, deleted }: CollectionPlan): number {
  const sum = (rows: readonly Values[]) => rows.reduce((so, row) => so + (collection.bytesOf?.(row) ?? 0), 0);
  const [before, after] = [updated.map(({ from }) => from), updated.map(({ to }) => to)];
  return sum(created) + sum(after) - sum(before) - sum(deleted);
}

/** Estimates the bytes of new tenants and list entries, as if they were as long as the others. */
const growthOfCallers = (document: ImportDocument, callers: CallerSummary): number =>
  CALLERS.reduce((sum, collection) => {
    const entries = entriesIn(document, collection) ?? [];
    const bytes = entries.reduce((so, entry) => so + (collection.bytesOf?.(entry) ?? 0), 0);
    return bytes === 0 ? sum : sum + (bytes * (callers[collection.path]?.created ?? 0)) / entries.length;
  }, 0);

/** Deletes rows that refer to others before these, and writes them after these. */
async function write(
  database: Database,
  request: ImportRequest,
  { plan, stored }: { readonly plan: ImportPlan; readonly stored: StoredRows },
): Promise<void> {
  const changes = [
    ...callersIn(request.document).toReversed().flatMap(deletionsOfCallers(request)),
    ...plan.collections.flatMap(writesOf),
    ...writesOfSettings(plan.settings),
    ...callersIn(request.document).flatMap(({ collection, entries }) => upsert(collection, entries)),
  ];
  if (changes.length === 0) return;
  await database.batch([
    asActor(database, request.actor),
    database.execute(
      sql`lock table weir.tiers, weir.rules, weir.routes, weir.settings in share row exclusive mode`,
    ),
    database.execute(sql`
      select weir.weir_expect_unchanged(array['rules', 'tiers', 'routes', 'settings'],
        case when ${FINGERPRINT} is not distinct from ${stored.fingerprint} then ${stored.basedOn}::bigint else -1 end)`),
    ...changes.map((statement) => database.execute(statement)),
  ]);
}

/**
 * What is unique must be so after every single row. So a row that takes over another's name is deleted and inserted
 * again with the same id, which also lets the history undo it step by step. Tiers cannot be deleted, because callers
 * refer to them: the one that becomes the default is written after the one that was.
 */
function writesOf({ collection, created, updated, deleted, staying }: CollectionPlan): SQL[] {
  const { unique = [], keeps } = collection.inDocuments;
  const holders = unique.map((one) => new Map(staying.map((row) => [takenBy(one, row), row])));
  const takesOver = ({ from, to }: (typeof updated)[number]) =>
    unique.some((one, i) => {
      const value = takenBy(one, to);
      return value !== undefined && (holders[i]?.get(value) ?? from) !== from;
    });
  const taking = updated.filter(takesOver);
  const others = updated.filter((one) => !takesOver(one));
  const again = keeps ? taking : [];
  const written = [...others, ...(keeps ? [] : taking)].map(({ to }) => to);
  const kept = again.map(({ from, to }) => ({
    ...Object.fromEntries((keeps ?? []).map((field) => [field, from[field]])),
    ...to,
  }));
  return [
    ...deleteRows(collection, [...deleted, ...again.map(({ from }) => from)]),
    ...upsert(collection, written),
    ...upsert(collection, kept, [...collection.bodies.documentFields, ...(keeps ?? [])]),
    ...upsert(collection, created),
  ];
}

const writesOfSettings = ({ to, changes }: ImportPlan['settings']): SQL[] =>
  Object.keys(changes).length === 0
    ? []
    : [
        sql`insert into weir.settings (id, enforcement, file_extensions)
          values (${ALL_RULES}, ${to.enforcement}, ${to.fileExtensions})
          on conflict (id) do update set enforcement = excluded.enforcement, file_extensions = excluded.file_extensions`,
      ];

// Tenants, users, keys and lists: there can be many, so Postgres compares them.

const callersIn = (document: ImportDocument) =>
  CALLERS.flatMap((collection) => {
    const entries = entriesIn(document, collection);
    return entries ? [{ collection, entries }] : [];
  });

type Entries = ReturnType<typeof callersIn>[number];

type CallerSummary = Awaited<ReturnType<typeof countCallers>>;

/** Counts what an import would change in each collection that the document has. */
async function countCallers(database: Database, { document, mode }: ImportRequest) {
  const counts = callersIn(document).map(async ({ collection, entries }) => {
    const { rows } = await database.execute<Record<'created' | 'updated' | 'matched' | 'total', number>>(
      countQuery(collection, entries),
    );
    const { created = 0, updated = 0, matched = 0, total = 0 } = rows[0] ?? {};
    const deleted = mode === 'replace' ? total - matched : 0;
    return [collection.path, { created, updated, deleted, unchanged: total - updated - deleted }] as const;
  });
  return Object.fromEntries(await Promise.all(counts));
}

function countQuery(collection: Collection, entries: readonly Values[]): SQL {
  const { table, id, bodies } = collection;
  const isThere = sql`stored.${idOf(id)} is not null`;
  const [stored, given] = [tuple('stored', bodies.documentFields), tuple('record', bodies.documentFields)];
  return sql`
    select count(*) filter (where not ${isThere})::int as created, count(*) filter (where ${isThere})::int as matched,
      count(*) filter (where ${isThere} and ${stored} is distinct from ${given})::int as updated,
      (select count(*)::int from ${table}) as total
    from ${recordsOf(collection, entries)} left join ${table} as stored on ${haveOneKey(collection)}`;
}

const deletionsOfCallers =
  ({ mode }: ImportRequest) =>
  ({ collection, entries }: Entries): SQL[] =>
    mode === 'merge'
      ? []
      : [
          sql`delete from ${collection.table} as stored where not exists (
            select from ${recordsOf(collection, entries)} where ${haveOneKey(collection)})`,
        ];

// Rows of a collection as SQL.

/** Thousands of rows as one parameter. */
function recordsOf({ table }: Collection, rows: readonly Values[]): SQL {
  const json = JSON.stringify(
    rows.map((row) =>
      Object.fromEntries(Object.entries(row).map(([field, value]) => [toColumnName(field), value])),
    ),
  );
  return sql`jsonb_populate_recordset(null::weir.${sql.identifier(getTableName(table))}, ${json}::jsonb) as record`;
}

const toColumnName = (field: string) => field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
const columnOf = (field: string) => sql.identifier(toColumnName(field));
const idOf = ({ name }: AnyPgColumn) => columnOf(name);
const listOf = (parts: readonly (SQL | ReturnType<typeof columnOf>)[]) => sql.join([...parts], sql`, `);
const tuple = (of: 'stored' | 'record' | 'excluded', fields: readonly string[]) =>
  sql`row(${listOf(fields.map((field) => sql`${sql.identifier(of)}.${columnOf(field)}`))})`;

const keyOf = ({ id, inDocuments }: Collection) => (inDocuments.key ?? [id]).map(({ name }) => name);
const haveOneKey = (collection: Collection) =>
  sql`${tuple('stored', keyOf(collection))} = ${tuple('record', keyOf(collection))}`;

function deleteRows(collection: Collection, rows: readonly Values[]): SQL[] {
  if (rows.length === 0) return [];
  const { table, id } = collection;
  const keys = rows.map((row) => ({ [id.name]: row[id.name] }));
  return [
    sql`delete from ${table} where ${idOf(id)} in (select ${idOf(id)} from ${recordsOf(collection, keys)})`,
  ];
}

/** Inserts rows in this order, or updates those that are there and differ. */
function upsert(
  collection: Collection,
  rows: readonly Values[],
  fields: readonly string[] = collection.bodies.documentFields,
): SQL[] {
  if (rows.length === 0) return [];
  const names = listOf(fields.map(columnOf));
  return [
    sql`insert into ${collection.table} as stored (${names})
      select ${names} from ${recordsOf(collection, rows)}
      on conflict (${listOf(keyOf(collection).map(columnOf))}) do update set (${names}) = ${tuple('excluded', fields)}
      where ${tuple('stored', fields)} is distinct from ${tuple('excluded', fields)}`,
  ];
}
