// Every change of rules, tiers, tenants, users, keys, lists, routes and settings: who made it, when, and how to undo
// it.
import { createRoute } from '@hono/zod-openapi';
import * as z from 'zod';
import { badCursor, parseCursor, toCursor } from '../collection/cursors.ts';
import { ENTITY_NAMES, type HistoryEntry, readHistory, rollBack } from '../history.ts';
import { AdminError, problemResponses } from '../problems.ts';
import { publishChange, versionHeader } from '../publish-change.ts';
import type { AdminApp, AdminServices } from '../services.ts';

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
  new AdminError({ status: 404, code: 'not-found', title: 'There is no such change' });

const changedSince = (detail: string) =>
  new AdminError({
    status: 409,
    code: 'changed-since',
    title: 'Something has changed since',
    detail: `${detail}. With force=true it is undone nevertheless.`,
  });
