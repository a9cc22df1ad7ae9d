// What the whole limit allows over all regions together, and the pieces of histories over regions.
import fc from 'fast-check';
import type { AlgorithmId } from '../../src/core/counting/algorithms/registry.ts';
import type { Counter, Counters } from '../../src/core/counting/counters.ts';
import { createMemoryCounters } from '../../src/core/counting/counters.ts';
import type { SplitLimit, WeightedRegion } from '../../src/core/regions/parts.ts';

export const sum = (parts: readonly number[]) => parts.reduce((total, part) => total + part, 0);
export const named = (...shares: number[]): WeightedRegion[] =>
  shares.map((share, i) => ({ name: `r${i}`, share }));

export const counting = (overrides: Partial<SplitLimit> = {}): SplitLimit => ({
  algorithm: 'token-bucket',
  limit: 10,
  extra: undefined,
  cost: 1,
  ...overrides,
});

export interface Admission {
  readonly atMs: number;
  /** Negative for units that were given back to a bucket. */
  readonly units: number;
}
export type Rule = SplitLimit & { readonly windowMs: number };
type Definition = (past: readonly Admission[], nowMs: number, rule: Rule) => boolean;

export const unitsOf = (past: readonly Admission[]) => sum(past.map(({ units }) => units));
const unitsSince = (past: readonly Admission[], fromMs: number) =>
  unitsOf(past.filter(({ atMs }) => atMs >= fromMs));

/** From any moment on, at most the burst plus the units that have drained since that moment. */
const bucket: Definition = (past, nowMs, { limit, windowMs, extra: burst = limit }) => {
  let units = 0;
  return past.toReversed().every((one) => {
    units += one.units;
    return units * windowMs <= burst * windowMs + limit * (nowMs - one.atMs);
  });
};

const anyWindow: Definition = (past, nowMs, { limit, windowMs }) =>
  unitsSince(past, nowMs - windowMs + 1) <= limit;

/** What the whole limit allows for all admissions so far, in any region. */
export const DEFINITIONS: Record<AlgorithmId, Definition> = {
  'fixed-window': (past, nowMs, { limit, windowMs }) => unitsSince(past, nowMs - (nowMs % windowMs)) <= limit,
  'sliding-window-log': anyWindow,
  'sliding-window-counter'(past, nowMs, { limit, windowMs }) {
    const intoMs = nowMs % windowMs;
    const current = unitsSince(past, nowMs - intoMs);
    const previous = unitsSince(past, nowMs - intoMs - windowMs) - current;
    return previous * (windowMs - intoMs) + current * windowMs <= limit * windowMs;
  },
  'sliding-window-buckets'(past, nowMs, { limit, windowMs, extra: buckets = 10 }) {
    const bucketMs = Math.ceil(windowMs / buckets);
    const first = Math.floor(nowMs / bucketMs) - Math.ceil(windowMs / bucketMs);
    return unitsSince(past, first * bucketMs) <= limit;
  },
  'token-bucket': bucket,
  'leaky-bucket': bucket,
  gcra: bucket,
  concurrency: anyWindow,
};

export const START_MS = 1_700_000_000_123;

/** Algorithms with a burst, which drain. */
export const isBucket = (algorithm: AlgorithmId) => DEFINITIONS[algorithm] === bucket;

export type Wait = number | 'border' | 'before border' | 'window' | 'before window';

/** Mostly no wait or a short one; and the moments at which something ends. */
export const waits: fc.Arbitrary<Wait> = fc.oneof(
  { weight: 4, arbitrary: fc.constant(0) },
  { weight: 3, arbitrary: fc.nat({ max: 40 }) },
  { weight: 1, arbitrary: fc.constantFrom('border' as const, 'before border', 'window', 'before window') },
);

export const rules = (algorithm: AlgorithmId): fc.Arbitrary<Rule> =>
  fc.record({
    algorithm: fc.constant(algorithm),
    limit: fc.integer({ min: 4, max: 40 }),
    windowMs: fc.oneof(fc.integer({ min: 1, max: 60 }), fc.constantFrom(97, 1_000)),
    extra: fc.option(fc.integer({ min: 4, max: 40 }), { nil: undefined }),
    cost: fc.constant(1),
  });

export const shareList = fc.array(fc.constantFrom(0, 0.1, 0.25, 0.3, 1, 2, 3.5), {
  minLength: 1,
  maxLength: 4,
});

export function waitMs(wait: Wait, windowMs: number, nowMs: number): number {
  if (typeof wait === 'number') return wait;
  const toBorderMs = windowMs - (nowMs % windowMs);
  const moments = {
    border: toBorderMs,
    'before border': toBorderMs - 1,
    window: windowMs,
    'before window': windowMs - 1,
  };
  return moments[wait];
}

/** Drops expired counters, like Redis. */
export function createExpiringCounters(now: () => number): Counters {
  const kept = createMemoryCounters();
  const isAlive = (counter: Counter | undefined) => counter !== undefined && counter.expiresAtMs > now();
  return {
    get: (key, id) => (isAlive(kept.get(key, id)) ? kept.get(key, id) : undefined),
    save: kept.save,
  };
}
