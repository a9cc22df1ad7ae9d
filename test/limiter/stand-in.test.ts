// While the owner of a counter does not answer, another region stands in for it: the same one for all isolates.
import { describe, expect, it, vi } from 'vitest';
import { ALGORITHM_IDS } from '../../src/core/counting/algorithms/registry.ts';
import { isStandIn, type RuleCheck } from '../../src/core/matching/plan.ts';
import { createLedger } from '../../src/limiter/ledger.ts';
import type { MakePlan } from '../../src/limiter/limiter.ts';
import { DEADLINE_MS, fails, hangingRun, hangs } from './fake-regions.ts';
import { createSource, openIsolate, snapshotOf, timed, useFakeTime } from './limiter-harness.ts';
import { createModelRegion, type ModelRegion, seenFrom } from './model-regions.ts';
import { aloneIn, checkOf, near } from './regional-isolate.ts';

useFakeTime();

const NAMES = ['us', 'eu', 'ap'];
const LIMIT = 12;

/** Three regions that stand in for each other, in a ring. Each isolate has breakers of its own. */
function openWorld() {
  const shared = NAMES.map((name) => createModelRegion(name));
  const [us, eu, ap] = shared as [ModelRegion, ModelRegion, ModelRegion];
  const openAt = (nearest: number) => {
    const own = NAMES.map((name, i) => {
      const { does } = shared[i] as ModelRegion;
      const fresh = createModelRegion(name);
      fresh.does.run = (call, signal) => does.run(call, signal);
      return { ...fresh, neighbours: [...NAMES.slice(i + 1), ...NAMES.slice(0, i)] };
    });
    const source = createSource({ current: () => snapshotOf('old') });
    const isolate = openIsolate(seenFrom(own, nearest), { source });
    const decide = async (checks: readonly RuleCheck[], planMs = 0) => {
      const ledger = createLedger(() => {});
      const plan: MakePlan = async () => {
        if (planMs > 0) await new Promise((resolve) => setTimeout(resolve, planMs));
        return { kind: 'checks', checks };
      };
      const decided = await isolate.decide({ plan, ledger });
      return { ...decided, ledger };
    };
    return { decide, settle: isolate.settle, regions: own };
  };
  return { us, eu, ap, openAt };
}
type World = ReturnType<typeof openWorld>;
const seat = (number: number) => `seat-${String(number).padStart(11, '0')}`;

/** How many of these requests are admitted, sent in turn by these isolates. */
async function admittedBy(
  isolates: readonly ReturnType<World['openAt']>[],
  checkFor: (i: number) => RuleCheck[],
) {
  const decisions = [];
  for (let i = 0; i < 3 * LIMIT; i += 1) {
    const isolate = isolates[i % isolates.length] as ReturnType<World['openAt']>;
    decisions.push((await isolate.decide(checkFor(i))).decision);
  }
  expect(decisions.filter(({ kind }) => kind !== 'counted')).toEqual([]);
  return decisions.filter(({ allowed }) => allowed).length;
}

describe.each(ALGORITHM_IDS)('the stand-in of a %s', (algorithm) => {
  it('admits the limit once, whichever isolates ask, near or far', async () => {
    const { us, openAt } = openWorld();
    const isolates = [0, 0, 1, 2].map(openAt);
    us.does.run = fails('unavailable');
    const check = (i: number) => [aloneIn('us', 'owned', {}, { algorithm, limit: LIMIT, seatId: seat(i) })];
    expect(await admittedBy(isolates, check)).toBe(LIMIT);
  });
});

it('a region whose parts were transferred to it is stood in for, and counts again when it is back', async () => {
  const { us, eu, ap, openAt } = openWorld();
  const [first, second] = [openAt(0), openAt(1)];
  for (let i = 0; i < 3; i += 1) await first.decide([near()]);
  await first.settle();
  const { run } = us.does;
  us.does.run = fails('unavailable');
  expect(await admittedBy([first, second], () => [near()])).toBe(LIMIT);
  us.does.run = run;
  const after = [];
  for (const isolate of [first, second]) {
    // Probes after responses find out that us is back.
    for (let i = 0; i < 2; i += 1) {
      await vi.advanceTimersByTimeAsync(1_300);
      after.push((await isolate.decide([near()])).decision);
      await isolate.settle();
    }
    const { decision } = await isolate.decide([near()]);
    expect(decision).toMatchObject({ kind: 'counted', allowed: true, failedOver: undefined });
    after.push(decision);
  }
  const back = after.filter(({ allowed }) => allowed).length;
  expect(us.peek(near())?.remaining).toBe(LIMIT - 3 - back);
  // Nothing was merged back, and the other regions have counted nothing of their own.
  for (const region of [eu, ap]) expect(region.peek(near())?.transferredTo?.name).toBe('us');
});

