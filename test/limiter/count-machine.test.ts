// The machine that counts, driven by hand: no promise, no timer, no region. Answers come in any order, late, or not at
// all; regions deny, transfer parts and announce new rules. Whatever happens, it is all or nothing, and what must never
// be throws.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Answer, Outcome } from '../../src/core/counting/check.ts';
import { type DegradedReason, isDenying } from '../../src/core/decision.ts';
import type { CounterStore } from '../../src/core/ports/region.ts';
import type { PlacedCheck } from '../../src/core/regions/placement.ts';
import {
  BEGUN,
  type Conclusion,
  Count,
  type CountEvent,
  type RegionCall,
  type RegionCountCall,
} from '../../src/limiter/count.ts';
import { createDeadline } from '../../src/limiter/deadline.ts';
import { createLeaseBook } from '../../src/limiter/leases.ts';
import { createLedger } from '../../src/limiter/ledger.ts';
import { createKnownDenials } from '../../src/limiter/memory.ts';
import type { LimiterRegion, Regions } from '../../src/limiter/region.ts';
import { createTransfers } from '../../src/limiter/transfers.ts';
import { rounds } from '../rounds.ts';
import { place } from './placed.ts';
import { admitted, deniedFor, START_MS } from './rule-checks.ts';

const NAMES = ['us', 'eu', 'ap'] as const;
const TERM_MS = 60_000;
const HOLD_MS = 130_000;

/** A region that never answers by itself. Its store notes what is given back. */
function createStillRegion(name: string, refunded: Charge[]) {
  const refund: CounterStore['refund'] = async ({ checks }) => {
    for (const { id } of checks) refunded.push({ region: name, id });
    return { nowMs: START_MS, outcomes: checks.map(() => admitted) };
  };
  const does = { isOpen: false, ms: undefined as number | undefined };
  const region = {
    name,
    neighbours: NAMES.filter((other) => other !== name),
    store: { refund },
    pointer: {},
    breaker: { enter: () => (does.isOpen ? undefined : 1) },
    distance: { ms: () => does.ms, fitMs: (ms: number) => Math.max(ms, 2 * (does.ms ?? 0)) },
    census: { count: () => 2 },
    isCluster: false,
  } as unknown as LimiterRegion;
  return { region, does };
}

interface Charge {
  readonly region: string;
  readonly id: string;
}

const byText = (charges: readonly Charge[]) => charges.map(({ region, id }) => `${region} ${id}`).sort();

interface Situation {
  readonly placed: readonly PlacedCheck[];
  readonly regions?: 1 | 2 | 3;
  readonly operation?: 'take' | 'peek';
}

/** A count that waits for its first event. */
function open({ placed, regions: many = 3, operation = 'take' }: Situation) {
  let nowMs = START_MS;
  const now = () => nowMs;
  const refunded: Charge[] = [];
  const still = NAMES.slice(0, many).map((name) => createStillRegion(name, refunded));
  const regions = still.map(({ region }) => region) as unknown as Regions;
  const transfers = createTransfers(now);
  const memory = { now, transfers, denials: createKnownDenials(), leases: createLeaseBook(now) };
  const ledger = createLedger((error) => {
    throw error;
  });
  const count = new Count(memory, {
    placed,
    regions,
    operation,
    ledger,
    afterResponse: () => {
      throw new Error('the machine has started something');
    },
    deadline: createDeadline(250, now),
    withAnnouncement: true,
    announcement: 'this',
    expected: 'this',
  });
  return {
    regions,
    ledger,
    transfers,
    refunded,
    still,
    next: (event: CountEvent) => count.next(event),
    pass: (ms: number) => {
      nowMs += ms;
    },
    now,
  };
}

const answer = (outcomes: readonly Outcome[], announced?: string): Answer => ({
  nowMs: START_MS,
  outcomes,
  announced,
});

/** The calls of the step, which must be one. */
function callsOf(step: ReturnType<ReturnType<typeof open>['next']>): readonly RegionCall[] {
  if (step.kind !== 'ask') throw new Error(`expected calls, got ${step.kind}`);
  return step.calls;
}

