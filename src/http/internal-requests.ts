// What Weir's own routes share: their problems, reading a body, and finding the owner of a token. It is apart from
// problem.ts and credentials.ts, because the gateway does not need it.
import { digest, isSameBytes } from '../core/digest.ts';
import { type FieldError, quoted, textOfErrors } from '../core/shape.ts';
import { type Problem, problem } from './problem.ts';

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

/** The answer to a request whose handler has thrown. Throws what is not a problem of the request. */
export function renderError(error: unknown): Response {
  if (!(error instanceof ProblemError)) throw error;
  return render(error.problem, error.headers);
}

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
  problem({
    status: 429,
    code: 'too-many-attempts',
    title: 'Too many failed attempts',
    detail: 'Weir checks no token until the time in Retry-After has passed.',
    'retry-after': Math.ceil(waitMs / 1_000),
  });

/** Of a longer body, Weir discards this much if the client has stated its length. */
const MAX_DISCARDED_BYTES = 10 * 1024 * 1024;
const MEBIBYTE = 1024 * 1024;

/**
 * Reads a body up to a bound, and throws a ProblemError if there is more. It counts the bytes that arrive, because
 * nobody must send a length, or a true one. Many clients and proxies read no answer before they have sent all they
 * announced, and lose it with the connection. So the rest of an announced body is discarded first, unless it is very
 * long.
 */
export async function readAtMost(
  { body, headers }: Pick<Request, 'body' | 'headers'>,
  mostBytes: number,
): Promise<Uint8Array<ArrayBuffer>> {
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  let size = 0;
  const reader = body?.getReader();
  try {
    for (;;) {
      const { done = true, value } = (await reader?.read()) ?? {};
      if (done || !value) break;
      size += value.length;
      if (size <= mostBytes) chunks.push(value);
      else if (Number(headers.get('Content-Length') ?? Number.POSITIVE_INFINITY) > MAX_DISCARDED_BYTES) {
        void reader?.cancel().catch(() => {});
        break;
      }
    }
  } catch {
    throw new ProblemError({ status: 400, code: 'body-incomplete', title: 'The body ends before its end' });
  }
  if (size > mostBytes)
    throw new ProblemError({
      status: 413,
      code: 'body-too-large',
      title: 'The body is too large',
      detail: `At most ${mostBytes >= MEBIBYTE ? `${mostBytes / MEBIBYTE} M` : `${mostBytes / 1024} K`}iB.`,
    });
  return new Uint8Array(await new Blob(chunks).arrayBuffer());
}

/**
 * Finds the owner of a token. It compares all bytes of all digests, so that the time reveals nothing about content,
 * length or position.
 */
export function createTokenFinder<T extends { readonly token: string }>(tokens: readonly T[]) {
  let digests: readonly Uint8Array[] | undefined;

  return async (given: string): Promise<T | undefined> => {
    digests ??= await Promise.all(tokens.map(({ token }) => digest('SHA-256', token)));
    const wanted = await digest('SHA-256', given);
    let found = -1;
    digests.forEach((one, i) => {
      found = isSameBytes(one, wanted) ? i : found;
    });
    return tokens[found];
  };
}
