// How many units an isolate leases, and for how long.
import { describe, expect, it } from 'vitest';
import { lastsMs, wantOf } from '../../src/limiter/lease-terms.ts';
import { createRuleCheck, START_MS } from './rule-checks.ts';

const minute = createRuleCheck({ limit: 1_000, windowMs: 60_000, rule: { lease: true } });
const busy = {
  unitsPerMs: 0.2,
  unitsPerMsBefore: 0.2,
  remaining: 1_000,
  isolates: 1,
  nowMs: START_MS,
  callMs: 0,
};

describe('a lease', () => {
  it.each([
    ['fixed-window', 990],
    ['sliding-window-counter', 990],
    ['sliding-window-buckets', 990],
  ] as const)('of %s ends a moment before its window or bucket does', (algorithm, goodMs) => {
    const extra = algorithm === 'sliding-window-buckets' ? 12 : undefined;
    expect(lastsMs({ ...minute, algorithm, extra }, START_MS + 59_000)).toBe(goodMs);
  });

  it('of a month ends a moment before the month does', () => {
    const borders = ['2026-01-31', '2026-02-28', '2026-03-31', '2026-04-30'].map(Date.parse) as [
      ...[number, number, number, number],
    ];
    const atMs = borders[2] - 5_000;
    expect(lastsMs({ ...minute, borders }, atMs)).toBe(4_990);
    expect(lastsMs({ ...minute, borders }, atMs + 6_000)).toBe(borders[3] - atMs - 6_010);
  });

  it('is not given in the last moment of its window', () => {
    expect(lastsMs(minute, START_MS + 59_995)).toBeLessThan(0);
  });
});

describe('a lease call asks for a number of units that', () => {
  const large = createRuleCheck({ limit: 10_000, windowMs: 60_000, rule: { lease: true } });

  it('covers a hundred requests, or half a second at a faster pace, or five seconds at a slower one', () => {
    const wantAt = (perMs: number) => wantOf(large, { ...busy, unitsPerMs: perMs, unitsPerMsBefore: perMs });
    expect([0.4, 0.2, 0.05, 0.02, 0.01].map(wantAt)).toEqual([200, 100, 100, 100, 50]);
  });

  it('follows the mean of two measurements of the pace', () => {
    expect(wantOf(large, { ...busy, unitsPerMs: 0.4, unitsPerMsBefore: 0.3 })).toBe(175);
  });

  it('is at most an eighth of the limit', () => {
    expect(wantOf(minute, { ...busy, unitsPerMs: 1, unitsPerMsBefore: 1 })).toBe(125);
  });

  it('is at most an equal share of the units that are left', () => {
    expect(wantOf(minute, { ...busy, remaining: 120, isolates: 2 })).toBe(60);
  });

  it('is at most the units that the isolate uses in half of the time until the window ends', () => {
    expect(wantOf(minute, { ...busy, nowMs: START_MS + 59_490 })).toBe(50);
  });

  it('is zero if little is left, or the pace is slow, or the window is about to end', () => {
    expect(wantOf(minute, { ...busy, remaining: 1 })).toBe(0);
    expect(wantOf(minute, { ...busy, unitsPerMs: 0.0049 })).toBe(0);
    expect(wantOf(minute, { ...busy, nowMs: START_MS + 59_985 })).toBe(0);
  });

  it('leaves the units that all isolates use while the call is on its way', () => {
    expect(wantOf(minute, { ...busy, remaining: 30, callMs: 100 })).toBe(10);
    expect(wantOf(minute, { ...busy, remaining: 21, callMs: 100 })).toBe(0);
  });

  it('is zero after a burst: the pace must have lasted', () => {
    expect(wantOf(minute, { ...busy, unitsPerMsBefore: 0.0049 })).toBe(0);
  });

  it('is zero for a limit of fewer than a hundred requests', () => {
    const wantOfLimit = (limit: number, cost = 1) =>
      wantOf({ ...minute, cost, full: { limit, extra: undefined } }, busy);
    expect([wantOfLimit(99), wantOfLimit(100)]).toEqual([0, 12]);
    expect([wantOfLimit(299, 3), wantOfLimit(300, 3)]).toEqual([0, 36]);
  });

  it('covers whole requests only', () => {
    expect(wantOf({ ...minute, cost: 3 }, { ...busy, remaining: 100 })).toBe(99);
  });

  it.each([
    [{ lease: false }],
    [{ action: 'throttle' }],
    [{ action: 'log' }],
    [{ refundOnError: true }],
    [{ costFromOrigin: true }],
  ] as const)('is zero for a rule with %o', (rule) => {
    expect(wantOf(createRuleCheck({ ...minute, rule: { lease: true, ...rule } }), busy)).toBe(0);
  });

  it.each([
    [{ countDenied: true }],
    [{ isShadow: true }],
    [{ blockMs: 1_000 }],
    [{ algorithm: 'sliding-window-log' }],
    [{ algorithm: 'concurrency' }],
    [{ algorithm: 'token-bucket' }],
    [{ algorithm: 'leaky-bucket' }],
    [{ algorithm: 'gcra' }],
  ] as const)('is zero for a check with %o', (shape) => {
    expect(wantOf({ ...minute, ...shape }, busy)).toBe(0);
  });
});
