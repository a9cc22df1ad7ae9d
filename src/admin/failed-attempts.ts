// Slows down whoever tries tokens: so many failures a minute for each address, counted with the real counters,
// or in the memory of this isolate while Redis does not answer.
import type { Answer, Check, Operation } from '../core/check.ts';
import { runChecks } from '../core/counters.ts';
import { countedIp } from '../core/ip.ts';
import { subjectKey } from '../core/keys.ts';
import { createMemoryCounters } from '../core/memory-counters.ts';
import type { AdminServices } from './services.ts';

const MOST_FAILURES = 10;
const WINDOW_MS = 60_000;
/** Of addresses in memory; then all of them start anew. */
const MOST_ADDRESSES = 10_000;

export interface FailedAttempts {
  /** 0: another attempt may be made now. */
  waitMs(address: string): Promise<number>;
  add(address: string): Promise<void>;
}

type Needed = Pick<AdminServices, 'regions' | 'deadlineMs' | 'now'>;

export function createFailedAttempts({ regions, deadlineMs, now }: Needed): FailedAttempts {
  const store = regions[0]?.store;
  const runInMemory = createBoundedCounters(now);

  const run = async (operation: Operation, address: string): Promise<Answer> => {
    const check = await toCheck(address);
    try {
      if (store) return await store.run({ operation, checks: [check] }, AbortSignal.timeout(deadlineMs));
    } catch {
      // A right token must work while Redis is gone, and a wrong one must be slowed down nevertheless.
    }
    return runInMemory(operation, check);
  };

  return {
    async waitMs(address) {
      const { outcomes } = await run('peek', address);
      return outcomes[0]?.retryAfterMs ?? 0;
    },
    async add(address) {
      await run('take', address);
    },
  };
}

async function toCheck(address: string): Promise<Check> {
  // A network of IPv6 addresses is one guesser.
  const subject = countedIp(address)?.ip ?? 'unknown';
  return {
    key: await subjectKey('ip', subject, 'admin'),
    id: 'failures',
    algorithm: 'fixed-window',
    limit: MOST_FAILURES,
    windowMs: WINDOW_MS,
    cost: 1,
  };
}

function createBoundedCounters(now: () => number) {
  let counters = createMemoryCounters();
  const addresses = new Set<string>();
  let minute = 0;

  return (operation: Operation, check: Check): Answer => {
    const nowMs = now();
    const thisMinute = Math.floor(nowMs / WINDOW_MS);
    if (thisMinute !== minute || addresses.size >= MOST_ADDRESSES) {
      counters = createMemoryCounters();
      addresses.clear();
      minute = thisMinute;
    }
    if (operation === 'take') addresses.add(check.key);
    return runChecks(operation, [check], nowMs, counters);
  };
}
