// When a region asks others for their parts of a subject, how it uses them, and for how long.
import { describe, expect, it, vi } from 'vitest';
import { IDLE_MS } from '../../src/core/counting/ceding.ts';
import type { CounterCall } from '../../src/core/ports/counter-store.ts';
import { createCessions } from '../../src/limiter/cessions.ts';
import { createDeadline } from '../../src/limiter/deadline.ts';
import { createKnownDenials } from '../../src/limiter/known-denials.ts';
import { createLeaseBook } from '../../src/limiter/lease-book.ts';
import { createLedger } from '../../src/limiter/ledger.ts';
import type { PlacedCheck } from '../../src/limiter/placed-checks.ts';
import { createRegionalCount } from '../../src/limiter/regional-count.ts';
import {
  DEADLINE_MS,
  hangingRun,
  LATE_MS,
  START_MS,
  settleAll,
  timed,
  useFakeTime,
} from './limiter-harness.ts';
import { createModelRegion, type ModelRegion, seenFrom } from './model-regions.ts';
import { type Parts, place } from './placed.ts';
import { chargesIn } from './regional-count-harness.ts';
import type { RuleCheckShape } from './rule-checks.ts';

useFakeTime();
const now = () => Date.now();
/** For a window of a minute: four windows. Then one window more for the last charges, and five seconds for clocks. */
const TERM_MS = 240_000;
const HELD_MS = TERM_MS + 60_000 + 5_000;
const atMs = (ms: number) => vi.setSystemTime(START_MS + ms);

function open(parts: Parts = { us: 10, eu: 10, ap: 10 }, shape: RuleCheckShape & { at?: string } = {}) {
  const regions = ['us', 'eu', 'ap'].map((name) => createModelRegion(name)) as [
    ModelRegion,
    ModelRegion,
    ModelRegion,
  ];
  const later: Promise<unknown>[] = [];
  const placed = place(parts, shape);
  const createIsolate = (nearest = 0) => {
    const regional = createRegionalCount({
      now,
      denials: createKnownDenials(),
      cessions: createCessions(now),
      leases: createLeaseBook(now),
    });
    const request = async (checks: readonly PlacedCheck[] = [placed]) => {
      const ledger = createLedger(() => {});
      const { decision: counted } = await timed(() =>
        regional.count({
          placed: checks,
          regions: seenFrom(regions, nearest),
          operation: 'take',
          withAnnouncement: false,
          deadline: createDeadline(DEADLINE_MS, now),
          afterResponse: (work) => void later.push(work),
          era: 'era',
          ledger,
        }),
      );
      return { ...counted, charged: chargesIn(ledger, counted) };
    };
    return { request };
  };
  const settle = () => settleAll(later, regions);
  const { request } = createIsolate();
  /** Sends one request after the other, each with all its work after the response. */
  const send = async (count: number, by = request) => {
    for (let i = 1; i < count; i += 1) await by().then(settle);
    const last = await by();
    await settle();
    return last;
  };
  const asked = (operation: CounterCall['operation'] = 'cede') =>
    regions.flatMap(({ name, calls }) =>
      calls.filter((call) => call.operation === operation).map(() => name),
    );
  const [us, eu, ap] = regions;
  return { us, eu, ap, regions, placed, request, send, settle, asked, createIsolate };
}

