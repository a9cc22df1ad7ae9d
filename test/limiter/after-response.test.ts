// The limiter hands over its work after the response, so that the runtime waits for it. Regions answer late here, so
// work that nobody waits for would be missing at the end.

import { describe, expect, it } from 'vitest';
import type { MakePlan } from '../../src/limiter/limiter.ts';
import type { AnyCall } from '../shared/any-call.ts';
import {
  answers,
  type Behaviour,
  createRegions,
  denies,
  fails,
  hangingRun,
  START_MS,
} from './fake-regions.ts';
import { createCheck, createSource, openIsolate, timed, useFakeTime } from './limiter-harness.ts';
import { aloneIn, checkOf, near, openRegions } from './regional-isolate.ts';

useFakeTime();
const due = { expected: 'this', isOverdue: false, isLapsed: false, askedAtMs: START_MS };
const planOf =
  (check: ReturnType<typeof createCheck>): MakePlan =>
  async () => ({ kind: 'checks', checks: [check] });

describe('the seat of a request', () => {
  const seat = { ...createCheck({ algorithm: 'concurrency', spill: false }), seatId: 'seat-00000000001' };
  /** Notes what is released, whether or not a take is answered. */
  const released = (take: Behaviour['run']) => {
    const seats: (string | undefined)[] = [];
    const run = async (call: AnyCall, signal: AbortSignal) => {
      if (call.operation === 'take') return take(call, signal);
      const answer = await answers()(call, signal);
      seats.push(...call.checks.map(({ seatId }) => seatId));
      return answer;
    };
    return { seats, run };
  };

  it.each([
    ['failed', fails('timeout')],
    ['hung', hangingRun],
  ])('is released in a region whose call %s, when another region announces other rules', async (_, take) => {
    const { seats, run } = released(take);
    const { regions } = createRegions({ run }, { announces: 'that' });
    const source = createSource();
    source.asks = { ...due, isOverdue: true };
    const { decide, settle } = openIsolate(regions, { source });
    let passes = 0;
    // A second round has its own seat.
    const plan: MakePlan = async () => {
      passes += 1;
      return { kind: 'checks', checks: [{ ...seat, seatId: `seat-0000000000${passes}` }] };
    };
    expect((await decide({ plan })).decision).toMatchObject({ kind: 'counted', allowed: true });
    await settle();
    expect(seats).toEqual(['seat-00000000001']);
  });

  it.each(['closed', 'open'] as const)(
    'is released in a region that did not answer, if its rule is %s',
    async (onUnavailable) => {
      const { seats, run } = released(fails('timeout'));
      const { regions } = createRegions({ run });
      const { decide, settle } = openIsolate(regions);
      const held = {
        ...createCheck({ algorithm: 'concurrency', spill: false, onUnavailable }),
        seatId: seat.seatId,
      };
      const { decision, ledger } = await decide({ plan: planOf(held) });
      expect([decision.kind, decision.allowed]).toEqual(['degraded', onUnavailable === 'open']);
      // The gateway releases what an admitted request may hold. The limiter releases what a denied one may hold.
      if (decision.allowed) await timed(() => ledger.release());
      await settle();
      expect(seats).toEqual(['seat-00000000001']);
    },
  );

  it('is not released by the limiter if the only region that was asked has answered', async () => {
    const { seats, run } = released(answers());
    const { regions } = createRegions({ run }, {});
    const { decide, settle } = openIsolate(regions);
    await decide({ plan: planOf(seat) });
    await settle();
    expect(seats).toEqual([]);
  });
});

describe('a charge in one region', () => {
  it('is given back after the response if another region denies', async () => {
    const { decide, settle, us, eu, left } = openRegions();
    eu.does.run = denies(30_000);
    expect((await decide([near(), aloneIn('eu', 'far')])).allowed).toBe(false);
    expect(left(us, near(), 4)).toBe(3);
    await settle();
    expect(left(us, near(), 4)).toBe(4);
  });

  it('is given back after the response if this isolate denies', async () => {
    const { decide, settle, us, eu, left } = openRegions();
    eu.does.run = fails('unavailable');
    expect((await decide([near(), aloneIn('eu', 'far', { onUnavailable: 'closed' })])).allowed).toBe(false);
    expect(left(us, near(), 4)).toBe(3);
    await settle();
    expect(left(us, near(), 4)).toBe(4);
  });
});

it('a shadow rule is counted and reported after the response', async () => {
  const { decide, settle, us } = openRegions();
  const { run } = us.does;
  us.does.run = async (call, signal) => {
    if (call.checks.some(({ isShadow }) => isShadow)) await new Promise((resolve) => setTimeout(resolve, 10));
    return run(call, signal);
  };
  const told: unknown[] = [];
  const shadow = checkOf('shadow', { isShadow: true, rule: { action: 'log' } });
  await decide([near(), shadow], { onShadow: (results) => void told.push(results.length) });
  expect(told).toEqual([]);
  await settle();
  expect(told).toEqual([1]);
});

it('the limiter learns the number of isolates after the response', async () => {
  const { regions, owner } = createRegions({ present: async () => 7 });
  const { decide, settle } = openIsolate(regions);
  await decide();
  expect(owner.census.count()).toBe(1);
  await settle();
  expect(owner.census.count()).toBe(7);
});

it('the limiter loads changed rules after the response', async () => {
  const loaded: string[] = [];
  const load = async ({ announced }: { readonly announced: string }) => {
    await new Promise((resolve) => setTimeout(resolve, 10));
    loaded.push(announced);
    return true;
  };
  const { regions } = createRegions({ announces: 'that' });
  const source = createSource({ load });
  source.asks = due;
  const { decide, settle } = openIsolate(regions, { source });
  await decide();
  expect(loaded).toEqual([]);
  await settle();
  expect(loaded).toEqual(['that']);
});
