// Limits look-ups of callers in Postgres. Anybody can make up keys, but made-up keys must not use up the look-ups of
// real callers.
import { createBoundedCache } from '../../core/bounded-cache.ts';
import { createPerSecondBudget, type PerSecondBudget } from '../../core/per-second-budget.ts';

/** Per second and isolate: for callers that this isolate does not know, and for callers that it has found before. */
const UNKNOWN_PER_SECOND = 20;
const KNOWN_PER_SECOND = 20;
/** Per second, isolate and address. Only for keys: users have a verified token. */
const KEYS_OF_AN_ADDRESS = 5;
const MAX_ADDRESSES = 10_000;
/** Longer than memory and KV keep a record. */
const FOUND_MS = 3_600_000;
const MAX_FOUND = 10_000;

export type CallerKind = 'key' | 'user';

export interface Asking {
  readonly kind: CallerKind;
  /** The caller of the look-up. */
  readonly who: string;
  readonly ip: string;
}

export interface LookUpAllowance {
  /** Whether the look-up may go on. If so, counts it. */
  mayAsk(asking: Asking): boolean;
  /** Marks the caller as known. Its look-ups then use the allowance of known callers. */
  found(who: string): void;
}

export function createLookUpAllowance(now: () => number): LookUpAllowance {
  const lately = createBoundedCache<true>(MAX_FOUND);
  const addresses = createBoundedCache<PerSecondBudget>(MAX_ADDRESSES);
  const strangers = {
    key: createPerSecondBudget(UNKNOWN_PER_SECOND),
    user: createPerSecondBudget(UNKNOWN_PER_SECOND),
  };
  const acquaintances = {
    key: createPerSecondBudget(KNOWN_PER_SECOND),
    user: createPerSecondBudget(KNOWN_PER_SECOND),
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
