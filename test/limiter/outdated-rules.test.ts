// If rules turn out to be outdated after a request was charged by them, the new rules decide the request once more. In
// the end only the new rules have charged it, and once. The counters are in memory, and tests read every unit.
import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import type { Check } from '../../src/core/counting/check.ts';
import type { RuleCheck } from '../../src/core/matching/plan.ts';
import type { CounterStore } from '../../src/core/ports/counter-store.ts';
import type { Probe } from '../../src/core/ports/snapshot-source.ts';
import { rounds } from '../rounds.ts';
import {
  createSource,
  DEADLINE_MS,
  fails,
  hangs,
  LATE_MS,
  openIsolate,
  START_MS,
  type TestPlan,
  type TestRequest,
  useFakeTime,
} from './limiter-harness.ts';
import { createModelRegion, type ModelRegion, seenFrom } from './model-regions.ts';
import { aloneIn, checkOf } from './regional-isolate.ts';

useFakeTime();
const overdue: Probe = { expected: 'this', isOverdue: true, askedAtMs: START_MS };

interface World {
  readonly before: readonly RuleCheck[];
  readonly after: readonly RuleCheck[];
  readonly regions?: readonly string[];
}

/** An idle isolate with the rules `before`, while its regions already announce the rules `after`. */
function open({ before, after, regions: names = ['us'] }: World) {
  const regions = names.map((name) => createModelRegion(name));
  for (const region of regions) region.does.announces = 'that';
  const source = createSource();
  source.asks = overdue;
  const isolate = openIsolate(seenFrom(regions, 0), { source });
  let seats = 0;
  const plan: TestPlan = async ({ version }) => ({
    kind: 'checks',
    // Each pass has its own seats.
    checks: (version === 'old' ? before : after).map((check) =>
      check.algorithm === 'concurrency'
        ? { ...check, seatId: `seat-${String(++seats).padStart(11, '0')}` }
        : check,
    ),
  });
  const decide = async (request: TestRequest = {}) => {
    const { decision, tookMs } = await isolate.decide({ plan, ...request });
    return { ...decision, tookMs };
  };
  const settle = async () => {
    const settled = isolate.settle();
    await vi.advanceTimersByTimeAsync(20_000);
    await settled;
  };
  const [us, eu] = regions as [ModelRegion, ModelRegion];
  const operations = () => us.calls.map(({ operation }) => operation);
  return { us, eu, regions, source, errors: isolate.errors, decide, settle, operations };
}

/** Units charged to a check, in all of these regions. */
const used = (check: Check, ...regions: ModelRegion[]) =>
  regions.reduce((sum, region) => sum + ROOMY - (region.peek({ ...check, limit: ROOMY })?.remaining ?? 0), 0);
const ROOMY = 1_000;

/** From now on the region treats refunds in this way. */
const refundsWith = (region: ModelRegion, how: (run: CounterStore['run']) => CounterStore['run']) => {
  const { run } = region.does;
  const refund = how(run);
  region.does.run = (call, signal) => (call.operation === 'refund' ? refund : run)(call, signal);
};
const wait = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
/** The call arrives then, although its caller may have given up. */
const arrivesAfter =
  (ms: number) =>
  (run: CounterStore['run']): CounterStore['run'] =>
  (call, signal) =>
    Promise.race([wait(ms).then(() => run(call, new AbortController().signal)), hangs(signal)]);

const kept = checkOf('kept', { limit: 10 });
const wider = { ...kept, limit: 20, full: { limit: 20, extra: undefined } };
const removed = checkOf('removed');
const added = checkOf('added');