describe('a region asks the others for their parts', () => {
  it('when half of its own is used, and not before', async () => {
    const { send, asked } = open();
    await send(4);
    expect(asked()).toEqual([]);
    await send(1);
    expect(asked()).toEqual(['eu', 'ap']);
  });

  it.each([
    ['after two requests, if its part is that small', { us: 2, eu: 2, ap: 2 }, 2],
    ['after the first one, if its part has no more than that', { us: 1, eu: 1, ap: 1 }, 1],
    ['after the first one, if it has no part', { eu: 1, ap: 1 }, 1],
  ])('%s', async (_, parts, first) => {
    const { send, asked } = open(parts);
    for (let i = 1; i <= first; i += 1) {
      expect(asked()).toEqual([]);
      await send(1);
    }
    expect(asked().length).toBeGreaterThan(0);
  });

  it('after the response', async () => {
    const { send, request, asked, eu, ap, settle } = open();
    await send(4);
    for (const region of [eu, ap]) region.does.run = hangingRun;
    const before = Date.now();
    expect(await request()).toMatchObject({ charged: [{}] });
    expect([Date.now() - before, asked()]).toEqual([0, []]);
    await settle();
    expect([eu, ap].map(({ breaker }) => breaker.state(Date.now()))).toEqual(['closed', 'closed']);
  });

  it('once, and has all of the limit from then on', async () => {
    const { send, asked } = open();
    expect(await send(5)).toMatchObject({ charged: [{ check: { limit: 10 } }] });
    expect(await send(25)).toMatchObject({ charged: [{ check: { limit: 30 }, outcome: { remaining: 0 } }] });
    expect(await send(1)).toMatchObject({ charged: [] });
    expect(asked()).toEqual(['eu', 'ap']);
  });

  it('of a burst with its pace', async () => {
    const { send } = open({ us: [10, 5], eu: [10, 5], ap: [10, 5] }, { algorithm: 'token-bucket' });
    expect(await send(4)).toMatchObject({ charged: [{ check: { limit: 30, extra: 15 } }] });
  });

  it('for all rules of a request with one call', async () => {
    const { request, eu, settle } = open();
    const both = [place({ us: 2, eu: 2 }, { id: 'one' }), place({ us: 2, eu: 2 }, { id: 'two' })];
    for (let i = 0; i < 2; i += 1) await request(both);
    await settle();
    const cedes = eu.calls.filter(({ operation }) => operation === 'cede');
    expect(cedes.map(({ checks }) => checks.map(({ id }) => id))).toEqual([['one', 'two']]);
  });

  it('not if the rule keeps to its parts, or has only one', async () => {
    for (const { send, asked } of [
      open(undefined, { rule: { spill: false } }),
      open({ us: 10 }, { at: 'us' }),
    ]) {
      await send(10);
      expect(asked()).toEqual([]);
    }
  });

  it('for the region that alone counts it while a rule is moved there', async () => {
    const { send, asked } = open({ us: 4, eu: 4, ap: 4 }, { at: 'eu' });
    await send(3);
    expect(asked()).toEqual(['us', 'ap']);
    expect(await send(9)).toMatchObject({ charged: [{ check: { limit: 12, region: 'eu' } }] });
    expect(await send(1)).toMatchObject({ charged: [] });
  });

  it('not one whose breaker is open', async () => {
    const { send, asked, eu } = open();
    eu.trip();
    await send(5);
    expect(asked()).toEqual(['ap']);
  });

  it('no more than twenty at a time', async () => {
    const { request, settle, eu } = open();
    eu.does.run = hangingRun;
    for (let i = 0; i < 30; i += 1) await request([place({ us: 1, eu: 1 }, { id: `r${i}` })]);
    expect(eu.inFlight()).toEqual(Array(20).fill('eu cede'));
    await settle();
    await request([place({ us: 1, eu: 1 }, { id: 'next' })]);
    expect(eu.inFlight()).toEqual(['eu cede']);
    await settle();
  });
});

