// Anybody may ask Weir's own paths, and some of them cost calls to Redis, KV or Postgres. So each address may ask only
// so often, counted in the memory of this isolate before anything else is done.
import { createBoundedCounters } from '../core/counting/bounded-counters.ts';
import { runChecks } from '../core/counting/counters.ts';
import { countedIp } from '../core/matching/ip.ts';
import { problem } from './problem.ts';

/** More than any dashboard or health check needs. */
const PER_MINUTE = 120;
/** A page that opens, or a test that polls. */
const AT_ONCE = 60;
/** The one seen longest ago makes room. */
const MAX_ADDRESSES = 10_000;

export interface OwnLimitOptions {
  readonly now: () => number;
  readonly ipv6Prefix: number;
}

/** The answer to an address that has asked too often; undefined if it may ask. */
export type OwnLimit = (request: Request) => Response | undefined;

export function createOwnLimit({ now, ipv6Prefix }: OwnLimitOptions): OwnLimit {
  const counters = createBoundedCounters(MAX_ADDRESSES);
  const check = { id: 'own', limit: PER_MINUTE, windowMs: 60_000, extra: AT_ONCE, cost: 1 } as const;

  return ({ headers }) => {
    // Without an address all share one allowance, rather than escape.
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
