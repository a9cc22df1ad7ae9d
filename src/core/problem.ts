// Every error body of Weir is application/problem+json (RFC 9457) with a stable `code`.

export interface Problem {
  readonly status: number;
  readonly code: string;
  readonly title: string;
  readonly detail?: string;
  readonly type?: string;
  readonly [extension: string]: unknown;
}

/** The beginning of a text from outside. An error quotes no more of it: whoever sends a megabyte knows what it was. */
export const quoted = (text: string, most = 100): string =>
  text.length <= most ? text : `${text.slice(0, most - 1)}…`;

export function problem(body: Problem, headers?: Record<string, string>): Response {
  const response = Response.json(
    { type: 'about:blank', ...body },
    { status: body.status, ...(headers && { headers }) },
  );
  response.headers.set('content-type', 'application/problem+json');
  response.headers.set('cache-control', 'no-store');
  return response;
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

export const bodyTooLarge = (mostBytes: number): Response =>
  problem({
    status: 413,
    code: 'body-too-large',
    title: 'The body is too large',
    detail: `At most ${mostBytes >= MEBIBYTE ? `${mostBytes / MEBIBYTE} M` : `${mostBytes / 1024} K`}iB.`,
  });

const MEBIBYTE = 1024 * 1024;