describe('a request that was charged by outdated rules', () => {
  it('is charged by the new ones alone, and once', async () => {
    const { us, decide, settle, operations } = open({ before: [kept, removed], after: [wider, added] });
    expect(await decide()).toMatchObject({ kind: 'counted', allowed: true, rulesVersion: 'new' });
    await settle();
    expect([kept, removed, added].map((check) => used(check, us))).toEqual([1, 0, 1]);
    expect(operations()).toEqual(['take', 'refund', 'take']);
    expect(us.calls[1]?.checks).toMatchObject([
      { id: 'kept', chargedAtMs: START_MS },
      { id: 'removed', chargedAtMs: START_MS },
    ]);
  });

  it('is not denied by its own first charge', async () => {
    const last = checkOf('kept', { limit: 1 });
    const { us, decide, settle } = open({ before: [last], after: [last, added] });
    expect(await decide()).toMatchObject({ allowed: true, rulesVersion: 'new' });
    await settle();
    expect([last, added].map((check) => used(check, us))).toEqual([1, 1]);
  });

  it('holds one place under a concurrency rule, that of the second pass', async () => {
    const places = checkOf('places', { algorithm: 'concurrency', limit: 1, windowMs: 300_000 });
    const { us, decide, settle } = open({ before: [places], after: [places, added] });
    expect(await decide()).toMatchObject({
      allowed: true,
      results: [{ check: { seatId: 'seat-00000000002' } }, {}],
    });
    await settle();
    expect(used(places, us)).toBe(1);
  });

  it('is charged nothing if the new rules deny it', async () => {
    const closed = checkOf('closed', { limit: 1, cost: 2 });
    const { us, decide, settle } = open({ before: [kept, removed], after: [kept, closed] });
    expect(await decide()).toMatchObject({ allowed: false, rulesVersion: 'new' });
    await settle();
    expect([kept, removed, closed].map((check) => used(check, us))).toEqual([0, 0, 0]);
  });

  it('has shadow rules counted once, by the new rules', async () => {
    const shadow = { ...checkOf('shadow'), log: true };
    const told: string[] = [];
    const { regions, decide, settle } = open({
      before: [kept, shadow],
      after: [kept, shadow],
      regions: ['us', 'eu'],
    });
    const onShadow: TestRequest['onShadow'] = (results) =>
      void told.push(...results.map(({ check }) => check.id));
    await decide({ onShadow });
    await settle();
    expect([told, used(shadow, ...regions)]).toEqual([['shadow'], 1]);
  });

  it('is given back wherever it was charged', async () => {
    const far = aloneIn('eu', 'far');
    const { us, eu, decide, settle } = open({ before: [kept, far], after: [kept], regions: ['us', 'eu'] });
    expect(await decide()).toMatchObject({ allowed: true, rulesVersion: 'new' });
    await settle();
    expect([used(kept, us), used(far, eu)]).toEqual([1, 0]);
  });

  it('stays charged as it was, once, if the new rules cannot be had', async () => {
    const { us, source, decide, settle, operations } = open({ before: [kept, removed], after: [added] });
    source.load = async () => false;
    expect(await decide()).toMatchObject({ allowed: true, rulesVersion: 'old' });
    await settle();
    expect([kept, removed, added].map((check) => used(check, us))).toEqual([1, 1, 0]);
    expect(operations()).toEqual(['take']);
  });

  it('leaves the next one to ask again: rules that came late are not yet confirmed, but nothing failed', async () => {
    const { source, decide, settle } = open({ before: [kept], after: [wider] });
    const failed = vi.spyOn(source, 'fail');
    vi.spyOn(source, 'isConfirmed').mockReturnValue(false);
    expect(await decide()).toMatchObject({ allowed: true, rulesVersion: 'new' });
    await settle();
    expect(failed).not.toHaveBeenCalled();
  });

  it('stays charged as it was, once, if the region only missed the last publication', async () => {
    const { us, source, decide, settle, operations } = open({ before: [kept], after: [added] });
    source.load = async () => true;
    expect(await decide()).toMatchObject({ allowed: true, rulesVersion: 'old' });
    await settle();
    expect([used(kept, us), operations()]).toEqual([1, ['take']]);
  });

  it('stays charged as it was, once, if the rules had been confirmed a moment ago', async () => {
    const { us, source, decide, settle, operations } = open({ before: [kept, removed], after: [added] });
    source.asks = { ...overdue, isOverdue: false };
    expect(await decide()).toMatchObject({ allowed: true, rulesVersion: 'old' });
    await settle();
    expect(source.announced()).toBe('that');
    expect([kept, removed, added].map((check) => used(check, us))).toEqual([1, 1, 0]);
    expect(operations()).toEqual(['take']);
  });
});

