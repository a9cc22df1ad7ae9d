import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Admission, findBeyond } from '../../local/simulator/ledger.ts';
import { SIMULATED } from '../../local/simulator/rule-sets.ts';
import type { Check } from '../../src/core/counting/check.ts';
import { firstBeyond } from '../limiter/most-admitted.ts';
import { rounds } from '../rounds.ts';

const WINDOW_MS = 1_000;
const exact = { windowMs: WINDOW_MS, boundMs: 0, forgettings: [] };
const admission = (atMs: number, changes: Partial<Admission> = {}): Admission => ({
  atMs,
  region: 0,
  units: 1,
  limit: 3,
  burst: undefined,
  request: atMs,
  ...changes,
});

describe('a history of admissions', () => {
  it.each(SIMULATED)('is judged by the definition of %s, computed the slow way', (algorithm) =>
    fc.assert(
      fc.property(
        fc.array(
          fc.record({ afterMs: fc.integer({ min: 0, max: 400 }), units: fc.integer({ min: 1, max: 2 }) }),
          {
            maxLength: 30,
          },
        ),
        (steps) => {
          let atMs = 5_000;
          const admissions = steps.map(({ afterMs, units }, request) => {
            atMs += afterMs;
            return admission(atMs, { units, request });
          });
          const check: Check = { key: 'k', id: 'i', algorithm, limit: 3, windowMs: WINDOW_MS, cost: 1 };
          // The slow way names a moment, at which there may be several admissions.
          expect(findBeyond({ ...exact, algorithm }, admissions)?.admission.atMs).toBe(
            firstBeyond(check, admissions)?.atMs,
          );
        },
      ),
      { numRuns: rounds(200) },
    ),
  );

  it('does not count charges that were given back before', () => {
    const [first, ...others] = [0, 10, 20, 30].map((atMs) => admission(5_000 + atMs));
    const given = { ...(first as Admission), refundedAtMs: 5_025 };
    for (const algorithm of SIMULATED) {
      expect(findBeyond({ ...exact, algorithm }, [given, ...others])).toBeUndefined();
      const late = { ...given, refundedAtMs: 5_031 };
      expect(findBeyond({ ...exact, algorithm }, [late, ...others])?.admission.atMs).toBe(5_030);
    }
  });

  it('ignores charges that a region forgot, and allows the part that it may have transferred, for a stated time', () => {
    const admissions = [0, 10, 20, 30, 40, 50, 60].map((atMs) => admission(5_000 + atMs));
    const forgetting = { atMs: 5_025, region: 0, part: 1, untilMs: 5_055 };
    for (const algorithm of SIMULATED) {
      const beyond = (untilMs: number) =>
        findBeyond({ ...exact, algorithm, forgettings: [{ ...forgetting, untilMs }] }, admissions);
      expect(beyond(5_100)).toBeUndefined();
      expect(beyond(5_055)?.admission.atMs).toBe(5_060);
    }
  });

  it('may reach the old limit in total, and a lowered limit with the admissions after the change', () => {
    const before = [0, 10, 20].map((atMs) => admission(5_000 + atMs));
    const after = (...times: number[]) => times.map((atMs) => admission(5_000 + atMs, { limit: 1 }));
    const judge = (...times: number[]) =>
      findBeyond({ ...exact, algorithm: 'sliding-window-log' }, [...before, ...after(...times)]);
    expect(judge(1_005)).toBeUndefined();
    expect(judge(500)?.admission.atMs).toBe(5_500);
    expect(judge(1_015, 1_025)?.admission.atMs).toBe(6_025);
  });

  it('drain a bucket at the pace of the old limit as long as that counts, however quiet the caller is', () => {
    const many = Array.from({ length: 12 }, (_, i) => admission(5_000 + i, { limit: 12 }));
    const judge = (...times: number[]) =>
      findBeyond({ ...exact, algorithm: 'token-bucket' }, [
        ...many,
        ...times.map((atMs) => admission(atMs, { limit: 2 })),
      ]);
    // The old limit counts for three windows. At the pace of the new one, half of the units would have drained.
    expect(judge(8_100, 8_101)).toBeUndefined();
    expect(judge(8_100, 8_101, 8_102)?.admission.atMs).toBe(8_102);
  });
});

describe('clocks that differ by the bound', () => {
  const skewed = { ...exact, algorithm: 'fixed-window', boundMs: 200 } as const;
  const all = (...times: number[]) => times.map((atMs, i) => admission(atMs, { request: i }));

  it('may put an admission into the next window, by half of the bound', () => {
    expect(findBeyond(skewed, all(5_899, 5_899, 5_899, 5_900))).toBeUndefined();
    expect(findBeyond(skewed, all(5_899, 5_899, 5_899, 5_899))).toBeDefined();
  });

  it('do not explain more admissions than both windows allow', () => {
    const full = all(5_899, 5_899, 5_899, 6_101, 6_101, 6_101);
    expect(findBeyond(skewed, full)).toBeUndefined();
    expect(findBeyond(skewed, [...full, admission(6_000)])).toBeDefined();
  });

  it('change nothing if an algorithm measures only the times between admissions', () => {
    for (const algorithm of ['sliding-window-log', 'token-bucket'] as const)
      expect(findBeyond({ ...skewed, algorithm }, all(5_000, 5_000, 5_000, 5_100))).toBeDefined();
  });
});
