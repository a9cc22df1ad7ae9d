// Problems of Weir's own routes. They are apart from problem.ts, because the gateway does not need them.
import { type Problem, problem } from './problem.ts';

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
