// Limits requests to Weir's own paths. They are public, and some cost calls to Redis, KV or Postgres. The isolate
// counts each address in memory, before it does anything else.
import { createBoundedCounters } from '../core/counting/bounded-counters.ts';
import { runChecks } from '../core/counting/counters.ts';
import { countedIp } from '../core/matching/ip.ts';
import { problem } from '../core/problem.ts';

/** More than any dashboard or health check needs. */
const PER_MINUTE = 120;
/** A page that opens, or a test that polls. */
const AT_ONCE = 60;
/** Beyond this, the isolate forgets the address seen longest ago. */
const MAX_ADDRESSES = 10_000;

export interface OwnLimitOptions {
  readonly now: () => number;
  readonly ipv6Prefix: number;
}

/** A 429 if the address has asked too often, else undefined. */
export type OwnLimit = (request: Request) => Response | undefined;

export function createOwnLimit({ now, ipv6Prefix }: OwnLimitOptions): OwnLimit {
  const counters = createBoundedCounters(MAX_ADDRESSES);
  const check = { id: 'own', limit: PER_MINUTE, windowMs: 60_000, extra: AT_ONCE, cost: 1 } as const;

  return ({ headers }) => {
    // Callers without an address share one allowance. Otherwise they would escape the limit.
    const key = countedIp(headers.get('CF-Connecting-IP') ?? '', ipv6Prefix)?.ip ?? 'unknown';
    const { outcomes } = runChecks('take', [{ ...check, key, algorithm: 'token-bucket' }], now(), counters);
    const [outcome] = outcomes;
    return outcome?.allowed === false ? tooMany(outcome.retryAfterMs ?? 0) : undefined;
  };
}

const tooMany = (waitMs: number) =>
  problem(
    {
      status: 429,
      code: 'too-many-requests',
      title: 'Too many requests to Weir itself',
      detail: `An address may ask ${AT_ONCE} times at once and ${PER_MINUTE} times a minute.`,
    },
    { 'Retry-After': String(Math.max(1, Math.ceil(waitMs / 1_000))) },
  );
