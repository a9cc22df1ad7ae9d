// Reads pages of a table that people edit, and changes its rows. A change names its actor and fails if somebody else
// was faster. One change is one transaction.

import { neon, neonConfig } from '@neondatabase/serverless';
import { and, eq, getTableColumns, inArray, type SQL, sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/neon-http';
import type { PgColumn, PgTable } from 'drizzle-orm/pg-core';

export type Row = Readonly<Record<string, unknown>> & { readonly revision: number };

export interface RepositoryOptions {
  readonly table: PgTable & { readonly revision: PgColumn };
  readonly id: PgColumn;
  /** Ends with a unique column. None of these columns ever changes, so pages neither repeat nor skip a row. */
  readonly order: readonly PgColumn[];
}

export interface PageRequest {
  readonly where: readonly SQL[];
  readonly limit: number;
  /** The `next` of the page before. */
  readonly after?: readonly string[] | undefined;
}

export interface RowPage {
  readonly rows: readonly Row[];
  /** Where the next page begins; undefined: this is the last one. */
  readonly next: readonly string[] | undefined;
}

/** Who changes which row; with `revisions`, only if the row still has one of them. */
export interface Target {
  readonly actor: string;
  readonly id: string;
  readonly revisions?: readonly number[] | undefined;
}

export function createRepository(database: Database, { table, id, order }: RepositoryOptions) {
  const where = (target: Target) =>
    and(eq(id, target.id), target.revisions && inArray(table.revision, [...target.revisions]));

  return {
    async page({ where: filters, limit, after }: PageRequest): Promise<RowPage> {
      const found = await database
        .select({ row: getTableColumns(table), position: positionOf(order) })
        .from(table)
        .where(and(...filters, after && isBehind(order, after)))
        .orderBy(...order)
        .limit(limit + 1);
      const shown = found.slice(0, limit);
      const last = found.length > limit ? shown.at(-1) : undefined;
      return { rows: shown.map(({ row }) => row as Row), next: last && parsePosition(last.position) };
    },

    async get(wanted: string): Promise<Row | undefined> {
      const [row] = await database.select().from(table).where(eq(id, wanted));
      return row as Row | undefined;
    },

    /** `before` runs first, in the same transaction. */
    async insert(actor: string, values: Record<string, unknown>, before?: SQL): Promise<Row> {
      const change = database.insert(table).values(values).returning();
      const first = asActor(database, actor);
      const done = before
        ? await database.batch([first, database.execute(before), change])
        : await database.batch([first, change]);
      return (done.at(-1) as Row[])[0] as Row;
    },

    /** Undefined: there is no such row, or it has another revision. */
    async update(target: Target, values: Record<string, unknown>, before?: SQL): Promise<Row | undefined> {
      const change = database.update(table).set(values).where(where(target)).returning();
      const first = asActor(database, target.actor);
      const done = before
        ? await database.batch([first, database.execute(before), change])
        : await database.batch([first, change]);
      return (done.at(-1) as Row[])[0];
    },

    /** False: there is no such row, or it has another revision. */
    async remove(target: Target): Promise<boolean> {
      const change = database.delete(table).where(where(target)).returning({ revision: table.revision });
      const [, removed] = await database.batch([asActor(database, target.actor), change]);
      return removed.length > 0;
    },
  };
}

/** Comes first in a transaction: the triggers of the history record this name for all its changes. */
export const asActor = (database: Database, actor: string) =>
  database.execute(sql`select set_config('weir.actor', ${actor}, true)`);

/** As text, because a JavaScript Date is coarser than a timestamp of Postgres. */
const positionOf = (order: readonly PgColumn[]) =>
  sql<string>`json_build_array(${sql.join(
    order.map((column) => sql`${column}::text`),
    sql`, `,
  )})::text`;

const parsePosition = (json: string): readonly string[] => JSON.parse(json);

function isBehind(order: readonly PgColumn[], after: readonly string[]): SQL {
  const values = order.map((column, i) => sql`${after[i]}::${sql.raw(column.getSQLType())}`);
  return sql`(${sql.join([...order], sql`, `)}) > (${sql.join(values, sql`, `)})`;
}

// Postgres through Neon's HTTP driver. On the request path only the look-up of a caller uses it, under a deadline.

export interface DatabaseOptions {
  readonly url: string;
  /** Where the driver sends its HTTP requests, if not to Neon itself. The driver keeps this globally. */
  readonly httpEndpoint?: string | undefined;
}

export type Database = ReturnType<typeof createDatabase>;

export function createDatabase({ url, httpEndpoint }: DatabaseOptions) {
  if (httpEndpoint !== undefined) neonConfig.fetchEndpoint = httpEndpoint;
  return drizzle(neon(url), { casing: 'snake_case' });
}