describe('a region that is asked', () => {
  it('and refuses is asked again when it is idle, and not before', async () => {
    const { send, asked, createIsolate } = open();
    await createIsolate(1).request();
    await send(6);
    expect(asked()).toEqual(['eu', 'ap']);
    // Until a while after the minute of its charge.
    atMs(60_000 + IDLE_MS - 100);
    await send(1);
    expect(asked()).toEqual(['eu', 'ap']);
    atMs(60_000 + IDLE_MS + 100);
    await send(5);
    expect(asked()).toEqual(['eu', 'eu', 'ap']);
    expect(await send(1)).toMatchObject({ charged: [{ check: { limit: 30 } }] });
  });

  it('and fails has cost nothing, and is asked again after five seconds', async () => {
    const { send, asked, eu } = open();
    const { run } = eu.does;
    let failed = 0;
    eu.does.run = (call, signal) => {
      if (call.operation !== 'cede') return run(call, signal);
      failed += 1;
      return Promise.reject(new Error('gone'));
    };
    expect(await send(8)).toMatchObject({ charged: [{ check: { limit: 20 }, outcome: { remaining: 22 } }] });
    expect([asked(), failed, eu.breaker.state(Date.now())]).toEqual([['ap'], 1, 'closed']);
    eu.does.run = run;
    vi.setSystemTime(Date.now() + 5_000);
    await send(1);
    expect(await send(1)).toMatchObject({ charged: [{ check: { limit: 30 } }] });
  });

  it('and whose answer is lost names the home, which is told by the next that come', async () => {
    const { send, asked, eu, us } = open({ us: 2, eu: 2 });
    const { run } = eu.does;
    eu.does.run = async (call, signal) => {
      const answer = await run(call, signal);
      return call.operation === 'cede' ? hangingRun(call, signal) : answer;
    };
    expect(await send(2)).toMatchObject({ charged: [{ check: { limit: 2 } }] });
    expect(asked()).toEqual(['eu']);
    // Denied here, it learns there that all of it is here.
    expect(await send(1)).toMatchObject({
      charged: [{ check: { region: 'us', limit: 4 }, outcome: { remaining: 1 } }],
    });
    expect(us.calls.at(-1)?.checks).toMatchObject([{ limit: 4 }]);
  });
});

describe('the part of another region', () => {
  const used = async () => {
    const opened = open();
    await opened.send(5);
    return opened;
  };

  it('is used until the term is over, and its region counts nothing for as long as that may count', async () => {
    const { send, createIsolate } = await used();
    atMs(TERM_MS - 1);
    expect(await send(1)).toMatchObject({ charged: [{ check: { limit: 30 } }] });
    const { request } = createIsolate();
    expect(await request()).toMatchObject({ charged: [{ check: { limit: 10 } }] });
    atMs(HELD_MS - 1);
    expect(await createIsolate(1).request()).toMatchObject({ charged: [{ check: { region: 'us' } }] });
  });

  it('is no longer used from then on, if it was not renewed', async () => {
    const { send } = await used();
    atMs(TERM_MS);
    expect(await send(1)).toMatchObject({ charged: [{ check: { limit: 10 } }] });
  });

  it('is its own again once nothing of it can count', async () => {
    const { createIsolate } = await used();
    atMs(HELD_MS + LATE_MS);
    expect(await createIsolate(1).request()).toMatchObject({
      charged: [{ check: { region: 'eu', limit: 10 } }],
    });
  });

  it('is renewed in the last third of the term, by a subject that is active', async () => {
    const { send, asked } = await used();
    atMs((TERM_MS * 2) / 3);
    await send(5);
    expect(asked()).toEqual(['eu', 'ap']);
    atMs((TERM_MS * 2) / 3 + 1);
    await send(1);
    expect(asked()).toEqual(['eu', 'eu', 'ap', 'ap']);
    atMs(TERM_MS + 10);
    expect(await send(1)).toMatchObject({ charged: [{ check: { limit: 30 } }] });
  });

  it('is not renewed by a subject that is not', async () => {
    const { send, asked } = await used();
    atMs(TERM_MS - 1);
    await send(4);
    expect(asked()).toEqual(['eu', 'ap']);
  });
});

it('a denied request asks nobody for a part that its home still has, even if the term is ending', async () => {
  const { send, request, asked, settle } = open();
  await send(5);
  atMs(TERM_MS - 10_000);
  await send(30);
  const renewed = asked();
  expect(await request()).toMatchObject({ charged: [] });
  expect(asked()).toEqual(renewed);
  await settle();
});

