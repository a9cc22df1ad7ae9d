// Slows down guessing of tokens: each address may fail ten times a minute. Weir counts failures in this isolate's
// memory and, for all isolates together, in Redis. While Redis is down, only memory counts.
//
// What an address is told while it waits must not depend on its token. Otherwise the answer would say whether a guess
// was right, and guessing would have no limit.
import { createBoundedCache } from '../core/bounded-cache.ts';
import type { Answer, Check } from '../core/counting/check.ts';
import { createBoundedCounters, runChecks } from '../core/counting/counters.ts';
import { subjectKey } from '../core/counting/keys.ts';
import { UNKNOWN_CALLER } from '../core/matching/caller.ts';
import { countedIp } from '../core/matching/ip.ts';
import type { AttemptGuard, Waiting } from '../core/ports/callers.ts';
import type { CounterStore } from '../core/ports/region.ts';
import type { AdminServices } from './app.ts';

const MAX_FAILURES = 10;
const WINDOW_MS = 60_000;
/** In memory. The address that failed longest ago is forgotten first. */
const MAX_ADDRESSES = 10_000;
/**
 * After a right token, Redis is not asked about its address for this long, so that not every check of a busy back-end
 * waits for this call. Failures in this isolate count all the same.
 */
const TRUSTED_MS = 5_000;

type Needed = Pick<AdminServices, 'regions' | 'deadlineMs' | 'now'>;

export function createAttemptGuard({ regions, deadlineMs, now }: Needed): AttemptGuard {
  const own = createBoundedCounters(MAX_ADDRESSES);
  /** By address: until when Redis makes it wait; 0 if it need not. */
  const told = createBoundedCache<number>(MAX_ADDRESSES);

  const runHere = (operation: 'take' | 'peek', check: Check) =>
    waitOf(runChecks(operation, [check], now(), own));
  /** Ignores errors: a right token must work while Redis is down, and memory still slows down wrong tokens. */
  const runThere = async (store: CounterStore | undefined, operation: 'take' | 'peek', check: Check) =>
    waitOf(
      await store?.[operation]({ checks: [check] }, AbortSignal.timeout(deadlineMs)).catch(() => undefined),
    );

  return async ({ address, look, store = regions[0]?.store }) => {
    const check = await toCheck(address);
    const toldUntilMs = () => told.get(check.key, now());
    const knownMs = Math.max(runHere('peek', check), (toldUntilMs() ?? 0) - now());
    if (knownMs > 0) return waiting(knownMs);
    const verdict = await look();
    const isRefused = verdict.kind === 'refused';
    // Memory comes first, so that a flood of guesses does not reach Redis. A right token asks memory again, because
    // wrong ones may have come meanwhile.
    const ownMs = runHere(isRefused ? 'take' : 'peek', check);
    if (ownMs > 0) return waiting(ownMs);
    const isTrusted = !isRefused && toldUntilMs() === 0;
    const waitMs = isTrusted ? 0 : await runThere(store, 'peek', check);
    if (waitMs > 0) {
      told.set(check.key, now() + waitMs, now() + waitMs);
      return waiting(waitMs);
    }
    if (isRefused) await runThere(store, 'take', check);
    if (verdict.kind === 'actor' && !isTrusted) told.set(check.key, 0, now() + TRUSTED_MS);
    return verdict;
  };
}

const waiting = (waitMs: number): Waiting => ({ kind: 'waiting', waitMs });

const waitOf = (answer: Answer | undefined): number => answer?.outcomes[0]?.retryAfterMs ?? 0;

async function toCheck(address: string | null): Promise<Check> {
  // Counts IPv6 by prefix, because one guesser may have a whole network.
  const { ip } = countedIp(address ?? '') ?? UNKNOWN_CALLER;
  return {
    key: await subjectKey('ip', ip, 'admin'),
    id: 'failures',
    algorithm: 'fixed-window',
    limit: MAX_FAILURES,
    windowMs: WINDOW_MS,
    cost: 1,
  };
}
