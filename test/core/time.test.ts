// The coarse cap: a fixed number of requests in each second, and not one more.
import { expect, it } from 'vitest';
import { createPerSecondBudget, type PerSecondBudget } from '../../src/core/time.ts';
import { START_MS } from '../limiter/rule-checks.ts';

/** How many of these attempts pass at one moment. */
function takeAt(cap: PerSecondBudget, nowMs: number, attempts: number): number {
  let passed = 0;
  for (let i = 0; i < attempts; i++) {
    if (!cap.hasRoom(nowMs)) continue;
    cap.take();
    passed += 1;
  }
  return passed;
}

it('a budget lets exactly its number through in each second of the clock', () => {
  const cap = createPerSecondBudget(3);
  expect(takeAt(cap, START_MS, 2)).toBe(2);
  expect(takeAt(cap, START_MS + 999, 5)).toBe(1);
  expect(takeAt(cap, START_MS + 1_000, 5)).toBe(3);
  expect(takeAt(cap, START_MS + 1_999, 5)).toBe(0);
  expect(takeAt(cap, START_MS + 60_000, 5)).toBe(3);
});

it('a budget is not used up by asking for room', () => {
  const cap = createPerSecondBudget(1);
  for (let i = 0; i < 100; i++) expect(cap.hasRoom(START_MS)).toBe(true);
  cap.take();
  expect(cap.hasRoom(START_MS)).toBe(false);
});

it('a budget goes on after the clock was put back', () => {
  const cap = createPerSecondBudget(1);
  expect(takeAt(cap, START_MS, 1)).toBe(1);
  expect(takeAt(cap, START_MS - 3_600_000, 2)).toBe(1);
});

it('a budget without a cap lets any number through', () => {
  expect(takeAt(createPerSecondBudget(0), START_MS, 100_000)).toBe(100_000);
});
