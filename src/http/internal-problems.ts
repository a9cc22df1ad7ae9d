// Problems of Weir's own routes. They are apart from problem.ts, because the gateway does not need them.
import { type FieldError, quoted, textOfErrors } from '../core/shape.ts';
import { type Problem, problem } from './problem.ts';
import type { UnreadBody } from './read-at-most.ts';

/** Thrown by handlers, rendered in one place. The message is all that a caller by RPC sees. */
export class ProblemError extends Error {
  readonly problem: Problem;
  readonly headers: Readonly<Record<string, string>> | undefined;

  constructor(body: Problem, headers?: Readonly<Record<string, string>>) {
    super(textOfErrors(firstOf(body.errors ?? [])) || body.title);
    this.name = 'ProblemError';
    this.problem = body;
    this.headers = headers;
  }
}

export const invalidBody = (errors: readonly FieldError[]) =>
  new ProblemError({ status: 400, code: 'invalid-body', title: 'The body is not valid', errors });

export const invalidRequest = (errors: readonly FieldError[]) =>
  new ProblemError({ status: 400, code: 'invalid-request', title: 'The request is not valid', errors });

export const render = ({ detail, errors, ...rest }: Problem, headers?: Record<string, string>): Response =>
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

/** To a request without a valid token, wherever one is needed. */
export const UNAUTHORIZED: Problem = { status: 401, code: 'unauthorized', title: 'An admin token is needed' };

/** To an address that has shown too many wrong tokens. */
export const tooManyAttempts = (waitMs: number): Response =>
  problem(
    {
      status: 429,
      code: 'too-many-attempts',
      title: 'Too many failed attempts',
      detail: 'Weir checks no token until the time in Retry-After has passed.',
    },
    { 'Retry-After': String(Math.ceil(waitMs / 1000)) },
  );

export const bodyNotRead = (why: UnreadBody, mostBytes: number) =>
  new ProblemError(
    why === 'broken-off'
      ? { status: 400, code: 'body-incomplete', title: 'The body ends before its end' }
      : {
          status: 413,
          code: 'body-too-large',
          title: 'The body is too large',
          detail: `At most ${mostBytes >= MEBIBYTE ? `${mostBytes / MEBIBYTE} M` : `${mostBytes / 1024} K`}iB.`,
        },
  );

const MEBIBYTE = 1024 * 1024;