describe('a refund that is', () => {
  it('slow is waited for, up to half of what is left of the deadline', async () => {
    const last = checkOf('kept', { limit: 1 });
    const { us, decide, settle } = open({ before: [last], after: [last] });
    refundsWith(us, arrivesAfter(DEADLINE_MS / 2 - 1 - LATE_MS));
    expect(await decide()).toMatchObject({ allowed: true, tookMs: DEADLINE_MS / 2 - 1 });
    await settle();
    expect(used(last, us)).toBe(1);
  });

  it('slower than that is made all the same: nobody is charged twice in the end', async () => {
    const { us, decide, settle, errors } = open({ before: [kept, removed], after: [wider, added] });
    refundsWith(us, arrivesAfter(1_000));
    expect(await decide()).toMatchObject({ allowed: true, rulesVersion: 'new', tookMs: DEADLINE_MS / 2 });
    expect(used(kept, us)).toBe(2);
    await settle();
    expect([kept, removed, added].map((check) => used(check, us))).toEqual([1, 0, 1]);
    expect(errors).toEqual([]);
  });

  it('slower than that may cost the last unit: the request is denied, and charged nothing in the end', async () => {
    const last = checkOf('kept', { limit: 1 });
    const { us, decide, settle } = open({ before: [last], after: [last] });
    refundsWith(us, arrivesAfter(1_000));
    expect(await decide()).toMatchObject({ allowed: false, rulesVersion: 'new' });
    await settle();
    expect(used(last, us)).toBe(0);
  });

  it('slow makes no denial last: what it caused is not remembered', async () => {
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

  it('lost is reported, tried once, and costs what the request cost, until the window ends', async () => {
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

  it('lost is tried again for a seat: it holds nobody else up', async () => {
    const places = checkOf('places', { algorithm: 'concurrency', limit: 5, windowMs: 300_000 });
    const { us, decide, settle } = open({ before: [places], after: [places] });
    let lost = 1;
    refundsWith(us, (run) => (call, signal) => (lost-- > 0 ? fails('timeout')() : run(call, signal)));
    expect(await decide()).toMatchObject({ allowed: true });
    await settle();
    expect(used(places, us)).toBe(1);
  });
});

describe('a request that outdated rules have denied', () => {
  it('passes if the new ones let it, and is charged once', async () => {
    const tight = checkOf('kept', { limit: 1, cost: 2 });
    const { us, decide, settle, operations } = open({
      before: [tight, removed],
      after: [{ ...wider, cost: 2 }],
    });
    expect(await decide()).toMatchObject({ allowed: true, rulesVersion: 'new' });
    await settle();
    expect([used(kept, us), used(removed, us), operations()]).toEqual([2, 0, ['take', 'take']]);
  });

  it('stays blocked where they block, and counted where denied requests count', async () => {
    const blocking = checkOf('kept', { limit: 1, blockMs: 600_000 });
    const counting = checkOf('counting', { limit: 1, countDenied: true });
    const { us, decide, settle } = open({ before: [blocking, counting], after: [blocking] });
    us.does.announces = 'this';
    for (let i = 0; i < 2; i += 1) await decide();
    us.does.announces = 'that';
    expect(await decide()).toMatchObject({ allowed: false, rulesVersion: 'new' });
    await settle();
    expect(us.peek(blocking)?.retryAfterMs).toBeGreaterThan(500_000);
    expect(us.peek(counting)?.retryAfterMs).toBeGreaterThan(0);
  });
});

describe('a request that its nearest region denies by outdated rules', () => {
  const openDenied = async () => {
    const split = checkOf('split', { limit: 4 });
    const world = open({ before: [split], after: [added], regions: ['us', 'eu'] });
    // While the old rules are in force everywhere, us uses up its part. eu is not idle, and cedes nothing.
    const signal = new AbortController().signal;
    await world.eu.does.run({ operation: 'take', checks: [{ ...split, limit: 2 }] }, signal);
    for (const region of world.regions) region.does.announces = 'this';
    for (let i = 0; i < 2; i += 1) await world.decide();
    await world.settle();
    for (const region of world.regions) region.does.announces = 'that';
    const farBefore = world.eu.calls.length;
    return { ...world, split, farCalls: () => world.eu.calls.slice(farBefore) };
  };

  it('is not tried in another region by them: the new ones decide', async () => {
    const { split, us, eu, decide, settle, farCalls } = await openDenied();
    expect(await decide()).toMatchObject({ allowed: true, rulesVersion: 'new' });
    expect(farCalls()).toEqual([]);
    await settle();
    expect([used(split, us, eu), used(added, us)]).toEqual([3, 1]);
  });

  it('is decided by them all the same if the new ones cannot be had, and charged once', async () => {
    const { split, us, eu, source, decide, settle } = await openDenied();
    source.load = async () => false;
    expect(await decide()).toMatchObject({ allowed: true, rulesVersion: 'old' });
    await settle();
    expect([used(split, us, eu), used(added, us)]).toEqual([4, 0]);
  });
});

it('a request whose rules are all shadows is decided by the new ones, too', async () => {
  const shadow = { ...checkOf('shadow'), log: true };
  const { us, decide, settle } = open({ before: [shadow], after: [kept], regions: ['us', 'eu'] });
  expect(await decide()).toMatchObject({ allowed: true, rulesVersion: 'new' });
  await settle();
  expect([used(shadow, us), used(kept, us)]).toEqual([0, 1]);
});

it('a peek gives nothing back', async () => {
  const { us, decide, settle, operations } = open({ before: [kept], after: [wider] });
  expect(await decide({ operation: 'peek' })).toMatchObject({ allowed: true, rulesVersion: 'new' });
  await settle();
  expect([used(kept, us), operations()]).toEqual([0, ['peek', 'peek']]);
});

describe('whatever the rules are, before and after', () => {
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
      log: fc.boolean(),
    }),
    { selector: ({ n }) => n, maxLength: 4 },
  );
  const checkFor = ({ n, limit, cost, log }: { n: number; limit: number; cost: number; log: boolean }) =>
    checkOf(`rule-${n}`, { algorithm: ALGORITHMS[n] ?? 'gcra', limit, cost, log });
  const prefill = fc.array(rules, { maxLength: 4 });

  it('the request is decided as if only the new ones had ever been asked, and the counters end up the same', async () => {
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
              await us.store.run(
                { operation: 'take', checks: past.map(checkFor) },
                new AbortController().signal,
              );
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
