// Makes a collection of the admin route from its declaration: list, create, get, replace, patch, delete.

import { createRoute, type RouteConfig } from '@hono/zod-openapi';
import * as z from 'zod';
import type { BodySchemas, Values } from '../../authoring/bodies.ts';
import { ProblemError } from '../../http/internal-problems.ts';
import { createRepository, type Row, type Target } from '../../rules/tables/repository.ts';
import type { AdminApp, AdminServices } from '../app.ts';
import { notFound, problemResponses, sqlStateOf } from '../problems.ts';
import { expectRoom, type PublishedChange, publishChange, versionHeader } from '../publish-change.ts';
import { applyPatch, type Save, takeChanges } from './changes.ts';
import type { Brought, Collection } from './declaration.ts';
import { allowedRevisions, badCursor, isKnown, parseCursor, toCursor, toETag } from './revisions.ts';

// The six operations of a collection, as the OpenAPI document describes them and as requests are validated.

const ETAG = header('The revision, for If-Match and If-None-Match.');
const WRITTEN = {
  ETag: ETAG,
  'X-Weir-Rules-Version': header(
    'The version of the rules that holds this change; absent if it is not published.',
  ),
};
const warnings = z
  .array(z.string())
  .optional()
  .describe('Probable mistakes, and changes that are not in force yet. Absent if there are none.');

const ifMatch = z.object({
  'If-Match': z.string().optional().describe('Refuse the change (412) unless the row still has this ETag.'),
});
const ifNoneMatch = z.object({
  'If-None-Match': z.string().optional().describe('Answer 304 if the row still has this ETag.'),
});

export function operationsOf({ path, noun, bodies, filters, describeId }: Collection) {
  const group = { tags: [path] };
  const { one: name, many } = namesOf(noun);
  const one = z.object({ id: z.string().describe(describeId ?? `The id of the ${noun}.`) });
  const changed = bodies.shown.extend({ warnings }).meta({ id: `${bodies.name}Changed` });
  const created = bodies.created.extend({ warnings }).meta({ id: `${bodies.name}Created` });
  const body = (schema: Collection['bodies']['create']) => ({
    required: true,
    content: { 'application/json': { schema } },
  });

  return {
    list: createRoute({
      ...group,
      operationId: `list${many}`,
      method: 'get',
      path: `/${path}`,
      summary: `List ${path}`,
      description: 'In pages: send `nextCursor` back as `cursor` until it is null.',
      request: { query: z.strictObject({ ...paging, ...filters }) },
      responses: responses({ 200: answer('A page', pageOf(bodies.shown, bodies.name)) }, 400),
    }),
    create: createRoute({
      ...group,
      operationId: `create${name}`,
      method: 'post',
      path: `/${path}`,
      summary: `Create a ${noun}`,
      request: { body: body(bodies.create) },
      responses: responses(
        { 201: answer('Created', created, { ...WRITTEN, Location: header(`Where the ${noun} is.`) }) },
        400,
        409,
        413,
        415,
      ),
    }),
    get: createRoute({
      ...group,
      operationId: `get${name}`,
      method: 'get',
      path: `/${path}/{id}`,
      summary: `Get a ${noun}`,
      request: { params: one, headers: ifNoneMatch },
      responses: responses(
        {
          200: answer(`The ${noun}`, bodies.shown, { ETag: ETAG }),
          304: { description: 'It has not changed' },
        },
        400,
        404,
      ),
    }),
    replace: createRoute({
      ...group,
      operationId: `replace${name}`,
      method: 'put',
      path: `/${path}/{id}`,
      summary: `Replace a ${noun}`,
      description: 'Fields that are left out get their defaults, so `{}` sets every field to its default.',
      request: { params: one, headers: ifMatch, body: body(bodies.replace) },
      responses: responses({ 200: answer('Replaced', changed, WRITTEN) }, 400, 404, 409, 412, 413, 415),
    }),
    patch: createRoute({
      ...group,
      operationId: `patch${name}`,
      method: 'patch',
      path: `/${path}/{id}`,
      summary: `Change fields of a ${noun}`,
      description:
        'Only the fields that are given change, each as a whole. The result must be valid as a whole.',
      request: { params: one, headers: ifMatch, body: body(bodies.patch) },
      responses: responses({ 200: answer('Changed', changed, WRITTEN) }, 400, 404, 409, 412, 413, 415),
    }),
    remove: createRoute({
      ...group,
      operationId: `delete${name}`,
      method: 'delete',
      path: `/${path}/{id}`,
      summary: `Delete a ${noun}`,
      request: { params: one, headers: ifMatch },
      responses: responses(
        {
          204: { description: 'Deleted' },
          200: answer('Deleted, with warnings', z.strictObject({ warnings }).meta({ id: 'Warnings' })),
        },
        400,
        404,
        409,
        412,
      ),
    }),
  };
}

