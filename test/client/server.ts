// A server under one limit, on Weir's own engine, for clients on a virtual clock.

import type { Check } from '../../src/core/counting/check.ts';
import { createMemoryCounters, runChecks } from '../../src/core/counting/counters.ts';
import { untilFreeMs } from '../../src/core/decision.ts';

export interface LimitedServer {
  fetch(): Promise<Response>;
  admitted: number;
  denied: number;
}

export type Limit = Pick<Check, 'algorithm' | 'limit' | 'windowMs' | 'extra'>;

/** `sleep` is the way of a request to the server and back. */
export function createLimitedServer(limit: Limit, sleep: () => Promise<unknown>): LimitedServer {
  const counters = createMemoryCounters();
  const check: Check = { ...limit, key: 'all', id: 'limit', cost: 1 };
  const server = {
    admitted: 0,
    denied: 0,
    async fetch() {
      await sleep();
      const response = answer();
      await sleep();
      return response;
    },
  };

  const answer = () => {
    const nowMs = Date.now();
    const outcome = runChecks('take', [check], nowMs, counters).outcomes[0];
    if (!outcome) throw new Error('the engine said nothing');
    server[outcome.allowed ? 'admitted' : 'denied'] += 1;
    const seconds = Math.ceil(untilFreeMs({ check, outcome }, nowMs) / 1000);
    const headers = {
      'RateLimit-Policy': `"all";q=${limit.limit};w=${limit.windowMs / 1000}`,
      RateLimit: `"all";r=${outcome.remaining};t=${seconds}`,
    };
    return outcome.allowed
      ? new Response('ok', { headers })
      : new Response('no', { status: 429, headers: { ...headers, 'Retry-After': String(seconds) } });
  };
  return server;
}
