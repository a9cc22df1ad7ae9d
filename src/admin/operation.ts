// One operation of the admin route, declared once: the OpenAPI document describes it, requests are validated by it, and
// its answer is typed by it. A request is read in the order of `readCall`; only a valid one reaches the operation.

import type { RouteConfig } from '@hono/zod-openapi';
import type { Context } from 'hono';
import * as z from 'zod';
import { isRead } from '../http/credentials.ts';
import { invalidBody, invalidRequest, ProblemError, readAtMost } from '../http/internal-requests.ts';
import type { Actor, AdminApp, AdminEnv } from './app.ts';
import { fieldErrors } from './problems.ts';

const MEBIBYTE = 1024 * 1024;

export interface AdminOperation<Query, Params, Body, Answer> {
  /** Generated clients have methods of these names, so they never change. */
  readonly id: string;
  readonly call: `${'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'} /${string}`;
  readonly group: string;
  readonly summary: string;
  readonly description?: string;
  readonly query?: z.ZodType<Query>;
  readonly params?: z.ZodType<Params>;
  /** Only described: the operation reads them itself. */
  readonly requestHeaders?: z.ZodObject;
  readonly body?: z.ZodType<Body>;
  readonly mayLackBody?: boolean;
  readonly mostMebibytes?: number;
  /** The body of a 200, and what it is. */
  readonly answer?: z.ZodType<Answer>;
  readonly says?: string;
  /** Answers of other kinds. */
  readonly answers?: RouteConfig['responses'];
  /** The problems of its own: what is wrong with any request is added. */
  readonly problems?: readonly number[];
}

export interface Call<Query, Params, Body> {
  readonly query: Query;
  readonly params: Params;
  readonly body: Body;
  readonly actor: Actor;
  readonly request: Request;
  /** Headers of the answer. */
  readonly headers: Record<string, string>;
}

/** What an operation may return for a schema: the same, and nothing in it need be mutable. */
type Shown<T> = T extends readonly (infer Item)[]
  ? readonly Shown<Item>[]
  : T extends object
    ? { readonly [K in keyof T]: Shown<T[K]> }
    : T;

type Answerer<Query, Params, Body, Answer> = (
  call: Call<Query, Params, Body>,
) => Shown<Answer> | Response | Promise<Shown<Answer> | Response>;

export function addOperation<Query, Params, Body, Answer>(
  app: AdminApp,
  operation: AdminOperation<Query, Params, Body, Answer>,
  answer: Answerer<Query, Params, Body, Answer>,
): void {
  const [method = '', path = ''] = operation.call.split(' ');
  app.openAPIRegistry.registerPath(describe(operation, method, path));
  app.on(method, path.replaceAll(/\{(\w+)\}/g, ':$1'), async (c: Context<AdminEnv>) => {
    const call = await readCall(operation, c);
    const given = await answer(call);
    return given instanceof Response ? given : json(given as object, 200, call.headers);
  });
}

export const json = (
  body: object,
  status = 200,
  headers: Readonly<Record<string, string>> = {},
): Response => {
  const response = Response.json(body, { status, headers });
  response.headers.set('Cache-Control', 'no-store');
  return response;
};

async function readCall<Query, Params, Body>(
  operation: AdminOperation<Query, Params, Body, unknown>,
  c: Context<AdminEnv>,
): Promise<Call<Query, Params, Body>> {
  const { query, params, body } = operation;
  const given = Object.entries(c.req.queries()).map(([name, texts]) => [
    name,
    texts.length > 1 ? texts : texts[0],
  ]);
  return {
    query: read(query, Object.fromEntries(given), invalidParameter),
    params: read(params, c.req.param(), invalidParameter),
    body: read(body, await readBody(operation, c.req.raw), (error, input) =>
      invalidBody(fieldErrors(error, input)),
    ),
    actor: c.get('actor'),
    request: c.req.raw,
    headers: {},
  };
}

type ToError = (error: z.core.$ZodError, input: unknown) => ProblemError;

function read<T>(schema: z.ZodType<T> | undefined, input: unknown, toError: ToError): T {
  const result = schema?.safeParse(input);
  if (result && !result.success) throw toError(result.error, input);
  return result?.data as T;
}

const invalidParameter: ToError = (error, input) =>
  invalidRequest(fieldErrors(error, input, (path) => path.join('.')));

type BodyNeeds = Pick<AdminOperation<never, never, never, never>, 'mayLackBody' | 'mostMebibytes'> & {
  readonly body?: unknown;
};