const onlyCall = (step: ReturnType<ReturnType<typeof open>['next']>): RegionCountCall => {
  const [call, ...others] = callsOf(step);
  if (call?.kind !== 'count' || others.length > 0) throw new Error('expected one call');
  return call;
};

describe('what must never be', () => {
  const near = () => place({ us: 4, eu: 4, ap: 4 });
  const counted = (call: RegionCountCall, outcomes: readonly Outcome[]): CountEvent => ({
    kind: 'counted',
    call,
    answer: answer(outcomes),
    tookMs: 1,
  });

  it('an event after the conclusion throws', () => {
    const { next } = open({ placed: [near()] });
    const call = onlyCall(next(BEGUN));
    expect(next(counted(call, [admitted]))).toMatchObject({ kind: 'concluded', missing: [] });
    expect(() => next(counted(call, [admitted]))).toThrow('expected no event after the conclusion');
  });

  it('a second beginning throws', () => {
    const { next } = open({ placed: [near()] });
    next(BEGUN);
    expect(() => next(BEGUN)).toThrow('expected one beginning');
  });

  it('a second event for one call throws', () => {
    const { next } = open({
      placed: [place({ us: 4 }, { id: 'a', at: 'us' }), place({ eu: 4 }, { id: 'b', at: 'eu' })],
    });
    const calls = callsOf(next(BEGUN)) as readonly RegionCountCall[];
    expect(calls).toHaveLength(2);
    const [first] = calls as [RegionCountCall];
    expect(next(counted(first, [admitted]))).toEqual({ kind: 'wait' });
    expect(() => next(counted(first, [admitted]))).toThrow('expected one event for each call');
  });

  it.each([[[]], [[admitted, admitted]]])(
    'an answer with the wrong number of outcomes throws',
    (outcomes) => {
      const { next } = open({ placed: [near()] });
      const call = onlyCall(next(BEGUN));
      expect(() => next(counted(call, outcomes))).toThrow(
        `expected 1 outcomes of us, got ${outcomes.length}`,
      );
    },
  );

  it('a second charge of one check throws', () => {
    const { next } = open({ placed: [near()] });
    const call = onlyCall(next(BEGUN));
    // As if the same check had been sent twice.
    for (const list of [call.turns, call.checks] as unknown[][]) list.push(list[0]);
    expect(() => next(counted(call, [admitted, admitted]))).toThrow(
      'expected one charge of rule, got a second by us',
    );
  });
});

it('a stand-in for both regions of a moving rule charges its counter once', () => {
  const older = place({ us: 4 }, { id: 'moving', at: 'us' });
  const newer = { ...place({ ap: 4 }, { id: 'moving', at: 'ap' }), check: older.check };
  const { next, ledger, still } = open({ placed: [older, newer] });
  const lost = (call: RegionCountCall): CountEvent => ({
    kind: 'failed',
    call,
    failure: { kind: 'unanswered', reason: 'unavailable', isInDoubt: true, isTooLate: false },
  });
  const admits = (call: RegionCountCall): CountEvent => ({
    kind: 'counted',
    call,
    answer: answer([admitted]),
    tookMs: 1,
  });
  const atOwner = onlyCall(next(BEGUN));
  for (const { region, does } of still) does.isOpen = region.name === 'us';
  const atStandIn = onlyCall(next(lost(atOwner)));
  const atNewOwner = onlyCall(next(admits(atStandIn)));
  expect([atOwner, atStandIn, atNewOwner].map(({ region }) => region.name)).toEqual(['us', 'eu', 'ap']);
  expect(next(lost(atNewOwner))).toMatchObject({
    kind: 'concluded',
    missing: [],
    results: [{ check: { id: 'moving-stand-in' } }, { check: { id: 'moving-stand-in' } }],
  });
  expect(ledger.charges).toHaveLength(1);
});

const REASONS: readonly DegradedReason[] = [
  'timeout',
  'unavailable',
  'bad-reply',
  'script-failed',
  'internal-error',
];

