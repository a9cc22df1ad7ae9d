// How much is leased, and for how long: at the very end of a lease its units are used all at once, and others take all
// that the counter then has left.
import { describe, expect, it } from 'vitest';
import { type Admission, findBeyond } from '../../local/simulator/ledger.ts';
import { runChecks } from '../../src/core/counting/counters.ts';
import { createMemoryCounters } from '../../src/core/counting/memory-counters.ts';
import { termOf, wantOf } from '../../src/limiter/lease-terms.ts';
import { createRuleCheck, START_MS } from './rule-checks.ts';

const bucket = createRuleCheck({ algorithm: 'token-bucket', limit: 1_000, windowMs: 10_000 });
const minute = createRuleCheck({ limit: 1_000, windowMs: 60_000 });
const busy = { unitsPerMs: 0.2, remaining: 1_000, isolates: 1, nowMs: START_MS };

describe('a lease of a bucket that drains', () => {
  it.each([0, 1, 40, 300])('is exact to its last moment if %i units were used before', (usedBefore) => {
    const counters = createMemoryCounters();
    const admissions: Admission[] = [];
    const admit = (atMs: number, units: number) =>
      void admissions.push({
        atMs,
        region: 0,
        units,
        limit: 1_000,
        burst: undefined,
        request: admissions.length,
      });
    const take = (units: number, want: number, atMs: number) => {
      const { outcomes } = runChecks('take', [{ ...bucket, cost: units, want }], atMs, counters);
      admit(atMs, units);
      return outcomes[0] as NonNullable<(typeof outcomes)[0]>;
    };
    if (usedBefore > 0) take(usedBefore, 0, START_MS);
    const outcome = take(1, 200, START_MS);
    const charge = { atMs: START_MS, usedNow: 1, granted: outcome.granted };
    const term = termOf(bucket, outcome, charge);
    if (!term) throw new Error('nothing is leased');
    const endMs = START_MS + term.lastsMs;
    admit(endMs, term.units);
    const left = runChecks('peek', [bucket], endMs, counters).outcomes[0]?.remaining ?? 0;
    take(left, 0, endMs);
    const how = { algorithm: bucket.algorithm, windowMs: bucket.windowMs, boundMs: 0, forgettings: [] };
    expect(findBeyond(how, admissions)).toBeUndefined();
  });

  it('sets units aside until enough of it is in use', () => {
    const of = (remaining: number) =>
      termOf(bucket, { ...OUTCOME, remaining }, { atMs: START_MS, usedNow: 1, granted: 100 });
    expect([of(899)?.units, of(799)?.units]).toEqual([49, 100]);
  });
});

describe('a lease of a window', () => {
  it('ends a moment before the window does', () => {
    const atMs = START_MS + 59_000;
    const term = termOf(minute, OUTCOME, { atMs, usedNow: 1, granted: 50 });
    expect(term).toEqual({ units: 50, lastsMs: 990 });
  });

  it('is not given in the last moment', () => {
    expect(termOf(minute, OUTCOME, { atMs: START_MS + 59_995, usedNow: 1, granted: 50 })).toBeUndefined();
  });
});

describe('what is asked for', () => {
  it('is half a second at the pace of now', () => {
    expect(wantOf(minute, busy)).toBe(100);
  });

  it('is a share of what is left, divided by the isolates', () => {
    expect(wantOf(minute, { ...busy, remaining: 120, isolates: 2 })).toBe(30);
  });

  it('is nothing if little is left, or the pace is slow, or the window ends', () => {
    expect(wantOf(minute, { ...busy, remaining: 7 })).toBe(0);
    expect(wantOf(minute, { ...busy, unitsPerMs: 0.019 })).toBe(0);
    expect(wantOf(minute, { ...busy, nowMs: START_MS + 59_980 })).toBe(0);
  });

  it('is a number of whole requests', () => {
    expect(wantOf({ ...minute, cost: 3 }, busy)).toBe(99);
  });

  it.each([
    [{ lease: false }],
    [{ action: 'throttle' }],
    [{ action: 'log' }],
    [{ refundOnError: true }],
    [{ costFromOrigin: true }],
  ] as const)('is nothing for a rule with %o', (rule) => {
    expect(wantOf(createRuleCheck({ ...minute, rule }), busy)).toBe(0);
  });

  it.each([
    [{ countDenied: true }],
    [{ log: true }],
    [{ blockMs: 1_000 }],
    [{ algorithm: 'sliding-window-log' }],
    [{ algorithm: 'concurrency' }],
  ] as const)('is nothing for a check with %o', (shape) => {
    expect(wantOf({ ...minute, ...shape }, busy)).toBe(0);
  });
});

const OUTCOME = { allowed: true, remaining: 900, resetAtMs: 0, retryAfterMs: 0, granted: 0, delayMs: 0 };
