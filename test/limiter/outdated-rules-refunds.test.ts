// If a request was charged by outdated rules, its charge is refunded before the new rules decide: slow and lost
// refunds, and any rules before and after.
import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import type { Snapshot } from '../../src/core/matching/snapshot.ts';
import { DoesNotFit, type MakePlan } from '../../src/limiter/limiter.ts';
import { rounds } from '../rounds.ts';
import { DEADLINE_MS, fails, LATE_MS } from './fake-regions.ts';
import { useFakeTime } from './limiter-harness.ts';
import {
  added,
  arrivesAfter,
  kept,
  open,
  refundsWith,
  removed,
  used,
  wider,
} from './outdated-rules-harness.ts';
import { checkOf } from './regional-isolate.ts';

useFakeTime();

/** By the old rules one check, by the new ones an error. */
const failing =
  (errorOf: (snapshot: Snapshot) => Error): MakePlan =>
  async ({ snapshot }) => {
    if (snapshot.version === 'new') throw errorOf(snapshot);
    return { kind: 'checks', checks: [kept] };
  };

describe('a refund', () => {
  it('is made if the new rules do not fit the request, which then gets no decision', async () => {
    const { us, decide, settle, errors } = open({ before: [], after: [] });
    const plan = failing((snapshot) => new DoesNotFit(snapshot, [{ pointer: '#', detail: 'x' }]));
    await expect(decide({ plan })).rejects.toMatchObject({
      errors: [{ pointer: '#', detail: 'x' }],
      snapshot: { version: 'new' },
    });
    await settle();
    expect([used(kept, us), errors]).toEqual([0, []]);
  });

  it('is made if the plan by the new rules has a bug, and the request goes on', async () => {
    const { us, decide, settle, errors } = open({ before: [], after: [] });
    const bug = new TypeError('x');
    expect(await decide({ plan: failing(() => bug) })).toMatchObject({
      reason: 'internal-error',
      allowed: true,
    });
    await settle();
    expect([used(kept, us), errors]).toEqual([0, [bug]]);
  });

  it('that is slow delays the decision by up to half of the time that is left', async () => {
    const last = checkOf('kept', { limit: 1 });
    const { us, decide, settle } = open({ before: [last], after: [last] });
    refundsWith(us, arrivesAfter(DEADLINE_MS / 2 - 1 - LATE_MS));
    expect(await decide()).toMatchObject({ allowed: true, tookMs: DEADLINE_MS / 2 - 1 });
    await settle();
    expect(used(last, us)).toBe(1);
  });

  it('that comes too late for the decision still arrives: the request is not charged twice in the end', async () => {
    const { us, decide, settle, errors } = open({ before: [kept, removed], after: [wider, added] });
    refundsWith(us, arrivesAfter(1_000));
    expect(await decide()).toMatchObject({ allowed: true, rulesVersion: 'new', tookMs: DEADLINE_MS / 2 });
    expect(used(kept, us)).toBe(2);
    await settle();
    expect([kept, removed, added].map((check) => used(check, us))).toEqual([1, 0, 1]);
    expect(errors).toEqual([]);
  });

  it('that comes too late may cost the last unit: the request is denied, and not charged in the end', async () => {
    const last = checkOf('kept', { limit: 1 });
    const { us, decide, settle } = open({ before: [last], after: [last] });
    refundsWith(us, arrivesAfter(1_000));
    expect(await decide()).toMatchObject({ allowed: false, rulesVersion: 'new' });
    await settle();
    expect(used(last, us)).toBe(0);
  });

  it('that comes too late causes one denial, which the isolate does not remember', async () => {
    const last = checkOf('kept', { limit: 1 });
    const { us, source, decide } = open({ before: [last], after: [last] });
    refundsWith(us, arrivesAfter(1_000));
    expect(await decide()).toMatchObject({ allowed: false, rulesVersion: 'new' });
    source.asks = undefined;
    await vi.advanceTimersByTimeAsync(1_000);
    expect(await decide()).toMatchObject({ allowed: true });
    // Five seconds later, the isolate remembers denials again.
    await vi.advanceTimersByTimeAsync(5_000);
    expect(await decide()).toMatchObject({ allowed: false });
    const asked = us.calls.length;
    expect(await decide()).toMatchObject({ allowed: false });
    expect(us.calls).toHaveLength(asked);
  });

  it('that is lost is reported and not tried again, and the old charge stays', async () => {
    const { us, decide, settle, errors, operations } = open({
      before: [kept, removed],
      after: [wider, added],
    });
    refundsWith(us, () => fails('unavailable'));
    expect(await decide()).toMatchObject({ allowed: true, rulesVersion: 'new' });
    await settle();
    expect([kept, removed, added].map((check) => used(check, us))).toEqual([2, 1, 1]);
    expect([errors.length, operations()]).toEqual([1, ['take', 'take']]);
  });

  it('that is lost is tried again if it releases a seat', async () => {
    const places = checkOf('places', { algorithm: 'concurrency', limit: 5, windowMs: 300_000 });
    const { us, decide, settle } = open({ before: [places], after: [places] });
    let lost = 1;
    refundsWith(us, (run) => (call, signal) => (lost-- > 0 ? fails('timeout')() : run(call, signal)));
    expect(await decide()).toMatchObject({ allowed: true });
    await settle();
    expect(used(places, us)).toBe(1);
  });
});

describe('with any rules before and after a change', () => {
  const ALGORITHMS = [
    'fixed-window',
    'sliding-window-log',
    'sliding-window-counter',
    'sliding-window-buckets',
    'token-bucket',
    'leaky-bucket',
    'gcra',
  ] as const;
  const rules = fc.uniqueArray(
    fc.record({
      n: fc.integer({ min: 0, max: 6 }),
      limit: fc.integer({ min: 1, max: 4 }),
      cost: fc.integer({ min: 1, max: 2 }),
      isShadow: fc.boolean(),
    }),
    { selector: ({ n }) => n, maxLength: 4 },
  );
  const checkFor = ({
    n,
    limit,
    cost,
    isShadow,
  }: {
    n: number;
    limit: number;
    cost: number;
    isShadow: boolean;
  }) => checkOf(`rule-${n}`, { algorithm: ALGORITHMS[n] ?? 'gcra', limit, cost, isShadow });
  const prefill = fc.array(rules, { maxLength: 4 });

  it('the decision and the counters are the same as with the new rules alone', async () => {
    await fc.assert(
      fc.asyncProperty(prefill, rules, rules, async (earlier, before, after) => {
        const [outdated, direct] = [
          open({ before: before.map(checkFor), after: after.map(checkFor) }),
          open({ before: after.map(checkFor), after: [] }),
        ];
        direct.us.does.announces = 'this';
        for (const { us } of [outdated, direct])
          for (const past of earlier)
            if (past.length > 0)
              await us.store.take({ checks: past.map(checkFor) }, new AbortController().signal);
        const [decision, expected] = [await outdated.decide(), await direct.decide()];
        expect(decision.allowed).toBe(expected.allowed);
        for (const rule of [...before, ...after]) {
          const check = { ...checkFor(rule), cost: 1 };
          expect(outdated.us.peek(check)?.remaining).toBe(direct.us.peek(check)?.remaining);
        }
      }),
      { numRuns: rounds(300) },
    );
  });
});