const anyPlaced: fc.Arbitrary<readonly PlacedCheck[]> = fc
  .array(
    fc.record({
      parts: fc.record({ us: fc.nat({ max: 4 }), eu: fc.nat({ max: 4 }), ap: fc.nat({ max: 4 }) }),
      at: fc.constantFrom(undefined, undefined, ...NAMES),
      before: fc.constantFrom(undefined, undefined, undefined, ...NAMES),
      isShadow: fc.constantFrom(false, false, false, true),
      countDenied: fc.constantFrom(false, false, false, true),
      spill: fc.boolean(),
    }),
    { minLength: 1, maxLength: 3 },
  )
  .map((all) =>
    all.flatMap(({ parts, at, before, isShadow, countDenied, spill }, i) => {
      const whole = place(
        { ...parts, us: parts.us + 1 },
        { id: `c${i}`, isShadow, countDenied, rule: { spill } },
      );
      const { check } = whole;
      const alone = (name: string): PlacedCheck => ({
        ...whole,
        at: name,
        parts: new Map([[name, { limit: check.limit, extra: undefined }]]),
      });
      const placed = at ? alone(at) : whole;
      // A rule that moves is placed twice.
      return before && at && before !== at ? [alone(before), placed] : [placed];
    }),
  );

/** What happens next: which open call ends, how, and after how long. */
const anyFate = fc.record({
  which: fc.nat({ max: 5 }),
  afterMs: fc.constantFrom(0, 0, 1, 20, 200, 2_000),
  end: fc.constantFrom('answer', 'answer', 'answer', 'answer', 'lost', 'never sent'),
  reason: fc.constantFrom(...REASONS),
  isTooLate: fc.boolean(),
  verdicts: fc.array(fc.constantFrom('admit', 'admit', 'admit', 'deny', 'transferred'), {
    minLength: 6,
    maxLength: 6,
  }),
  owner: fc.constantFrom(...NAMES),
  announced: fc.constantFrom(undefined, 'this', 'this', 'this', 'that'),
  breaker: fc.constantFrom(undefined, undefined, undefined, 0, 1, 2),
  farMs: fc.constantFrom(undefined, 30, 80),
});
type Fate = typeof anyFate extends fc.Arbitrary<infer T> ? T : never;

const outcomeOf = (verdict: string, owner: string): Outcome => {
  if (verdict === 'admit') return admitted;
  const denied = deniedFor(500);
  return verdict === 'deny'
    ? denied
    : {
        ...denied,
        transferredTo: { name: owner, usableMs: TERM_MS },
        resetAtMs: START_MS + TERM_MS + HOLD_MS,
      };
};

interface History extends Situation {
  readonly fates: readonly Fate[];
}

