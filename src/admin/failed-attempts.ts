// Slows down guessing of tokens: each address may fail ten times a minute. Weir counts failures in this isolate's
// memory and, for all isolates together, in Redis. While Redis is down, only memory counts.
import { createBoundedCounters } from '../core/counting/bounded-counters.ts';
import type { Answer, Check, Operation } from '../core/counting/check.ts';
import { runChecks } from '../core/counting/counters.ts';
import { subjectKey } from '../core/counting/keys.ts';
import { countedIp } from '../core/matching/ip.ts';
import type { AdminServices } from './services.ts';

const MAX_FAILURES = 10;
const WINDOW_MS = 60_000;
/** In memory. The address that failed longest ago is forgotten first. */
const MAX_ADDRESSES = 10_000;

export interface FailedAttempts {
  /** How long the address must wait by this isolate's memory; 0 if it may try now. */
  waitHereMs(address: string): Promise<number>;
  /** Counts a failure in this isolate. Returns 0 if there was room for it, else the wait. */
  addHere(address: string): Promise<number>;
  /** How long the address must wait by Redis; 0 if it may try now, or if Redis does not answer. */
  waitMs(address: string): Promise<number>;
  add(address: string): Promise<void>;
}

type Needed = Pick<AdminServices, 'regions' | 'deadlineMs' | 'now'>;

export function createFailedAttempts({ regions, deadlineMs, now }: Needed): FailedAttempts {
  const store = regions[0]?.store;
  const own = createBoundedCounters(MAX_ADDRESSES);

  const runHere = async (operation: Operation, address: string) =>
    waitOf(runChecks(operation, [await toCheck(address)], now(), own));
  /** Ignores errors: a right token must work while Redis is down, and memory still slows down wrong tokens. */
  const runThere = async (operation: Operation, address: string) => {
    const call = { operation, checks: [await toCheck(address)] };
    return waitOf(await store?.run(call, AbortSignal.timeout(deadlineMs)).catch(() => undefined));
  };

  return {
    waitHereMs: (address) => runHere('peek', address),
    addHere: (address) => runHere('take', address),
    waitMs: (address) => runThere('peek', address),
    async add(address) {
      await runThere('take', address);
    },
  };
}

const waitOf = (answer: Answer | undefined): number => answer?.outcomes[0]?.retryAfterMs ?? 0;

async function toCheck(address: string): Promise<Check> {
  // Counts IPv6 by prefix, because one guesser may have a whole network.
  const subject = countedIp(address)?.ip ?? 'unknown';
  return {
    key: await subjectKey('ip', subject, 'admin'),
    id: 'failures',
    algorithm: 'fixed-window',
    limit: MAX_FAILURES,
    windowMs: WINDOW_MS,
    cost: 1,
  };
}
