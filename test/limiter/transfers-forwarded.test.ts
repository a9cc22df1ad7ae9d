// Requests that a region sends to the owner of their counter, and a counter that no region may count for a while.
import { describe, expect, it } from 'vitest';
import { LATE_MS } from './fake-regions.ts';
import { useFakeTime } from './limiter-harness.ts';
import { place } from './placed.ts';
import { atMs, HELD_MS, open, TERM_MS } from './transfers-harness.ts';

useFakeTime();

describe('a forwarded request', () => {
  /** The owner of the counter is us. The caller has moved to eu, and the isolate there knows the owner. */
  const moved = async () => {
    const opened = open();
    await opened.send(5);
    const { request } = opened.createIsolate(1);
    // The two parts that this isolate knows deny the last request. The request asks ap, and learns of the third part.
    await opened.send(16, request);
    return { ...opened, forwarded: request };
  };

  it('renews the parts that other regions have transferred to its owner, but not the part of its own region', async () => {
    const { send, forwarded, asked } = await moved();
    const before = asked().length;
    atMs(TERM_MS - 10_000);
    await send(5, forwarded);
    expect(asked().length - before).toBe(1);
    expect(asked().filter((name) => name === 'ap')).toHaveLength(2);
  });

  it('asks its own region again when the known term is over, because the owner may have renewed it', async () => {
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

describe('a subject whose parts are all transferred, after the term has ended,', () => {
  /** The owner has no part of its own, and the other regions recall theirs. */
  const locked = async () => {
    const opened = open({ eu: 5, ap: 5 });
    // This request shows the isolate that us answers.
    await opened.request([place({ us: 1 }, { id: 'other' })]);
    expect(await opened.send(3)).toMatchObject({ charged: [{ check: { region: 'us', limit: 10 } }] });
    const recall = { operation: 'recall', checks: [opened.placed.check] } as const;
    for (const { does } of [opened.eu, opened.ap]) await does.run(recall, new AbortController().signal);
    atMs(TERM_MS + 1_000);
    return opened;
  };

  it('is denied until a region counts its own part again, if every region can be reached', async () => {
    const { send } = await locked();
    const { results, missing } = await send(1);
    expect(missing).toEqual([]);
    expect(results).toMatchObject([{ outcome: { allowed: false, remaining: 0 } }]);
    const retryAfterMs = results[0]?.outcome.retryAfterMs ?? 0;
    expect(Math.abs(retryAfterMs - (HELD_MS - TERM_MS - 1_000))).toBeLessThan(5_000);
    // The isolate counts from the time when it asked. The region counts from a time some calls later.
    atMs(TERM_MS + 1_000 + retryAfterMs + 5 * LATE_MS);
    expect(await send(1)).toMatchObject({ charged: [{}] });
  });

  it('is not counted if a region cannot be reached, so that its rule decides', async () => {
    const { request, eu } = await locked();
    eu.trip();
    expect(await request()).toMatchObject({ results: [], missing: [{}] });
  });
});

describe('a region that forwards requests to the owner', () => {
  it('recalls its part if it forwards many: the owner cannot renew it, and the subject is split again', async () => {
    const { send, asked, createIsolate } = open();
    await send(5);
    const forwarded = createIsolate(1);
    await send(9, forwarded.request);
    expect(asked('recall')).toEqual([]);
    // With this request, the forwarded requests have used as much as the part of eu within a window.
    expect(await send(1, forwarded.request)).toMatchObject({
      charged: [{ check: { region: 'us', limit: 20 } }],
    });
    expect(asked('recall')).toEqual(['eu']);
    await send(3, forwarded.request);
    expect(asked('recall')).toEqual(['eu']);
    atMs(TERM_MS - 1);
    await send(5);
    expect(asked()).toEqual(['eu', 'eu', 'ap', 'ap']);
    atMs(TERM_MS + 30_000);
    expect(await send(1)).toMatchObject({ charged: [{ check: { limit: 20 } }] });
    atMs(HELD_MS + LATE_MS);
    expect(await forwarded.request()).toMatchObject({ charged: [{ check: { region: 'eu', limit: 10 } }] });
  });

  it('does not recall its part if it forwards few', async () => {
    const { send, asked, createIsolate } = open();
    await send(5);
    const forwarded = createIsolate(1);
    await send(9, forwarded.request);
    atMs(60_000 + LATE_MS);
    await send(9, forwarded.request);
    expect(asked('recall')).toEqual([]);
  });
});