it('a far owner that uses up the time does not make the stand-in look gone', async () => {
  const { us, eu, openAt } = openWorld();
  const other = openAt(0);
  for (let i = 0; i < 3; i += 1) await other.decide([near()]);
  await other.settle();
  us.does.run = hangingRun;
  // eu answers much later than usual, but still soon. This isolate does not know yet that eu has transferred its part.
  const { run } = eu.does;
  eu.does.run = async (call, signal) => {
    await new Promise((resolve) => setTimeout(resolve, DEADLINE_MS / 8));
    return run(call, signal);
  };
  const isolate = openAt(2);
  for (const { distance } of isolate.regions) distance.note(1);
  const { decision } = await isolate.decide([near()]);
  expect(decision).toMatchObject({ kind: 'counted', results: [{ check: { region: 'eu' } }] });
});

it('if the stand-in is gone, too, the next region stands in, with the limit once more', async () => {
  const { us, eu, openAt } = openWorld();
  const isolate = openAt(0);
  const owned = () => [aloneIn('us', 'owned', {}, { limit: LIMIT })];
  us.does.run = fails('unavailable');
  expect(await admittedBy([isolate], owned)).toBe(LIMIT);
  eu.does.run = fails('unavailable');
  // The isolate remembers the denial of the first stand-in. An isolate that knows nothing asks the next one.
  expect(await admittedBy([openAt(0)], owned)).toBe(LIMIT);
});

it('a denial by a region with a part of its own stands', async () => {
  const { us, openAt } = openWorld();
  us.does.run = fails('unavailable');
  // eu and ap have eight of the twelve.
  expect(await admittedBy([openAt(0), openAt(1)], () => [near()])).toBe(8);
});

it('charges in stand-ins are settled, refunded and released there', async () => {
  const { us, eu, openAt } = openWorld();
  us.does.run = fails('unavailable');
  const rule = { costFromOrigin: true, refundOnError: true };
  const spent = aloneIn('us', 'spent', rule, { limit: LIMIT });
  const held = aloneIn('us', 'held', {}, { algorithm: 'concurrency', limit: LIMIT, seatId: seat(1) });
  const { ledger, decision } = await openAt(0).decide([spent, held]);
  expect(decision).toMatchObject({ kind: 'counted', allowed: true, failedOver: 'unavailable' });
  expect(ledger.charges.every(({ check }) => isStandIn(check) && check.region === 'eu')).toBe(true);
  const left = (id: string) => {
    const check = ledger.charges.find((one) => one.check.id.startsWith(id))?.check;
    return check && eu.peek({ ...check, seatId: check.seatId && seat(2) })?.remaining;
  };
  expect([left('spent'), left('held')]).toEqual([LIMIT - 1, LIMIT - 1]);
  await timed(() => ledger.settle(3));
  expect(left('spent')).toBe(LIMIT - 3);
  const ofHeld = ledger.charges.find(({ check }) => check.id.startsWith('held'))?.check as RuleCheck;
  await timed(() => ledger.release());
  expect(eu.peek({ ...ofHeld, seatId: seat(2) })?.remaining).toBe(LIMIT);
});

it('a frozen owner delays five requests of an isolate, near or far, and none after them', async () => {
  for (const nearest of [0, 1]) {
    const { us, openAt } = openWorld();
    const isolate = openAt(nearest);
    const owned = () => [aloneIn('us', 'owned', {}, { limit: 1_000 })];
    for (let i = 0; i < 30; i += 1) await isolate.decide(owned());
    us.does.run = hangingRun;
    const took = [];
    for (let i = 0; i < 20; i += 1) took.push((await isolate.decide(owned())).tookMs);
    expect(took.slice(0, 5).every((ms) => ms >= DEADLINE_MS / 2 && ms <= DEADLINE_MS)).toBe(true);
    expect(took.slice(5)).toEqual(Array(15).fill(0));
  }
});

it('requests in flight when the owner freezes are late together, and none that comes after them', async () => {
  const { us, openAt } = openWorld();
  const isolate = openAt(0);
  us.does.run = hangingRun;
  const check = () => [checkOf('owned', { limit: 1_000, rule: { shares: { us: 1 } } })];
  const together = await Promise.all(Array.from({ length: 20 }, () => isolate.decide(check())));
  for (const { decision } of together)
    expect(decision).toMatchObject({ kind: 'counted', allowed: true, failedOver: 'timeout' });
  expect(Math.max(...together.map(({ tookMs }) => tookMs))).toBeLessThanOrEqual(DEADLINE_MS);
  expect((await isolate.decide(check())).tookMs).toBe(0);
});

it.each([
  ['no time', DEADLINE_MS],
  ['too little time', DEADLINE_MS - 1],
])('no region stands in for one that got %s', async (_, planMs) => {
  const { us, eu, ap, openAt } = openWorld();
  const isolate = openAt(0);
  for (let i = 0; i < 3; i += 1) await isolate.decide([near()]);
  await isolate.settle();
  // All parts are at us now, and us needs two milliseconds to answer.
  const { run } = us.does;
  us.does.run = async (call, signal) => {
    await Promise.race([new Promise((resolve) => setTimeout(resolve, 2)), hangs(signal)]);
    return run(call, signal);
  };
  const { decision } = await isolate.decide([near()], planMs);
  expect(decision).toMatchObject({ kind: 'degraded', allowed: true, reason: 'timeout', fallback: 'open' });
  const asked = [eu, ap].flatMap(({ calls }) => calls.flatMap(({ checks }) => checks));
  expect(asked.filter(isStandIn)).toEqual([]);
});
