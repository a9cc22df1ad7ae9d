// The six operations of a collection, as the OpenAPI document describes them and as requests are validated.
import { createRoute, type RouteConfig } from '@hono/zod-openapi';
import * as z from 'zod';
import { problemResponses } from '../problems.ts';
import type { Collection } from './declaration.ts';

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
