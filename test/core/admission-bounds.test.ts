// Compares the stated bounds of a limit (at most admitted, at most denied) with the algorithms, on random histories.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type CountedLimit,
  deniesWithinMs,
  hasAdmissionBounds,
  mostAdmitted,
  mostAdmittedInAny,
} from '../../src/authoring/admission-bounds.ts';
import { idsWith } from '../../src/core/counting/algorithms/registry.ts';
import { capacityOf } from '../../src/core/counting/capacity.ts';
import { runChecks } from '../../src/core/counting/counters.ts';
import { rounds } from '../rounds.ts';
import { type Admission, createExpiringCounters, rules, unitsOf, waitMs, waits } from './whole-limit.ts';

const PERIOD_MS = 60;
const counted = idsWith(({ holdsSeats }) => !holdsSeats);

interface Sent extends Admission {
  readonly isAdmitted: boolean;
}

/** Sends requests of one unit, with these waits between them. The algorithm decides. */
function play(rule: CountedLimit, pauses: readonly Parameters<typeof waitMs>[0][]): Sent[] {
  let nowMs = 0;
  const counters = createExpiringCounters(() => nowMs);
  return pauses.map((pause) => {
    nowMs += waitMs(pause, rule.windowMs, nowMs);
    const check = { ...rule, key: 'k', id: 'i', cost: 1 };
    const [outcome] = runChecks('take', [check], nowMs, counters).outcomes;
    return { atMs: nowMs, units: 1, isAdmitted: outcome?.allowed === true };
  });
}

const between = (sent: readonly Sent[], fromMs: number, toMs: number) =>
  sent.filter(({ atMs }) => atMs >= fromMs && atMs < toMs);

describe.each(counted)('%s', (algorithm) => {
  const histories = fc.tuple(rules(algorithm), fc.array(waits, { minLength: 1, maxLength: 150 }));

  it('never admits more than its bounds allow, in any period or in total', () => {
    fc.assert(
      fc.property(histories, ([rule, pauses]) => {
        const sent = play(rule, pauses);
        const admitted = sent.filter(({ isAdmitted }) => isAdmitted);
        const endMs = (sent.at(-1)?.atMs ?? 0) + 1;
        expect(unitsOf(admitted)).toBeLessThanOrEqual(mostAdmitted(rule, { fromMs: 0, toMs: endMs }));
        for (let fromMs = 0; fromMs < endMs; fromMs += PERIOD_MS)
          expect(unitsOf(between(admitted, fromMs, fromMs + PERIOD_MS))).toBeLessThanOrEqual(
            mostAdmittedInAny(rule, PERIOD_MS),
          );
      }),
      { numRuns: rounds(40) },
    );
  });

  it('never denies a subject that stays within the capacity for as long as charges count', () => {
    fc.assert(
      fc.property(histories, ([rule, pauses]) => {
        const sent = play(rule, pauses);
        const withinMs = deniesWithinMs(rule);
        const isWithin = sent.every(
          ({ atMs }) => unitsOf(between(sent, atMs - withinMs, atMs + 1)) <= capacityOf(rule),
        );
        if (isWithin) expect(sent.every(({ isAdmitted }) => isAdmitted)).toBe(true);
      }),
      { numRuns: rounds(40) },
    );
  });
});

it('buckets that do not divide the window count for longer than a window and a bucket', () => {
  expect(deniesWithinMs({ algorithm: 'sliding-window-buckets', limit: 6, windowMs: 97, extra: 10 })).toBe(
    110,
  );
});

it('seats have no bounds', () => {
  expect([hasAdmissionBounds('concurrency'), hasAdmissionBounds('fixed-window')]).toEqual([false, true]);
});

it.each([
  ['fixed-window', 60_000, undefined, 600],
  ['fixed-window', 7_000, undefined, 5_160],
  ['fixed-window', 86_400_000, undefined, 10],
  ['sliding-window-log', 3_600_000, undefined, 10],
  ['token-bucket', 60_000, 50, 650],
] as const)('%s of 10 in %i ms has the expected bound for an hour', (algorithm, windowMs, extra, most) => {
  expect(mostAdmittedInAny({ algorithm, limit: 10, windowMs, extra }, 3_600_000)).toBe(most);
});
