// When a region asks others for their parts of a subject, how it uses them, and for how long.
import { describe, expect, it, vi } from 'vitest';
import { IDLE_MS } from '../../src/core/counting/transfer.ts';
import { DEADLINE_MS, hangingRun, LATE_MS } from './fake-regions.ts';
import { useFakeTime } from './limiter-harness.ts';
import { place } from './placed.ts';
import { atMs, HELD_MS, open, TERM_MS } from './transfers-harness.ts';

useFakeTime();

describe('a region asks the others for their parts', () => {
  it('when half of its own part is used, and not before', async () => {
    const { send, asked } = open();
    await send(4);
    expect(asked()).toEqual([]);
    await send(1);
    expect(asked()).toEqual(['eu', 'ap']);
  });

  it.each([
    ['after two requests, if its part has two units', { us: 2, eu: 2, ap: 2 }, 2],
    ['after the first request, if its part has one unit', { us: 1, eu: 1, ap: 1 }, 1],
    ['after the first request, if it has no part', { eu: 1, ap: 1 }, 1],
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

  it('once, and then has the whole limit', async () => {
    const { send, asked } = open();
    expect(await send(5)).toMatchObject({ charged: [{ check: { limit: 10 } }] });
    expect(await send(25)).toMatchObject({ charged: [{ check: { limit: 30 }, outcome: { remaining: 0 } }] });
    expect(await send(1)).toMatchObject({ charged: [] });
    expect(asked()).toEqual(['eu', 'ap']);
  });

  it('and gets their parts of the burst, too', async () => {
    const { send } = open({ us: [10, 5], eu: [10, 5], ap: [10, 5] }, { algorithm: 'token-bucket' });
    expect(await send(4)).toMatchObject({ charged: [{ check: { limit: 30, extra: 15 } }] });
  });

  it.each([
    ['a bucket without a burst of its own', 'token-bucket', 10, undefined],
    ['a window that is counted in buckets', 'sliding-window-buckets', [10, 5], 5],
  ] as const)('and %s stays as it is, with the whole limit', async (_, algorithm, part, extra) => {
    const { send } = open({ us: part, eu: part, ap: part }, { algorithm });
    const [charge] = (await send(6)).charged;
    expect([charge?.check.limit, charge?.check.extra]).toEqual([30, extra]);
  });

  it('with one call for all rules of a request', async () => {
    const { request, eu, settle } = open();
    const both = [place({ us: 2, eu: 2 }, { id: 'one' }), place({ us: 2, eu: 2 }, { id: 'two' })];
    for (let i = 0; i < 2; i += 1) await request(both);
    await settle();
    const transfers = eu.calls.filter(({ operation }) => operation === 'transfer');
    expect(transfers.map(({ checks }) => checks.map(({ id }) => id))).toEqual([['one', 'two']]);
  });

  it('but not if the rule does not spill, or has only one part', async () => {
    for (const { send, asked } of [
      open(undefined, { rule: { spill: false } }),
      open({ us: 10 }, { at: 'us' }),
    ]) {
      await send(10);
      expect(asked()).toEqual([]);
    }
  });

  it('on behalf of the region that a rule is being moved to', async () => {
    const { send, asked } = open({ us: 4, eu: 4, ap: 4 }, { at: 'eu' });
    await send(3);
    expect(asked()).toEqual(['us', 'ap']);
    expect(await send(9)).toMatchObject({ charged: [{ check: { limit: 12, region: 'eu' } }] });
    expect(await send(1)).toMatchObject({ charged: [] });
  });

  it('but not a region whose breaker is open', async () => {
    const { send, asked, eu } = open();
    eu.trip();
    await send(5);
    expect(asked()).toEqual(['ap']);
  });

  it('with no more than twenty calls at a time', async () => {
    const { request, settle, eu } = open();
    eu.does.run = hangingRun;
    for (let i = 0; i < 30; i += 1) await request([place({ us: 1, eu: 1 }, { id: `r${i}` })]);
    expect(eu.inFlight()).toEqual(Array(20).fill('eu transfer'));
    await settle();
    await request([place({ us: 1, eu: 1 }, { id: 'next' })]);
    expect(eu.inFlight()).toEqual(['eu transfer']);
    await settle();
  });
});

describe('a region that is asked for its part', () => {
  it('and refuses is asked again when it is idle, and not before', async () => {
    const { send, asked, createIsolate } = open();
    await createIsolate(1).request();
    await send(6);
    expect(asked()).toEqual(['eu', 'ap']);
    // eu counts as idle only a while after the minute of its charge.
    atMs(60_000 + IDLE_MS - 100);
    await send(1);
    expect(asked()).toEqual(['eu', 'ap']);
    atMs(60_000 + IDLE_MS + 100);
    await send(5);
    expect(asked()).toEqual(['eu', 'eu', 'ap']);
    expect(await send(1)).toMatchObject({ charged: [{ check: { limit: 30 } }] });
  });

  it('and fails keeps its breaker closed, and is asked again after five seconds', async () => {
    const { send, asked, eu } = open();
    const { run } = eu.does;
    let failed = 0;
    eu.does.run = (call, signal) => {
      if (call.operation !== 'transfer') return run(call, signal);
      failed += 1;
      return Promise.reject(new Error('gone'));
    };
    expect(await send(8)).toMatchObject({ charged: [{ check: { limit: 20 }, outcome: { remaining: 22 } }] });
    expect([asked(), failed, eu.breaker.state(Date.now())]).toEqual([['ap'], 1, 'closed']);
    // A single failure never opens a breaker, so the region fails several times.
    for (let times = 2; times <= 7; times += 1) {
      vi.setSystemTime(Date.now() + 5_000);
      await send(1);
      expect([failed, eu.breaker.state(Date.now())]).toEqual([times, 'closed']);
    }
    eu.does.run = run;
    vi.setSystemTime(Date.now() + 5_000);
    await send(1);
    expect(await send(1)).toMatchObject({ charged: [{ check: { limit: 30 } }] });
  });

  it('and whose answer is lost tells the next request that it has transferred the part', async () => {
    const { send, asked, eu, us } = open({ us: 2, eu: 2 });
    const { run } = eu.does;
    eu.does.run = async (call, signal) => {
      const answer = await run(call, signal);
      return call.operation === 'transfer' ? hangingRun(call, signal) : answer;
    };
    expect(await send(2)).toMatchObject({ charged: [{ check: { limit: 2 } }] });
    expect(asked()).toEqual(['eu']);
    // us denies the request. The request then learns in eu that us has both parts.
    expect(await send(1)).toMatchObject({
      charged: [{ check: { region: 'us', limit: 4 }, outcome: { remaining: 1 } }],
    });
    expect(us.calls.at(-1)?.checks).toMatchObject([{ limit: 4 }]);
  });
});

describe('a part that another region has transferred', () => {
  const used = async () => {
    const opened = open();
    await opened.send(5);
    return opened;
  };

  it('is used until the term ends, and the region that transferred it counts nothing until the hold ends', async () => {
    const { send, createIsolate } = await used();
    atMs(TERM_MS - 1);
    expect(await send(1)).toMatchObject({ charged: [{ check: { limit: 30 } }] });
    const { request } = createIsolate();
    expect(await request()).toMatchObject({ charged: [{ check: { limit: 10 } }] });
    atMs(HELD_MS - 1);
    expect(await createIsolate(1).request()).toMatchObject({ charged: [{ check: { region: 'us' } }] });
  });

  it('is no longer used after the term, unless it was renewed', async () => {
    const { send } = await used();
    atMs(TERM_MS);
    expect(await send(1)).toMatchObject({ charged: [{ check: { limit: 10 } }] });
  });

  it('belongs to its own region again after the hold', async () => {
    const { createIsolate } = await used();
    atMs(HELD_MS + LATE_MS);
    expect(await createIsolate(1).request()).toMatchObject({
      charged: [{ check: { region: 'eu', limit: 10 } }],
    });
  });

  it('is renewed in the last third of the term if the subject is active', async () => {
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

  it('is not renewed if the subject is not active', async () => {
    const { send, asked } = await used();
    atMs(TERM_MS - 1);
    await send(4);
    expect(asked()).toEqual(['eu', 'ap']);
  });
});

it('a denied request does not ask for parts that its owner still has, even if the term is ending', async () => {
  const { send, request, asked, settle } = open();
  await send(5);
  atMs(TERM_MS - 10_000);
  await send(30);
  const renewed = asked();
  expect(await request()).toMatchObject({ charged: [] });
  expect(asked()).toEqual(renewed);
  await settle();
});

it('a request that waits its whole deadline for far parts is still counted in the nearest region', async () => {
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
