// Writes the tenants, users, keys and lists of a document. There can be many, so Postgres compares them.
import { type SQL, sql } from 'drizzle-orm';
import type { Database } from '../../rules/tables/database.ts';
import { CALLER_KINDS, CALLER_PARTS, type CallerDocument, type CallerKind } from './caller-document.ts';
import { type ImportMode, type ImportProblem, twice } from './import-plan.ts';
import { columnOf, recordsOf } from './records.ts';

export interface CallerCounts {
  readonly created: number;
  readonly updated: number;
  readonly deleted: number;
  readonly unchanged: number;
}

/** The counts of each kind that the document has. */
export type CallerSummary = { readonly [K in CallerKind]?: CallerCounts };

const kindsIn = (document: CallerDocument): CallerKind[] =>
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

function countQuery(kind: CallerKind, document: CallerDocument): SQL {
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

function entriesOf(kind: CallerKind, document: CallerDocument): SQL {
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