/** Plays the history, and returns the conclusion and what the regions have charged. */
function play({ fates, ...situation }: History) {
  const opened = open(situation);
  const { next, pass, still, transfers, now, regions } = opened;
  /** Charges of calls that were answered, and charges of calls whose answers were lost. */
  const certain: Charge[] = [];
  const doubtful: Charge[] = [];
  let isOutdated = false;
  let calls: RegionCall[] = [];
  let steps = 0;

  const charge = (call: RegionCountCall, outcomes: readonly Outcome[], to: Charge[]) => {
    const passes = call.checks.every(
      ({ isShadow }, i) => outcomes[i]?.allowed || (isShadow && !outcomes[i]?.transferredTo),
    );
    if (!passes || situation.operation === 'peek') return;
    for (const [i, { id }] of call.checks.entries())
      if (outcomes[i]?.allowed) to.push({ region: call.region.name, id });
  };
  const eventOf = (call: RegionCall, fate: Fate): CountEvent => {
    const { end, reason, isTooLate, owner, announced } = fate;
    const outcomes =
      call.kind === 'count' ? call.checks.map((_, i) => outcomeOf(fate.verdicts[i] ?? 'admit', owner)) : [];
    if (end !== 'answer') {
      if (call.kind === 'count' && end === 'lost') charge(call, outcomes, doubtful);
      return { kind: 'failed', call, failure: { kind: 'unanswered', reason, isInDoubt: true, isTooLate } };
    }
    if (call.kind === 'transfer') {
      const { from, owner: to, placed } = call.transfer;
      const times = { usableUntilMs: now() + TERM_MS, transferredUntilMs: now() + TERM_MS + HOLD_MS };
      if (fate.verdicts[0] === 'admit')
        for (const { check } of placed) transfers.note(check, { from: from.name, owner: to, ...times });
      return { kind: 'transferred', call };
    }
    charge(call, outcomes, certain);
    const heard = call.withAnnouncement ? announced : undefined;
    isOutdated ||= heard === 'that';
    return { kind: 'counted', call, answer: answer(outcomes, heard), tookMs: fate.afterMs };
  };

  let step = next(BEGUN);
  for (let i = 0; step.kind !== 'concluded'; i += 1) {
    if (step.kind === 'ask') {
      expect(calls).toEqual([]);
      calls = [...step.calls];
      steps += 1;
    }
    const fate = fates[i % fates.length] as Fate;
    const [call] = calls.splice(fate.which % calls.length, 1) as [RegionCall];
    pass(fate.afterMs);
    if (fate.breaker !== undefined) {
      const some = still[fate.breaker % still.length];
      if (some) some.does.isOpen = !some.does.isOpen;
    }
    for (const { does } of still) does.ms = fate.farMs;
    step = next(eventOf(call, fate));
  }
  expect(calls).toEqual([]);
  expect(steps).toBeLessThanOrEqual(4 * regions.length + 1);
  return { ...opened, conclusion: step, certain, doubtful, isOutdated };
}

/** Each placement has a charge of its own; two placements in one region share one. */
const isCharged = ({ check }: PlacedCheck, charges: readonly Charge[]) =>
  charges.some(({ id }) => id === check.id || id === `${check.id}-stand-in`);

const isAdmitted = ({ results, missing, isStopped }: Conclusion) =>
  !isStopped && missing.length === 0 && !results.some(isDenying);

it('counts all or nothing, whatever regions answer, in whatever order, and whatever is lost', async () => {
  const seen = { admitted: 0, denied: 0, missing: 0, stopped: 0, moved: 0 };
  await fc.assert(
    fc.asyncProperty(
      anyPlaced,
      fc.constantFrom<(1 | 2 | 3)[]>(1, 2, 3, 3),
      fc.constantFrom<('take' | 'peek')[]>('take', 'take', 'take', 'peek'),
      fc.array(anyFate, { minLength: 1, maxLength: 20 }),
      async (placed, regions, operation, fates) => {
        const played = play({ placed, regions, operation, fates });
        const { conclusion, certain, ledger, refunded, isOutdated } = played;
        const nameOf = (store: CounterStore) =>
          played.regions.find((region) => region.store === store)?.name ?? '';
        // The ledger knows every charge that is certain, and no other. So whoever denies can give all of them back.
        const charges = ledger.charges.map(({ store, check }) => ({ region: nameOf(store), id: check.id }));
        expect(byText(charges)).toEqual(byText(certain));
        expect(new Set(byText(certain)).size).toBe(certain.length);
        if (conclusion.isStopped) expect(isOutdated).toBe(true);
        if (isAdmitted(conclusion)) {
          const enforced = placed.filter(({ check }) => !check.isShadow);
          if (operation === 'take') expect(enforced.filter((one) => !isCharged(one, certain))).toEqual([]);
          expect(conclusion.results.length).toBe(placed.length);
        } else {
          await ledger.undo();
          expect(byText(refunded)).toEqual(byText(certain));
        }
        seen.admitted += Number(isAdmitted(conclusion));
        seen.denied += Number(conclusion.results.some(isDenying));
        seen.missing += Number(conclusion.missing.length > 0);
        seen.stopped += Number(conclusion.isStopped);
        seen.moved += Number(certain.some(({ region }) => region !== 'us'));
      },
    ),
    { numRuns: rounds(2_000) },
  );
  // Otherwise this would have tested little.
  for (const [what, times] of Object.entries(seen)) expect([what, times > 20]).toEqual([what, true]);
});
