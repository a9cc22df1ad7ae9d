// What one isolate decides alone: how much of a limit it admits, and that its memory stays small.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ALGORITHM_IDS, type AlgorithmId } from '../../src/core/counting/algorithms/registry.ts';
import { createMemoryCounters, runChecks } from '../../src/core/counting/counters.ts';
import type { OnUnavailable } from '../../src/core/matching/rule.ts';
import { rounds } from '../rounds.ts';
import { asNext, checkFor, gaps, shape, startLocal, withExtra } from './local-limiter-harness.ts';
import { type Admission, firstBeyond } from './most-admitted.ts';
import { START_MS } from './rule-checks.ts';

/** For any history, the answers equal those of counters that know only this isolate. */
function expectUndivided(algorithm: AlgorithmId, onUnavailable: OnUnavailable, isolates: number) {
  fc.assert(
    fc.property(fc.record(shape), gaps, ({ extra, ...rule }, waits) => {
      const check = checkFor(onUnavailable, { ...rule, algorithm, ...withExtra(algorithm, extra) });
      const local = startLocal({ isolates });
      const counters = createMemoryCounters();
      let nowMs = START_MS;
      for (const waitMs of waits) {
        nowMs += waitMs;
        const asked = asNext(check);
        const { outcomes } = runChecks('take', [asked], nowMs, counters);
        const allowed = outcomes.every((outcome) => outcome.allowed);
        const decision = local.at(nowMs).decide(asked);
        expect(decision).toMatchObject({ allowed, fallback: onUnavailable });
        expect(decision.local?.results).toEqual([{ check: asked, outcome: outcomes[0] }]);
      }
    }),
    { numRuns: rounds(50) },
  );
}

const COUNTED_ALIKE = ALGORITHM_IDS.filter((id) => id !== 'sliding-window-log');

describe('a rule that is open', () => {
  it.each(COUNTED_ALIKE)(
    '(%s) gets the whole limit in each isolate, however many isolates there are',
    (algorithm) => expectUndivided(algorithm, 'open', 37),
  );
});

