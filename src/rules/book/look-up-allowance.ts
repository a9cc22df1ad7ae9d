// How many look-ups of callers may go on to Postgres. Anybody can make up keys; what they use up must not be what real
// callers need.
import { createBoundedCache } from '../../core/bounded-cache.ts';
import { createPerSecondBudget, type PerSecondBudget } from '../../core/per-second-budget.ts';

/** A second and isolate, of each kind: of those whom this isolate does not know, and of those whom it has found. */
const STRANGERS = 20;
const ACQUAINTANCES = 20;
/** A second, isolate and address. Only of keys: users are known by a token that was verified. */
const KEYS_OF_AN_ADDRESS = 5;
const MAX_ADDRESSES = 10_000;
/** Longer than memory and KV keep what is known of anybody. */
const FOUND_MS = 3_600_000;
const MAX_FOUND = 10_000;

export type CallerKind = 'key' | 'user';

export interface Asking {
  readonly kind: CallerKind;
  /** Whom the question is about. */
  readonly who: string;
  readonly ip: string;
}

export interface LookUpAllowance {
  /** Counts the question, if it may be asked. */
  mayAsk(asking: Asking): boolean;
  /** From now on he has an allowance that strangers do not share. */
  found(who: string): void;
}

export function createLookUpAllowance(now: () => number): LookUpAllowance {
  const lately = createBoundedCache<true>(MAX_FOUND);
  const addresses = createBoundedCache<PerSecondBudget>(MAX_ADDRESSES);
  const strangers = { key: createPerSecondBudget(STRANGERS), user: createPerSecondBudget(STRANGERS) };
  const acquaintances = {
    key: createPerSecondBudget(ACQUAINTANCES),
    user: createPerSecondBudget(ACQUAINTANCES),
  };

  const ofAddress = (ip: string): PerSecondBudget => {
    const budget = addresses.get(ip, now()) ?? createPerSecondBudget(KEYS_OF_AN_ADDRESS);
    addresses.set(ip, budget, Number.POSITIVE_INFINITY);
    return budget;
  };

  return {
    mayAsk({ kind, who, ip }) {
      if (lately.get(who, now())) return take(acquaintances[kind], now());
      return (kind === 'user' || take(ofAddress(ip), now())) && take(strangers[kind], now());
    },
    found: (who) => lately.set(who, true, now() + FOUND_MS),
  };
}

function take(budget: PerSecondBudget, nowMs: number): boolean {
  const hasRoom = budget.hasRoom(nowMs);
  if (hasRoom) budget.take();
  return hasRoom;
}
