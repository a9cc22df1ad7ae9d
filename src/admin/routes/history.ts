// Every change of rules, tiers, tenants, users, keys, lists, routes and settings, as triggers record it: who made it,
// when, and how to undo it.

import { and, desc, eq, getTableName, gte, lt, sql } from 'drizzle-orm';
import * as z from 'zod';
import { moment } from '../../authoring/bodies.ts';
import { ProblemError } from '../../http/internal-requests.ts';
import { asActor, type Database } from '../../rules/tables/repository.ts';
import { history, settings } from '../../rules/tables/tables.ts';
import type { AdminApp, AdminServices } from '../app.ts';
import { COLLECTIONS } from '../collections.ts';
import { addOperation } from '../operation.ts';
import { numberIn, pageOf, pageQuery, parseCursor, toPage } from '../paging.ts';
import { publishChange, versionHeader } from '../publish-change.ts';

/** Of revocations, which are no rows of a table. */
const CALLERS = 'callers';

/** The tables by the names that the admin route gives them. */
const TABLES = new Map([
  ...COLLECTIONS.map(({ path, table }) => [path, getTableName(table)] as const),
  ['settings', getTableName(settings)] as const,
  [CALLERS, CALLERS] as const,
]);
const ENTITIES = new Map([...TABLES].map(([entity, table]) => [table, entity]));

/** Columns that the history hides: a key's hash is as good as a secret, and the others are internal. */
const HIDDEN = ['hash', 'ordinal', 'placed_before'];

/** Translates column names into the field names of the admin route. */
function toFields(row: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const shown = Object.entries(row).filter(([column]) => !HIDDEN.includes(column));
  return Object.fromEntries(
    shown.map(([column, value]) => [
      column.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()),
      column.endsWith('_at') && typeof value === 'string' ? new Date(value).toISOString() : value,
    ]),
  );
}

const ACTIONS = ['created', 'changed', 'deleted'] as const;
const actionOf = (before: unknown, after: unknown): (typeof ACTIONS)[number] =>
  before === null ? 'created' : after === null ? 'deleted' : 'changed';

export interface RollbackRequest {
  readonly changeId: number;
  readonly actor: string;
  /** Undoes the change even if something has changed since. */
  readonly force: boolean;
}

/** Returns the id of the rollback itself, which can be rolled back, too. */
export async function rollBack(database: Database, { changeId, actor, force }: RollbackRequest) {
  const [, { rows }] = await database.batch([
    asActor(database, actor),
    database.execute<{ row_count: number; change_id: string }>(sql`
      select weir.weir_rollback(${changeId}, ${force}) as row_count, weir.weir_change_id()::text as change_id
      where not exists (select from ${history} where change_id = ${changeId} and entity = ${CALLERS})`),
  ]);
  const [row] = rows;
  if (!row) throw new ProblemError(NOT_UNDONE);
  return { changeId: Number(row.change_id), rowCount: row.row_count };
}

const NOT_UNDONE = {
  status: 409,
  code: 'not-undone',
  title: 'A revocation cannot be undone',
  detail: 'Isolates ask again whose credential it is. There is nothing to bring back.',
};

// Answers of the operator's own authentication. They have no row, so their revocation is an entry of the history alone.

const id = z
  .string()
  .min(1)
  .max(256)
  .regex(/^\P{Cc}*$/u, 'must have no control characters')
  .optional();

const revocation = z
  .strictObject({ userId: id, apiKeyId: id, tenantId: id })
  .refine((ids) => Object.values(ids).some((one) => one !== undefined), {
    message: 'must have at least one of userId, apiKeyId and tenantId',
  })
  .meta({ id: 'Revocation' });

/** The names under which isolates look for revisions (core/ports/callers.ts). */
const revokedIn = ({ userId, apiKeyId, tenantId }: z.output<typeof revocation>): string[] =>
  Object.entries({ user: userId, apiKey: apiKeyId?.toLowerCase(), tenant: tenantId }).flatMap(
    ([kind, one]) => (one === undefined ? [] : [`${kind}:${one}`]),
  );