describe('a rule that is local', () => {
  it.each([
    { limit: 100, cost: 1, isolates: 1, part: 100 },
    { limit: 100, cost: 1, isolates: 7, part: 14 },
    { limit: 100, cost: 1, isolates: 100, part: 1 },
    { limit: 100, cost: 1, isolates: 101, part: 1 },
    { limit: 100, cost: 30, isolates: 7, part: 30 },
    { limit: 100, cost: 30, isolates: 2, part: 50 },
  ])('gets $part of $limit if there are $isolates isolates and a request costs $cost', (given) => {
    const { limit, cost, isolates, part } = given;
    for (const algorithm of ALGORITHM_IDS) {
      const local = startLocal({ isolates });
      const check = checkFor('local', { algorithm, limit, cost, windowMs: 60_000 });
      const passed = Array.from({ length: limit }, () => local.decide(asNext(check)).allowed);
      expect([algorithm, passed.filter(Boolean).length]).toEqual([algorithm, Math.floor(part / cost)]);
    }
  });

  it.each([
    ['token-bucket', 50, 7],
    ['leaky-bucket', 50, 7],
    ['gcra', 50, 7],
    ['gcra', 5, 1],
    ['gcra', undefined, undefined],
    ['sliding-window-buckets', 50, 50],
    ['sliding-window-buckets', 5, 5],
  ] as const)('(%s) with an extra of %s gives each of 7 isolates %s', (algorithm, extra, part) => {
    const check = checkFor('local', { algorithm, extra, limit: 70 });
    const [result] = startLocal({ isolates: 7 }).decide(check).local?.results ?? [];
    expect(result?.check).toEqual({ ...check, limit: 10, extra: part });
  });

  it.each([
    // A split limit: the isolates of each region share its part.
    { limit: 20, full: 60, isolates: 4, regions: 3, part: 5 },
    // A limit that is not split: the isolates of all regions share it.
    { limit: 60, full: 60, isolates: 4, regions: 3, part: 5 },
    { limit: 60, full: 60, isolates: 4, regions: 1, part: 15 },
    { limit: 20, full: 60, isolates: 1, regions: 3, part: 20 },
  ])(
    'gets $part of a limit of $full that is $limit here, with $isolates isolates in $regions regions',
    (given) => {
      const { limit, full, isolates, regions, part } = given;
      const check = checkFor('local', { limit, full: { limit: full, extra: undefined } });
      const [result] = startLocal({ isolates, regions }).decide(check).local?.results ?? [];
      expect(result?.check.limit).toBe(part);
    },
  );

  it('gets all of the limit if the isolate is alone, and no more', () => {
    for (const algorithm of COUNTED_ALIKE) expectUndivided(algorithm, 'local', 1);
  });

  it('that throttles makes no request wait longer than its maximum delay', () => {
    const local = startLocal({ isolates: 10 });
    const throttling = { action: 'throttle', maxDelayMs: 5_000 } as const;
    // The requests ahead of the last one take 5 s at a pace of 19 a second.
    const check = checkFor('local', { algorithm: 'leaky-bucket', limit: 19, extra: 96, rule: throttling });
    const results = Array.from({ length: 96 }, () => local.decide(check).local?.results[0]?.outcome);
    const delaysMs = results.flatMap((outcome) => (outcome?.allowed ? [outcome.delayMs] : []));
    expect(Math.max(...delaysMs)).toBeLessThanOrEqual(5_000);
  });

  it('is named as the fallback, whether it allows or denies', () => {
    const local = startLocal({ isolates: 10 });
    expect(local.decide(checkFor('local'))).toMatchObject({ allowed: true, fallback: 'local' });
    expect(local.decide(checkFor('local'))).toMatchObject({ allowed: false, fallback: 'local' });
  });

  it.each(ALGORITHM_IDS)('(%s) admits no more than the limit in all isolates together', (algorithm) => {
    const request = fc.record({ isolate: fc.nat(), waitMs: fc.nat({ max: 20 }) });
    const history = fc.array(request, { minLength: 20, maxLength: 120 });
    const plenty = fc.record({
      ...shape,
      isolates: fc.integer({ min: 1, max: 6 }),
      rest: fc.nat({ max: 9 }),
    });
    fc.assert(
      fc.property(plenty, history, ({ isolates, rest, windowMs, cost, extra }, requests) => {
        const limit = isolates * cost + rest;
        const burst = withExtra(algorithm, extra && isolates * cost + extra);
        const check = checkFor('local', { algorithm, limit, windowMs, cost, ...burst });
        const locals = Array.from({ length: isolates }, () => startLocal({ isolates }));
        const admissions: Admission[] = [];
        let atMs = START_MS;
        for (const { isolate, waitMs } of requests) {
          atMs += waitMs;
          const decision = locals[isolate % isolates]?.at(atMs).decide(asNext(check));
          if (decision?.allowed) admissions.push({ atMs, units: cost });
        }
        expect(firstBeyond(check, admissions)).toBeUndefined();
      }),
      { numRuns: rounds(60) },
    );
  });
});

describe('with an open and a local rule together', () => {
  const both = (openLimit: number, localLimit: number) => [
    checkFor('open', { id: 'open', limit: openLimit }),
    checkFor('local', { id: 'local', limit: localLimit }),
  ];

  it('the decision is a local one if both allow', () => {
    expect(startLocal().decide(...both(5, 5))).toMatchObject({ allowed: true, fallback: 'local' });
  });

  it.each([
    ['open', 1, 5, 'open'],
    ['local', 5, 1, 'local'],
    ['both', 1, 1, 'local'],
  ])('a denial names the fallback of the rule that denied: %s', (_, openLimit, localLimit, fallback) => {
    const local = startLocal();
    local.decide(...both(openLimit, localLimit));
    const decision = local.decide(...both(openLimit, localLimit));
    expect(decision).toMatchObject({ allowed: false, fallback });
  });
});