/** `list entry`: ListEntry and ListEntries. Generated clients have methods of these names, so they must not change. */
function namesOf(noun: string) {
  const one = noun.replace(/(?:^| )(\w)/g, (_, letter: string) => letter.toUpperCase());
  return { one, many: one.endsWith('y') && !one.endsWith('ey') ? `${one.slice(0, -1)}ies` : `${one}s` };
}

const paging = {
  limit: z.coerce.number().int().min(1).max(200).default(50).describe('The size of a page.'),
  cursor: z.string().max(2048).optional().describe('The `nextCursor` of the previous page.'),
};

const pageOf = (item: z.ZodObject, name: string) =>
  z
    .strictObject({
      items: z.array(item),
      nextCursor: z.string().nullable().describe('Null on the last page.'),
    })
    .meta({ id: `${name}Page` });

function header(description: string) {
  return { description, schema: { type: 'string' as const } };
}

const answer = (
  description: string,
  schema: z.ZodType,
  headers?: Record<string, ReturnType<typeof header>>,
) => ({
  description,
  ...(headers && { headers }),
  content: { 'application/json': { schema } },
});

/** Typed as loosely as possible, because handlers return plain Responses. Tests compare these with the document. */
const responses = (good: RouteConfig['responses'], ...problems: number[]): RouteConfig['responses'] => ({
  ...good,
  ...problemResponses(...problems),
});

// The answers of a collection's operations.

/** The fields of a row that people may see, as JSON. */
export const toShown = ({ shown }: BodySchemas, row: Row): Values =>
  Object.fromEntries(Object.keys(shown.shape).map((field) => [field, toJson(row[field])]));

export const toJson = (value: unknown) => (value instanceof Date ? value.toISOString() : value);

export const warningsOf = ({ warnings }: PublishedChange) => (warnings.length > 0 ? { warnings } : {});

export const json = (body: Values, status = 200, headers: Record<string, string> = {}): Response =>
  Response.json(body, { status, headers: { 'Cache-Control': 'no-store', ...headers } });

export const changedSince = ({ revision }: Row) =>
  new ProblemError(
    {
      status: 412,
      code: 'precondition-failed',
      title: 'It has changed since',
      detail: 'Get it again, look at what has changed, and repeat the change with the new ETag.',
    },
    { ETag: toETag(revision) },
  );

