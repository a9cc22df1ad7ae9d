// Every change of rules, tiers, tenants, users, keys, lists, routes and settings: who made it, when, and how to undo
// it.

import { createRoute } from '@hono/zod-openapi';
import { and, desc, eq, gte, lt, sql } from 'drizzle-orm';
import * as z from 'zod';
import { ProblemError } from '../../http/internal-problems.ts';
import { asActor, type Database } from '../../rules/tables/repository.ts';
import { history } from '../../rules/tables/tables.ts';
import type { AdminApp, AdminServices } from '../app.ts';
import { badCursor, parseCursor, toCursor } from '../collection/revisions.ts';
import { problemResponses } from '../problems.ts';
import { publishChange, versionHeader } from '../publish-change.ts';

// Reads the history that triggers record (what was changed, by whom and when), and undoes changes.

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

const changeId = z
  .string()
  .regex(/^[1-9]\d{0,14}$/, 'must be the changeId of an entry')
  .transform(Number);
const moment = z.iso
  .datetime({ offset: true, error: 'must be a moment such as 2030-01-31T12:00:00Z, with its zone' })
  .transform((text) => new Date(text));
const row = z.record(z.string(), z.unknown()).nullable();

const historyEntry = z
  .strictObject({
    id: z.int(),
    changeId: z.int().describe('All entries of one change have the same id, and are rolled back together.'),
    at: z.iso.datetime(),
    actor: z
      .string()
      .describe('The name of the token, or the database role of a change by hand or by a migration.'),
    entity: z.enum(ENTITY_NAMES),
    entityId: z.string(),
    action: z.enum(['created', 'changed', 'deleted']),
    before: row,
    after: row,
  })
  .meta({ id: 'HistoryEntry' });

const listHistory = createRoute({
  operationId: 'listHistory',
  method: 'get',
  path: '/history',
  tags: ['history'],
  security: [{ bearer: [] }],
  summary: 'List changes, newest first',
  request: {
    query: z.strictObject({
      entity: z.enum(ENTITY_NAMES).optional(),
      entityId: z.string().max(256).optional(),
      actor: z.string().max(256).optional(),
      changeId: changeId.optional(),
      since: moment.optional().describe('Only entries of this moment or later.'),
      until: moment.optional().describe('Only entries before this moment.'),
      limit: z.coerce.number().int().min(1).max(200).default(50).describe('The size of a page.'),
      cursor: z.string().max(2048).optional().describe('The `nextCursor` of the previous page.'),
    }),
  },
  responses: {
    200: {
      description: 'A page of entries',
      content: {
        'application/json': {
          schema: z
            .strictObject({
              items: z.array(historyEntry),
              nextCursor: z.string().nullable().describe('Null on the last page.'),
            })
            .meta({ id: 'HistoryPage' }),
        },
      },
    },
    ...problemResponses(400),
  },
});

const rollBackChange = createRoute({
  operationId: 'rollBackChange',
  method: 'post',
  path: '/history/{changeId}/rollback',
  tags: ['history'],
  security: [{ bearer: [] }],
  summary: 'Undo a change as a whole',
  description: 'A rollback is a change, too: rolling it back restores what it undid.',
  request: {
    params: z.object({ changeId }),
    query: z.strictObject({ force: z.stringbool().prefault('false') }),
    body: {
      content: { 'application/json': { schema: z.strictObject({ force: z.boolean().default(false) }) } },
    },
  },
  responses: {
    200: {
      description: 'Undone',
      content: {
        'application/json': {
          schema: z.strictObject({
            changeId: z.int().describe('The id of the rollback itself, which is a change, too.'),
            rowCount: z.int(),
            warnings: z.array(z.string()),
          }),
        },
      },
    },
    ...problemResponses(400, 404, 409, 413, 415),
  },
});

export function addHistoryRoutes(app: AdminApp, services: AdminServices): void {
  app.openapi(listHistory, async (c) => {
    const { limit, cursor, ...filter } = c.req.valid('query');
    const before = cursor === undefined ? undefined : parsePosition(cursor);
    const found = await readHistory(services.database, { ...filter, before, limit: limit + 1 });
    const items = found.slice(0, limit);
    const last = found.length > limit ? items.at(-1) : undefined;
    return c.json({ items: items.map(toItem), nextCursor: last ? toCursor([String(last.id)]) : null }, 200);
  });

  app.openapi(rollBackChange, async (c) => {
    const { changeId } = c.req.valid('param');
    const force = c.req.valid('query').force || c.req.valid('json').force === true;
    const result = await rollBack(services.database, { changeId, actor: c.get('actor').name, force });
    if (result.kind === 'unknown-change') throw unknownChange();
    if (result.kind === 'changed-since') throw changedSince(result.detail);
    const published = await publishChange(services, 'all');
    const { changeId: rollbackId, rowCount } = result;
    return c.json(
      { changeId: rollbackId, rowCount, warnings: [...published.warnings] },
      200,
      versionHeader(published),
    );
  });
}

function toItem({ at, before, after, ...entry }: HistoryEntry) {
  const action = before === null ? 'created' : after === null ? 'deleted' : 'changed';
  return { ...entry, at: at.toISOString(), action, before, after } as const;
}

function parsePosition(cursor: string): number {
  const [id = ''] = parseCursor(cursor, 1);
  if (!/^\d{1,15}$/.test(id)) throw badCursor();
  return Number(id);
}

const unknownChange = () =>
  new ProblemError({ status: 404, code: 'not-found', title: 'There is no such change' });

const changedSince = (detail: string) =>
  new ProblemError({
    status: 409,
    code: 'changed-since',
    title: 'Something has changed since',
    detail: `${detail}. With force=true it is undone nevertheless.`,
  });
