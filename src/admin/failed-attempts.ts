// Slows down guessing of tokens: so many failures a minute for each address, counted in the memory of this isolate
// and with the real counters, for all isolates together. While Redis does not answer, the memory alone counts.
import { createBoundedCounters } from '../core/counting/bounded-counters.ts';
import type { Answer, Check, Operation } from '../core/counting/check.ts';
import { runChecks } from '../core/counting/counters.ts';
import { subjectKey } from '../core/counting/keys.ts';
import { countedIp } from '../core/matching/ip.ts';
import type { AdminServices } from './services.ts';

const MAX_FAILURES = 10;
const WINDOW_MS = 60_000;
/** In memory; the one that has failed longest ago makes room. */
const MAX_ADDRESSES = 10_000;

export interface FailedAttempts {
  /** 0: another attempt may be made now, as far as this isolate knows. */
  waitHereMs(address: string): Promise<number>;
  /** A failure, for this isolate alone; 0 if there was room for it. */
  addHere(address: string): Promise<number>;
  /** 0: another attempt may be made now, as far as Redis knows, or does not answer. */
  waitMs(address: string): Promise<number>;
  add(address: string): Promise<void>;
}

type Needed = Pick<AdminServices, 'regions' | 'deadlineMs' | 'now'>;

export function createFailedAttempts({ regions, deadlineMs, now }: Needed): FailedAttempts {
  const store = regions[0]?.store;
  const own = createBoundedCounters(MAX_ADDRESSES);

  const runHere = async (operation: Operation, address: string) =>
    waitOf(runChecks(operation, [await toCheck(address)], now(), own));
  /** A right token must work while Redis is gone, and wrong ones are slowed down here nevertheless. */
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
  // A network of IPv6 addresses is one guesser.
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