/** A body where none is needed is read, and means nothing. */
async function readBody(
  { body, mayLackBody, mostMebibytes = 1 }: BodyNeeds,
  request: Request,
): Promise<unknown> {
  if (isRead(request)) return undefined;
  const bytes = await readAtMost(request, mostMebibytes * MEBIBYTE);
  if (body === undefined) return undefined;
  if (bytes.every(isBlank)) {
    if (mayLackBody) return {};
    // Otherwise a missing body would replace a row with defaults.
    throw MISSING_BODY;
  }
  if (!JSON_TYPE.test(request.headers.get('Content-Type') ?? '')) throw NOT_JSON;
  try {
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    throw UNREADABLE;
  }
}

/** A blank, a tab, or the end of a line. */
const isBlank = (byte: number) => byte === 32 || byte === 9 || byte === 10 || byte === 13;
const JSON_TYPE = /^application\/(?:[\w.-]+\+)?json\s*(?:;|$)/i;

const MISSING_BODY = new ProblemError({
  status: 400,
  code: 'missing-body',
  title: 'The body is missing',
  detail: 'Send a JSON object; {} is one without fields.',
});
const NOT_JSON = new ProblemError({
  status: 415,
  code: 'not-json',
  title: 'The body must be JSON',
  detail: 'Send it with Content-Type: application/json.',
});
const UNREADABLE = new ProblemError({ status: 400, code: 'invalid-json', title: 'The body is not JSON' });

// What the OpenAPI document says.

function describe<Query, Params, Body, Answer>(
  operation: AdminOperation<Query, Params, Body, Answer>,
  method: string,
  path: string,
): RouteConfig {
  const { id, group, summary, description, query, params, requestHeaders, body } = operation;
  const problems = [
    ...(query || params || requestHeaders || !isRead({ method }) ? [400] : []),
    ...(isRead({ method }) || method === 'DELETE' ? [] : [413, 415]),
    ...(operation.problems ?? []),
  ];
  return {
    operationId: id,
    method: method.toLowerCase() as RouteConfig['method'],
    path,
    tags: [group],
    summary,
    ...(description && { description }),
    request: {
      query: query as z.ZodObject | undefined,
      params: params as z.ZodObject | undefined,
      headers: requestHeaders,
      ...(body && {
        body: { required: !operation.mayLackBody, content: { 'application/json': { schema: body } } },
      }),
    },
    responses: {
      ...(operation.answer && { 200: jsonAnswer(operation.says ?? '', operation.answer) }),
      ...operation.answers,
      ...problemResponses(problems),
    },
  };
}

/** An answer in the document. */
export const jsonAnswer = (
  description: string,
  schema: z.ZodType,
  headers?: Readonly<Record<string, string>>,
) => ({
  description,
  ...(headers && {
    headers: Object.fromEntries(
      Object.entries(headers).map(([name, about]) => [
        name,
        { description: about, schema: { type: 'string' as const } },
      ]),
    ),
  }),
  content: { 'application/json': { schema } },
});

const problemSchema = z
  .object({
    type: z.string(),
    status: z.int(),
    code: z.string().describe('Stable: programs may rely on it.'),
    title: z.string(),
    detail: z.string().optional(),
    errors: z
      .array(
        z.object({
          pointer: z
            .string()
            .describe('A pointer into the body (`#/limits/calls`), or the name of a parameter or header.'),
          detail: z.string(),
        }),
      )
      .optional(),
  })
  .loose()
  .meta({ id: 'Problem' });

/** The problems that every operation can have, and these. */
const problemResponses = (statuses: readonly number[]) =>
  Object.fromEntries(
    [401, 403, 429, 500, 503, ...statuses].map((status) => [
      status,
      {
        description: PROBLEMS[status] ?? 'Problem',
        content: { 'application/problem+json': { schema: problemSchema } },
      },
    ]),
  );

const PROBLEMS: Readonly<Record<number, string>> = {
  400: 'Something in the request is wrong; `errors` says what and where',
  401: 'A token is needed',
  403: 'The token may only read',
  404: 'There is no such thing',
  409: 'It contradicts something that is there',
  412: 'It has changed since the ETag in If-Match',
  413: 'The body is too large',
  415: 'The body must be application/json',
  429: 'Too many failed attempts',
  500: 'A bug in Weir',
  503: 'Postgres does not answer',
};
