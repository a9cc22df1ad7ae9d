// Limits look-ups of callers in Postgres. Anybody can make up keys, but made-up keys must not use up the look-ups of
// real callers. docs/operations.md states what an attacker with many addresses can still do.

import { createBoundedCache } from '../core/bounded-cache.ts';
import { createFairBudget } from '../core/time.ts';

/** Look-ups per second and isolate, for each kind of caller: those that this isolate does not know, and those it does. */
const PER_SECOND = 100;
/** Per second and isolate, for all addresses together that have shown an invalid key lately. */
const SUSPECTS_PER_SECOND = 20;
/** How many invalid keys of one address Weir looks up in a second. */
const INVALID_OF_AN_ADDRESS = 5;
/** How long an address counts as one that has shown an invalid key. */
const SUSPECT_MS = 60_000;
const MAX_SUSPECTS = 10_000;
/** Longer than memory and KV keep a record. */
const FOUND_MS = 3_600_000;
const MAX_FOUND = 10_000;

export type CallerKind = 'key' | 'user';

export interface LookUpRequest {
  readonly kind: CallerKind;
  /** The caller of the look-up. */
  readonly who: string;
  readonly ip: string;
}

export interface LookUpAllowance {
  /** A permit for one look-up; undefined if there is none until the next second. */
  permit(asking: LookUpRequest): LookUpPermit | undefined;
  /** Marks the caller as known. Its look-ups then use the budget of known callers. */
  found(who: string): void;
}

/** To be called with the answer. A failed look-up has none, and uses up its permit. */
export type LookUpPermit = (isFound: boolean) => void;

export function createLookUpAllowance(now: () => number): LookUpAllowance {
  const lately = createBoundedCache<true>(MAX_FOUND);
  const known = { key: createFairBudget(PER_SECOND), user: createFairBudget(PER_SECOND) };
  const unknown = { key: createFairBudget(PER_SECOND), user: createFairBudget(PER_SECOND) };
  const suspects = createSuspects(now);

  const take = ({ kind, who, ip }: LookUpRequest) => {
    // A caller that was found before is not made up, whatever its address does.
    if (lately.get(who, now())) return known[kind].take(who, now());
    const isSuspect = kind === 'key' && suspects.has(ip);
    return isSuspect ? suspects.take(ip) : unknown[kind].take(ip, now());
  };

  return {
    permit(asking) {
      const giveBack = take(asking);
      // A made-up key uses up its permit. Real keys cannot be made up, and neither can users: their token is verified.
      return (
        giveBack && ((isFound) => (isFound || asking.kind === 'user' ? giveBack() : suspects.add(asking.ip)))
      );
    },
    found: (who) => lately.set(who, true, now() + FOUND_MS),
  };
}

interface Suspect {
  second: number;
  invalid: number;
}

/** Addresses that have shown an invalid key lately. */
function createSuspects(now: () => number) {
  const suspects = createBoundedCache<Suspect>(MAX_SUSPECTS);
  const budget = createFairBudget(SUSPECTS_PER_SECOND);
  const currentSecond = () => Math.floor(now() / 1_000);

  return {
    has: (ip: string) => suspects.get(ip, now()) !== undefined,
    take(ip: string) {
      const { second, invalid } = suspects.get(ip, now()) ?? { second: Number.NaN, invalid: 0 };
      const isExhausted = second === currentSecond() && invalid >= INVALID_OF_AN_ADDRESS;
      return isExhausted ? undefined : budget.take(ip, now());
    },
    add(ip: string) {
      const before = suspects.get(ip, now());
      const second = currentSecond();
      const invalid = before?.second === second ? before.invalid + 1 : 1;
      suspects.set(ip, { second, invalid }, now() + SUSPECT_MS);
    },
  };
}