describe('a guest', () => {
  /** The home is us. Its caller has moved to eu, and that isolate knows it. */
  const moved = async () => {
    const opened = open();
    await opened.send(5);
    const { request } = opened.createIsolate(1);
    // The two parts that this isolate knows of deny the last request, which learns in ap of the third part.
    await opened.send(16, request);
    return { ...opened, guest: request };
  };

  it('renews for its home what other regions have ceded to it, but not the part of its own region', async () => {
    const { send, guest, asked } = await moved();
    const before = asked().length;
    atMs(TERM_MS - 10_000);
    await send(5, guest);
    expect(asked().length - before).toBe(1);
    expect(asked().filter((name) => name === 'ap')).toHaveLength(2);
  });

  it('asks its own region again when the term that it knows is over: the home may have renewed', async () => {
    const { send, createIsolate } = open();
    await send(5);
    const { request } = createIsolate(1);
    await send(1, request);
    atMs(TERM_MS - 10_000);
    await send(5);
    atMs(TERM_MS + 10_000);
    expect(await send(1, request)).toMatchObject({ charged: [{ check: { region: 'us', limit: 20 } }] });
  });
});

it('a request that has waited for a far part for all its time is still counted here', async () => {
  const { request, eu, ap } = open({ eu: 5, ap: 5 });
  await request([place({ us: 1 }, { id: 'other' })]);
  for (const { does } of [eu, ap]) {
    const { run } = does;
    does.run = async (call, signal) => {
      await new Promise((resolve) => setTimeout(resolve, DEADLINE_MS));
      return run(call, signal);
    };
  }
  expect(await request()).toMatchObject({ charged: [{ check: { region: 'us' } }], missing: [] });
});

describe('a subject whose parts are all ceded, for a term that is over', () => {
  /** The home has no part of its own, and the others want theirs back. */
  const locked = async () => {
    const opened = open({ eu: 5, ap: 5 });
    // So that the isolate knows that us answers.
    await opened.request([place({ us: 1 }, { id: 'other' })]);
    expect(await opened.send(3)).toMatchObject({ charged: [{ check: { region: 'us', limit: 10 } }] });
    const reclaim = { operation: 'reclaim', checks: [opened.placed.check] } as const;
    for (const { does } of [opened.eu, opened.ap]) await does.run(reclaim, new AbortController().signal);
    atMs(TERM_MS + 1_000);
    return opened;
  };

  it('is denied until one of them counts again, if no region is out of reach', async () => {
    const { send } = await locked();
    const { results, missing } = await send(1);
    expect(missing).toEqual([]);
    expect(results).toMatchObject([{ outcome: { allowed: false, remaining: 0 } }]);
    const retryAfterMs = results[0]?.outcome.retryAfterMs ?? 0;
    expect(Math.abs(retryAfterMs - (HELD_MS - TERM_MS - 1_000))).toBeLessThan(5_000);
    // The isolate counts from when it asked, which is some calls earlier than the region.
    atMs(TERM_MS + 1_000 + retryAfterMs + 5 * LATE_MS);
    expect(await send(1)).toMatchObject({ charged: [{}] });
  });

  it('is left to its rule if one is', async () => {
    const { request, eu } = await locked();
    eu.trip();
    expect(await request()).toMatchObject({ results: [], missing: [{}] });
  });
});

describe('a region that sends many to the home', () => {
  it('wants its part back: the home cannot renew, and the subject is split again', async () => {
    const { send, asked, createIsolate } = open();
    await send(5);
    const guest = createIsolate(1);
    await send(9, guest.request);
    expect(asked('reclaim')).toEqual([]);
    // Its own part, within a window.
    expect(await send(1, guest.request)).toMatchObject({ charged: [{ check: { region: 'us', limit: 20 } }] });
    expect(asked('reclaim')).toEqual(['eu']);
    await send(3, guest.request);
    expect(asked('reclaim')).toEqual(['eu']);
    atMs(TERM_MS - 1);
    await send(5);
    expect(asked()).toEqual(['eu', 'eu', 'ap', 'ap']);
    atMs(TERM_MS + 30_000);
    expect(await send(1)).toMatchObject({ charged: [{ check: { limit: 20 } }] });
    atMs(HELD_MS + LATE_MS);
    expect(await guest.request()).toMatchObject({ charged: [{ check: { region: 'eu', limit: 10 } }] });
  });

  it('does not if few come', async () => {
    const { send, asked, createIsolate } = open();
    await send(5);
    const guest = createIsolate(1);
    await send(9, guest.request);
    atMs(60_000 + LATE_MS);
    await send(9, guest.request);
    expect(asked('reclaim')).toEqual([]);
  });
});
