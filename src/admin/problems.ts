// Errors of the admin route: problem+json with a stable code, and a pointer to each bad field.
import * as z from 'zod';
import { problem } from '../core/problem.ts';
import { quoted } from '../core/shape.ts';

export interface FieldError {
  /** Points into the body, as in RFC 9457: `#/limits/calls`. Or the name of a query parameter or header. */
  readonly pointer: string;
  readonly detail: string;
}

export interface AdminProblem {
  readonly status: number;
  /** Listed in docs/operations.md. */
  readonly code: string;
  readonly title: string;
  readonly detail?: string | undefined;
  readonly errors?: readonly FieldError[] | undefined;
}

/** Thrown by handlers, rendered in one place. */
export class AdminError extends Error {
  readonly problem: AdminProblem;
  readonly headers: Readonly<Record<string, string>> | undefined;

  constructor(body: AdminProblem, headers?: Readonly<Record<string, string>>) {
    super(body.title);
    this.name = 'AdminError';
    this.problem = body;
    this.headers = headers;
  }
}

export const notFound = (what: string) =>
  new AdminError({ status: 404, code: 'not-found', title: `There is no such ${what}` });

export const render = (
  { detail, errors, ...rest }: AdminProblem,
  headers?: Record<string, string>,
): Response =>
  problem(
    {
      ...rest,
      ...(detail !== undefined && { detail: quoted(detail, MOST_CHARACTERS) }),
      ...(errors && { errors: firstOf(errors) }),
    },
    headers,
  );

/** No sentence of Weir is longer. A pointer or a detail can contain a text from the request of any length. */
const MOST_CHARACTERS = 1_000;
const MOST_IN_POINTER = 200;
const MOST_ERRORS = 100;

function firstOf(errors: readonly FieldError[]): readonly FieldError[] {
  const shown = errors.slice(0, MOST_ERRORS).map(({ pointer, detail }) => ({
    pointer: quoted(pointer, MOST_IN_POINTER),
    detail: quoted(detail, MOST_CHARACTERS),
  }));
  const more = errors.length - shown.length;
  return more > 0 ? [...shown, { pointer: '#', detail: `has ${more} more errors` }] : shown;
}

export const invalidBody = (error: z.core.$ZodError, input: unknown): AdminProblem => ({
  status: 400,
  code: 'invalid-body',
  title: 'The body is not valid',
  errors: toFieldErrors(error, input, (path) => `#${path.map(toPointer).join('')}`),
});

export const invalidRequest = (error: z.core.$ZodError, input: unknown): AdminProblem => ({
  status: 400,
  code: 'invalid-request',
  title: 'The request is not valid',
  errors: toFieldErrors(error, input, (path) => path.join('.')),
});

type Path = readonly PropertyKey[];

function toFieldErrors(
  error: z.core.$ZodError,
  input: unknown,
  pointerTo: (path: Path) => string,
): FieldError[] {
  return error.issues.flatMap((issue) => {
    const paths =
      issue.code === 'unrecognized_keys' ? issue.keys.map((key) => [...issue.path, key]) : [issue.path];
    return paths.map((path) => ({ pointer: pointerTo(path), detail: detailOf(issue, path, input) }));
  });
}

const READ_ONLY: readonly unknown[] = ['id', 'revision', 'createdAt', 'updatedAt'];

function detailOf(issue: z.core.$ZodIssue, path: Path, input: unknown): string {
  if (issue.code === 'unrecognized_keys')
    return READ_ONLY.includes(path.at(-1)) ? 'is shown, never written' : 'is not a field';
  const isTyped = issue.code === 'invalid_type' || issue.code === 'invalid_value';
  return isTyped && valueAt(input, path) === undefined ? 'is missing' : issue.message;
}

const valueAt = (input: unknown, path: Path): unknown =>
  path.reduce<unknown>(
    (value, part) => (value !== null && typeof value === 'object' ? Reflect.get(value, part) : undefined),
    input,
  );

const toPointer = (part: PropertyKey) => `/${String(part).replaceAll('~', '~0').replaceAll('/', '~1')}`;

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

/** The responses that every admin operation can give, plus these. */
export const problemResponses = (...statuses: number[]) =>
  Object.fromEntries(
    [401, 403, 429, 500, 503, ...statuses].map((status) => [
      status,
      {
        description: DESCRIPTIONS[status] ?? 'Problem',
        content: { 'application/problem+json': { schema: problemSchema } },
      },
    ]),
  );

const DESCRIPTIONS: Readonly<Record<number, string>> = {
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
