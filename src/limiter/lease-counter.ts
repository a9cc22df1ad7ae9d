// One counter that an isolate may lease from: its leases, and what is left of the limit. Units that are leased and not
// used count as left.
import type { Outcome } from '../core/counting/check.ts';
import type { RuleCheck } from '../core/matching/plan.ts';
import { type Measured, startMeasuring } from './lease-pace.ts';
import type { LimiterRegion } from './region.ts';

/** Units of one charge. */
export interface Lease {
  readonly region: LimiterRegion;
  /** The check as the region has charged it. */
  readonly check: RuleCheck;
  /** By the clock of the region. */
  readonly chargedAtMs: number;
  /** When the call was sent. This time and those below are by the clock of this isolate. */
  readonly sentAtMs: number;
  readonly heardAtMs: number;
  readonly endsAtMs: number;
  /** The outcome for the whole limit. `remaining` does not include the leased units. */
  readonly outcome: Outcome;
  readonly size: number;
  units: number;
}

/** A region has charged a check. */
export interface Granted {
  readonly region: LimiterRegion;
  readonly check: RuleCheck;
  /** The outcome for the region's part; `whole` is that for the whole limit. */
  readonly outcome: Outcome;
  readonly whole: Outcome;
  readonly sentAtMs: number;
  readonly chargedAtMs: number;
  /** Units of the charge that the request itself has used. */
  readonly usedNow: number;
  /** The announcement in force when the call was sent. */
  readonly announcement: string;
}

/** What was last known to be left of the whole limit, minus the units used from memory since. */
interface Left {
  readonly check: RuleCheck;
  readonly region: LimiterRegion;
  /** By the clock of the region: the time of that answer, and when the counter starts over. */
  readonly chargedAtMs: number;
  readonly resetAtMs: number;
  units: number;
}

export interface LeaseCounter extends Measured {
  /** Units of a lease call that is still in flight. */
  asked: number;
  askingUntilMs: number;
  leases: Lease[];
  left?: Left | undefined;
}

/** When a lease has only this part left, it is time for the next one. */
const LOW = 0.4;

export const createLeaseCounter = (sinceMs: number): LeaseCounter => ({
  ...startMeasuring(sinceMs),
  asked: 0,
  askingUntilMs: 0,
  leases: [],
});

export const leaseFor = (counter: LeaseCounter, check: RuleCheck, ms: number): Lease | undefined =>
  counter.leases.find(
    (lease) => lease.endsAtMs > ms && lease.units >= check.cost && isSameLimit(lease.check, check),
  );

/** A lease call without an answer after this time has failed. */
const ASKING_MS = 1_000;

export function ask(counter: LeaseCounter, units: number, ms: number): void {
  counter.asked = units;
  counter.askingUntilMs = ms + ASKING_MS;
}

/** Units of a lease call in flight. */
const askedUnits = ({ asked, askingUntilMs }: LeaseCounter, ms: number): number =>
  askingUntilMs > ms ? asked : 0;

export const isAsking = (counter: LeaseCounter, ms: number): boolean => askedUnits(counter, ms) > 0;

/** Whether the counter's leases run dry soon. */
export function isLow({ leases }: LeaseCounter, ms: number): boolean {
  const live = leases.filter(({ endsAtMs }) => endsAtMs > ms);
  const units = live.reduce((sum, lease) => sum + lease.units, 0);
  return units < LOW * (live.at(-1)?.size ?? 0);
}

/** A lease of another limit does not fit the check. */
const isSameLimit = ({ full }: RuleCheck, check: RuleCheck): boolean =>
  full.limit === check.full.limit && full.extra === check.full.extra;

/**
 * What is left of the whole limit after this charge. The lease of this charge is not among the leases yet. The isolate
 * cannot tell whether the region charged a lease call in flight before this charge or after it. So the isolate takes
 * what should be left if no other isolate has used units meanwhile, within the bounds that the answer sets.
 */
export function noteLeft(counter: LeaseCounter, granted: Granted, leased: number, ms: number): number {
  const { whole, check, region, chargedAtMs, usedNow } = granted;
  const held = counter.leases.filter((lease) => lease.endsAtMs > ms && lease.region === region);
  const sum = (leases: readonly Lease[]) => leases.reduce((units, lease) => units + lease.units, 0);
  const before = held.filter((lease) => lease.chargedAtMs < chargedAtMs);
  const least = whole.remaining + leased + sum(before);
  const inDoubt = askedUnits(counter, ms) + sum(held.filter((lease) => lease.chargedAtMs === chargedAtMs));
  const units = Math.max(least, Math.min(least + inDoubt, expectedLeft(counter, granted) - usedNow));
  const { left } = counter;
  const isOlder = left && left.region === region && chargedAtMs < left.chargedAtMs;
  if (!isOlder) counter.left = { check, region, chargedAtMs, resetAtMs: whole.resetAtMs, units };
  return units;
}

function expectedLeft({ left }: LeaseCounter, { check, region, chargedAtMs }: Granted): number {
  const isKnown = left && left.region === region && isSameLimit(left.check, check);
  return isKnown && left.resetAtMs > chargedAtMs ? left.units : check.full.limit;
}

/** Uses units of a lease. Returns what is left of the whole limit. */
export function useUnits({ left }: LeaseCounter, lease: Lease, units: number): number {
  lease.units -= units;
  const isKnown = left && left.region === lease.region && isSameLimit(left.check, lease.check);
  if (!isKnown) return lease.outcome.remaining + lease.units;
  left.units -= units;
  return left.units;
}

export function putBackUnits({ left }: LeaseCounter, lease: Lease, units: number): void {
  lease.units += units;
  if (left?.region === lease.region) left.units += units;
}
