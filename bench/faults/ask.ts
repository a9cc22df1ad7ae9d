// Sends one request of a bench and reads its answer. A network error is an answer of status 0.

import type { PoolAnswer } from '../../local/connection-pool.ts';
import { freshIp } from '../../local/weir.ts';
import type { Arena } from './arena.ts';

export interface Ask {
  /** The URL of the Worker in workerd. */
  readonly worker: string;
  readonly path: string;
  readonly ip?: string;
  readonly region?: string;
}

export interface Reply {
  readonly status: number;
  /** The error, if there was one. */
  readonly error: string | undefined;
  /** Why the nearest region did not count the request. */
  readonly degraded: string | undefined;
  readonly sentAtMs: number;
  readonly answeredAtMs: number;
}

const GIVE_UP_MS = 15_000;
const MAX_TEXT = 300;
const OF_THE_ORIGIN = /origin-unreachable|origin-timeout/;

export async function ask({ workerd, pool }: Arena, asked: Ask): Promise<Reply> {
  const { worker, path, ip = freshIp(), region = 'us' } = asked;
  const sentAtMs = performance.now();
  const send = () =>
    pool.request(`${workerd.urls[worker]}${path}`, {
      headers: { 'CF-Connecting-IP': ip, 'X-Weir-Region': region },
      signal: AbortSignal.timeout(GIVE_UP_MS),
    });
  const answered = await send()
    // workerd had just closed the connection, because it was idle for a while.
    .catch((error: { code?: string }) => (error.code === 'ECONNRESET' ? send() : Promise.reject(error)))
    .catch((error: unknown): PoolAnswer => ({ status: 0, headers: {}, body: String(error) }));
  const { status, headers, body } = answered;
  return {
    status,
    error: status === 0 || status >= 500 ? `${status} ${body.slice(0, MAX_TEXT)}` : undefined,
    degraded: headers['x-weir-degraded']?.toString(),
    sentAtMs,
    answeredAtMs: performance.now(),
  };
}

/** An error of the limiter, not of the origin behind it. */
export const isError = ({ error }: Reply): boolean => error !== undefined && !OF_THE_ORIGIN.test(error);
/** Why no region counted the request as it should. Undefined if one did. */
export const troubleOf = ({ status, error, degraded }: Reply): string | undefined =>
  degraded ?? (error === undefined ? undefined : `status ${status}`);
export const isClean = (reply: Reply): boolean => troubleOf(reply) === undefined;