describe('a sliding-window-log rule', () => {
  const log = { algorithm: 'sliding-window-log', limit: 3, windowMs: 1_000 } as const;

  it('is counted in ten buckets if it is local, and in a fixed window if it is open', () => {
    const standsInFor = (onUnavailable: OnUnavailable) => {
      const [result] = startLocal().decide(checkFor(onUnavailable, log)).local?.results ?? [];
      return [result?.check.algorithm, result?.check.limit, result?.check.extra];
    };
    expect(standsInFor('local')).toEqual(['sliding-window-buckets', 3, 10]);
    expect(standsInFor('open')).toEqual(['fixed-window', 3, undefined]);
  });

  it('never admits more than the limit in any true window if it is local', () => {
    fc.assert(
      fc.property(fc.record(shape), gaps, ({ limit, windowMs, cost }, waits) => {
        const check = checkFor('local', { ...log, limit, windowMs, cost });
        const local = startLocal();
        const admissions: Admission[] = [];
        let atMs = START_MS;
        for (const waitMs of waits) {
          atMs += waitMs;
          if (local.at(atMs).decide(check).allowed) admissions.push({ atMs, units: cost });
        }
        expect(firstBeyond(check, admissions)).toBeUndefined();
      }),
      { numRuns: rounds(200) },
    );
  });

  it('admits every caller that keeps to the limit if it is open', () => {
    fc.assert(
      fc.property(fc.record(shape), gaps, ({ limit, windowMs, cost }, waits) => {
        const check = checkFor('open', { ...log, limit, windowMs, cost });
        const local = startLocal();
        const counters = createMemoryCounters();
        let atMs = START_MS;
        for (const waitMs of waits) {
          atMs += waitMs;
          const [outcome] = runChecks('take', [check], atMs, counters).outcomes;
          if (outcome?.allowed) expect(local.at(atMs).decide(check).allowed).toBe(true);
        }
      }),
      { numRuns: rounds(200) },
    );
  });
});

it('an isolate remembers the last 10,000 of 100,000 subjects', async () => {
  const local = startLocal();
  const checks = Array.from({ length: 100_000 }, (_, i) =>
    checkFor('open', { key: `{test}:${i}`, limit: 1 }),
  );
  const decisions = checks.map((check) => local.decide(check));
  expect(decisions.every(({ allowed }) => allowed)).toBe(true);
  const store = local.ledger.charges[0]?.store;
  const answer = await store?.peek({ checks }, AbortSignal.timeout(10_000));
  const known = checks.filter((_, i) => answer?.outcomes[i]?.remaining === 0);
  expect(known).toHaveLength(10_000);
  expect(known[0]?.key).toBe('{test}:90000');
});

it('a shadow rule alone uses up nothing of the cap', () => {
  const local = startLocal({ capPerSecond: 2 });
  const shadow = checkFor('open', { id: 'shadow', isShadow: true });
  const enforced = checkFor('open', { id: 'enforced' });
  expect(local.decide(enforced).allowed).toBe(true);
  for (let i = 0; i < 5; i += 1) expect(local.decide(shadow).allowed).toBe(true);
  expect([local.decide(enforced).allowed, local.decide(enforced).allowed]).toEqual([true, false]);
});

it('an admitted request has charged no shadow rule that would deny it', () => {
  const local = startLocal();
  const shadow = checkFor('open', { id: 'shadow', isShadow: true, limit: 1 });
  for (let i = 0; i < 3; i += 1)
    expect(local.decide(checkFor('open', { id: 'enforced' }), shadow).allowed).toBe(true);
  expect(local.ledger.charges.map(({ check }) => check.id)).toEqual([
    'enforced',
    'shadow',
    'enforced',
    'enforced',
  ]);
});

it('an isolate holds seats until they are released', async () => {
  const local = startLocal({ isolates: 2 });
  const seat = () => asNext(checkFor('local', { algorithm: 'concurrency', limit: 4 }));
  const [first, second, third] = [seat(), seat(), seat()].map((check) => local.decideFor(check));
  expect([first?.allowed, second?.allowed, third?.allowed]).toEqual([true, true, false]);
  await first?.ledger.release();
  expect([local.decide(seat()).allowed, local.decide(seat()).allowed]).toEqual([true, false]);
});
