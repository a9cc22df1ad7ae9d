// How many look-ups of callers may go on to Postgres. Anybody can make up keys; what they use up must not be what real
// callers need.
import { createBoundedCache } from '../../core/bounded-cache.ts';

/** A second and isolate, of each kind: of those whom this isolate does not know, and of those whom it has found. */
const STRANGERS = 20;
const ACQUAINTANCES = 20;
/** A second, isolate and address. Only of keys: users are known by a token that was verified. */
const KEYS_OF_AN_ADDRESS = 5;
const MOST_ADDRESSES = 10_000;
/** Longer than memory and KV keep what is known of anybody. */
const FOUND_MS = 3_600_000;
const MOST_FOUND = 10_000;

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
  const lately = createBoundedCache<true>(MOST_FOUND);
  const addresses = createBoundedCache<Quota>(MOST_ADDRESSES);
  const strangers = { key: createQuota(STRANGERS), user: createQuota(STRANGERS) };
  const acquaintances = { key: createQuota(ACQUAINTANCES), user: createQuota(ACQUAINTANCES) };

  const ofAddress = (ip: string): Quota => {
    const quota = addresses.get(ip, now()) ?? createQuota(KEYS_OF_AN_ADDRESS);
    addresses.set(ip, quota, Number.POSITIVE_INFINITY);
    return quota;
  };

  return {
    mayAsk({ kind, who, ip }) {
      if (lately.get(who, now())) return acquaintances[kind](now());
      return (kind === 'user' || ofAddress(ip)(now())) && strangers[kind](now());
    },
    found: (who) => lately.set(who, true, now() + FOUND_MS),
  };
}

type Quota = (nowMs: number) => boolean;

/** Counts by whole seconds. */
function createQuota(perSecond: number): Quota {
  let second = Number.NaN;
  let used = 0;
  return (nowMs) => {
    const current = Math.floor(nowMs / 1_000);
    if (current !== second) [second, used] = [current, 0];
    used += 1;
    return used <= perSecond;
  };
}