export function addRevocationRoutes(app: AdminApp, services: AdminServices): void {
  addOperation(
    app,
    {
      id: 'revokeCaller',
      call: 'POST /callers/revoke',
      group: 'operations',
      summary: 'Forget what your own authentication has said of a caller',
      description:
        'With IDENTITY: no isolate uses an older answer that names this user, key or tenant. ' +
        'Each asks again whose credential it is.',
      body: revocation,
      says: 'Revoked',
      answer: z
        .strictObject({ revoked: z.array(z.string()), warnings: z.array(z.string()) })
        .meta({ id: 'RevocationResult' }),
    },
    async ({ body, actor, headers }) => {
      const revoked = revokedIn(body);
      const rows = revoked.map(
        (one) =>
          sql`(weir.weir_change_id(), ${actor.name}, ${CALLERS}, ${one}, ${JSON.stringify({ id: one })}::jsonb)`,
      );
      await services.database.execute(sql`
        insert into ${history} (change_id, actor, entity, entity_id, after) values ${sql.join(rows, sql`, `)}`);
      const published = await publishChange(services, []);
      Object.assign(headers, versionHeader(published));
      return { revoked, warnings: published.warnings };
    },
  );
}

const changeId = z
  .string()
  .regex(/^[1-9]\d{0,14}$/, 'must be the changeId of an entry')
  .transform(Number);
const entity = z.enum([...TABLES.keys()]);
const row = z.record(z.string(), z.unknown()).nullable();

const historyEntry = z
  .strictObject({
    id: z.int(),
    changeId: z.int().describe('All entries of one change have the same id, and are rolled back together.'),
    at: z.iso.datetime(),
    actor: z
      .string()
      .describe('The name of the token, or the database role of a change by hand or by a migration.'),
    entity,
    entityId: z.string(),
    action: z.enum(ACTIONS),
    before: row,
    after: row,
  })
  .meta({ id: 'HistoryEntry' });

export function addHistoryRoutes(app: AdminApp, services: AdminServices): void {
  const { database } = services;

  addOperation(
    app,
    {
      id: 'listHistory',
      call: 'GET /history',
      group: 'history',
      summary: 'List changes, newest first',
      query: z.strictObject({
        entity: entity.optional(),
        entityId: z.string().max(256).optional(),
        actor: z.string().max(256).optional(),
        changeId: changeId.optional(),
        since: moment.optional().describe('Only entries of this moment or later.'),
        until: moment.optional().describe('Only entries before this moment.'),
        ...pageQuery(200),
      }),
      says: 'A page of entries',
      answer: pageOf('HistoryPage', historyEntry),
    },
    async ({ query: { limit, cursor, since, until, ...query } }) => {
      const is = <Value>(value: Value | undefined, toCondition: (value: Value) => ReturnType<typeof eq>) =>
        value === undefined ? undefined : toCondition(value);
      const rows = await database
        .select()
        .from(history)
        .where(
          and(
            is(query.entity, (name) => eq(history.entity, TABLES.get(name) ?? name)),
            is(query.entityId, (id) => eq(history.entityId, id)),
            is(query.actor, (actor) => eq(history.actor, actor)),
            is(query.changeId, (id) => eq(history.changeId, id)),
            is(since, (from) => gte(history.at, from)),
            is(until, (to) => lt(history.at, to)),
            is(cursor, (text) => lt(history.id, numberIn(parseCursor(text, 1)[0], 15))),
          ),
        )
        .orderBy(desc(history.id))
        .limit(limit + 1);
      const { items, nextCursor } = toPage(rows, limit, ({ id }) => [String(id)]);
      return {
        items: items.map(({ at, before, after, ...entry }) => ({
          ...entry,
          at: at.toISOString(),
          entity: ENTITIES.get(entry.entity) ?? entry.entity,
          action: actionOf(before, after),
          before: before && toFields(before),
          after: after && toFields(after),
        })),
        nextCursor,
      };
    },
  );

  addOperation(
    app,
    {
      id: 'rollBackChange',
      call: 'POST /history/{changeId}/rollback',
      group: 'history',
      summary: 'Undo a change as a whole',
      description: 'A rollback is a change, too: rolling it back restores what it undid.',
      params: z.object({ changeId }),
      query: z.strictObject({ force: z.stringbool().prefault('false') }),
      body: z.strictObject({ force: z.boolean().default(false) }),
      mayLackBody: true,
      says: 'Undone',
      answer: z.strictObject({
        changeId: z.int().describe('The id of the rollback itself, which is a change, too.'),
        rowCount: z.int(),
        warnings: z.array(z.string()),
      }),
      problems: [404, 409],
    },
    async ({ params, query, body, actor, headers }) => {
      const force = query.force || body.force;
      const rollback = await rollBack(database, { ...params, actor: actor.name, force });
      const published = await publishChange(services, 'all');
      Object.assign(headers, versionHeader(published));
      return { ...rollback, warnings: published.warnings };
    },
  );
}
