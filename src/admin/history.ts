// Reads the history that triggers record (what was changed, by whom and when), and undoes changes.
import { and, desc, eq, gte, lt, sql } from 'drizzle-orm';
import type { Database } from '../rules/tables/database.ts';
import { asActor } from '../rules/tables/repository.ts';
import { history } from '../rules/tables/schema.ts';

/** The tables by the names that the admin route gives them. */
const TABLES = {
  rules: 'rules',
  tiers: 'tiers',
  tenants: 'tenants',
  users: 'users',
  keys: 'api_keys',
  lists: 'list_entries',
  routes: 'routes',
  settings: 'settings',
} as const;
export type EntityName = keyof typeof TABLES;
export const ENTITY_NAMES = Object.keys(TABLES) as [EntityName, ...EntityName[]];

export interface HistoryFilter {
  readonly entity?: EntityName | undefined;
  readonly entityId?: string | undefined;
  readonly actor?: string | undefined;
  readonly changeId?: number | undefined;
  readonly since?: Date | undefined;
  /** Not included. */
  readonly until?: Date | undefined;
  /** Only entries with a smaller id, which are older ones. */
  readonly before?: number | undefined;
  readonly limit: number;
}

export interface HistoryEntry {
  readonly id: number;
  readonly changeId: number;
  readonly at: Date;
  readonly actor: string;
  readonly entity: EntityName;
  readonly entityId: string;
  readonly before: Readonly<Record<string, unknown>> | null;
  readonly after: Readonly<Record<string, unknown>> | null;
}

/** Newest first. */
export async function readHistory(database: Database, filter: HistoryFilter): Promise<HistoryEntry[]> {
  const { entity, entityId, actor, changeId, since, until, before, limit } = filter;
  const rows = await database
    .select()
    .from(history)
    .where(
      and(
        entity === undefined ? undefined : eq(history.entity, TABLES[entity]),
        entityId === undefined ? undefined : eq(history.entityId, entityId),
        actor === undefined ? undefined : eq(history.actor, actor),
        changeId === undefined ? undefined : eq(history.changeId, changeId),
        since && gte(history.at, since),
        until && lt(history.at, until),
        before === undefined ? undefined : lt(history.id, before),
      ),
    )
    .orderBy(desc(history.id))
    .limit(limit);
  return rows.map((row) => ({
    ...row,
    entity: entityNameOf(row.entity),
    before: row.before && toFields(row.before),
    after: row.after && toFields(row.after),
  }));
}

const entityNameOf = (table: string): EntityName =>
  ENTITY_NAMES.find((name) => TABLES[name] === table) ?? 'rules';

/** Columns that the history hides: a key's hash is as good as a secret, and the others are internal. */
const HIDDEN = ['hash', 'ordinal', 'placed_before'];

/** Translates column names into the field names of the admin route. */
function toFields(row: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const shown = Object.entries(row).filter(([column]) => !HIDDEN.includes(column));
  return Object.fromEntries(
    shown.map(([column, value]) => [
      toFieldName(column),
      column.endsWith('_at') && typeof value === 'string' ? new Date(value).toISOString() : value,
    ]),
  );
}

const toFieldName = (column: string) =>
  column.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());

export interface RollbackRequest {
  readonly changeId: number;
  readonly actor: string;
  /** Undoes the change even if something has changed since. */
  readonly force: boolean;
}

export type Rollback =
  /** `changeId` is the id of the rollback itself, which can be rolled back, too. */
  | { readonly kind: 'done'; readonly changeId: number; readonly rowCount: number }
  | { readonly kind: 'unknown-change' }
  | { readonly kind: 'changed-since'; readonly detail: string };

export async function rollBack(
  database: Database,
  { changeId, actor, force }: RollbackRequest,
): Promise<Rollback> {
  try {
    const [, { rows }] = await database.batch([
      asActor(database, actor),
      database.execute<{ row_count: number; change_id: string }>(sql`
        select weir.weir_rollback(${changeId}, ${force}) as row_count, weir.weir_change_id()::text as change_id`),
    ]);
    const [row] = rows;
    return { kind: 'done', changeId: Number(row?.change_id), rowCount: row?.row_count ?? 0 };
  } catch (error) {
    const { code, message } = postgresErrorOf(error);
    if (code === 'WE404') return { kind: 'unknown-change' };
    if (code === 'WE409') return { kind: 'changed-since', detail: message };
    throw error;
  }
}

/** The error of Postgres itself, unwrapped from the errors of the driver and Drizzle. */
export function postgresErrorOf(error: unknown): {
  readonly code: string | undefined;
  readonly message: string;
} {
  const cause = error instanceof Error ? (error.cause ?? error) : error;
  if (!(cause instanceof Error)) return { code: undefined, message: '' };
  return {
    code: 'code' in cause && typeof cause.code === 'string' ? cause.code : undefined,
    message: cause.message,
  };
}