export function addCollection(app: AdminApp, services: AdminServices, collection: Collection): void {
  const { noun, bodies, order } = collection;
  const repository = createRepository(services.database, collection);
  const operations = operationsOf(collection);
  const show = (row: Row) => toShown(bodies, row);
  const idOf = (row: Row) => String(row[collection.idField]);
  const concerns = (id: string) =>
    collection.concerns === 'itself' ? [id] : collection.concerns === 'all' ? 'all' : [];
  const publish = (id: string) => publishChange(services, concerns(id));

  const find = async (id: string): Promise<Row> => {
    const row = collection.isId(id) ? await repository.get(id) : undefined;
    if (row === undefined) throw notFound(noun);
    return row;
  };

  const bytesOf = (row: Values) => collection.bytesOf?.(row) ?? 0;
  const saveWith =
    (brought: Brought | undefined): Save =>
    async (target, before, values) => {
      await expectRoom(services.database, bytesOf({ ...before, ...values }) - bytesOf(before));
      return repository.update(target, values, brought?.statement);
    };

  const answerChange = async (row: Row, brought: Brought | undefined): Promise<Response> => {
    const change = withWarning(await publish(idOf(row)), brought);
    return json({ ...show(row), ...warningsOf(change) }, 200, {
      ETag: toETag(row.revision),
      ...versionHeader(change),
    });
  };

  app.openapi(operations.list, async (c) => {
    const { limit, cursor, ...query } = c.req.valid('query');
    const after = cursor === undefined ? undefined : parseCursor(cursor, order.length);
    const where = collection.where(query).filter((condition) => condition !== undefined);
    const { rows, next } = await repository.page({ where, limit, after }).catch((error) => {
      throw after && isBadValue(error) ? badCursor() : error;
    });
    return json({ items: rows.map(show), nextCursor: next ? toCursor(next) : null });
  });

  app.openapi(operations.create, async (c) => {
    const body = c.req.valid('json');
    collection.expect?.(body, undefined);
    const { values, shownOnce } = collection.prepare
      ? await collection.prepare(body)
      : { values: body, shownOnce: {} };
    await expectRoom(services.database, bytesOf(values));
    const brought = await collection.bring?.(values);
    const row = await repository.insert(c.get('actor').name, values, brought?.statement);
    const change = withWarning(await publish(idOf(row)), brought);
    return json({ ...show(row), ...shownOnce, ...warningsOf(change) }, 201, {
      ETag: toETag(row.revision),
      Location: `${new URL(c.req.url).pathname}/${encodeURIComponent(idOf(row))}`,
      ...versionHeader(change),
    });
  });

  app.openapi(operations.get, async (c) => {
    const row = await find(c.req.valid('param').id);
    const headers = { ETag: toETag(row.revision) };
    if (isKnown(c.req.raw, row.revision)) return new Response(null, { status: 304, headers });
    return json(show(row), 200, headers);
  });

  app.openapi(operations.replace, async (c) => {
    const target = targetOf(c.req.valid('param').id, c.get('actor').name, c.req.raw);
    const before = await find(target.id);
    const { values, revisions } = takeChanges({ collection, target, before, given: c.req.valid('json') });
    const brought = await collection.bring?.(values);
    const row = await saveWith(brought)({ ...target, revisions }, before, values);
    if (row === undefined) throw changedSince(await find(target.id));
    return answerChange(row, brought);
  });

  app.openapi(operations.patch, async (c) => {
    const target = targetOf(c.req.valid('param').id, c.get('actor').name, c.req.raw);
    const given = c.req.valid('json');
    const brought = await collection.bring?.(given);
    const save = saveWith(brought);
    return answerChange(await applyPatch({ collection, target, given, find, save }), brought);
  });

  app.openapi(operations.remove, async (c) => {
    const target = targetOf(c.req.valid('param').id, c.get('actor').name, c.req.raw);
    const isRemoved = collection.isId(target.id) && (await repository.remove(target));
    if (!isRemoved) throw changedSince(await find(target.id));
    const change = await publish(target.id);
    if (change.warnings.length > 0) return json(warningsOf(change), 200, versionHeader(change));
    return new Response(null, { status: 204, headers: versionHeader(change) });
  });
}

const targetOf = (id: string, actor: string, request: Request): Target => ({
  id,
  actor,
  revisions: allowedRevisions(request),
});

const withWarning = (change: PublishedChange, brought: Brought | undefined): PublishedChange =>
  brought ? { ...change, warnings: [brought.warning, ...change.warnings] } : change;

/** Class 22: Postgres could not read a value. */
const isBadValue = (error: unknown) => sqlStateOf(error)?.startsWith('22') === true;
