// New rules that come later than a request can wait for them, with the real source of rules on a slow KV.
import { describe, expect, it, vi } from 'vitest';
import { encodeSnapshot, versionOf } from '../../src/core/matching/stored-snapshot.ts';
import { type Announcement, formatAnnouncement } from '../../src/core/ports/region.ts';
import { createSnapshotSource } from '../../src/rules/edge/snapshot-source.ts';
import { writeCallers, writeRules } from '../rules/published.ts';
import { createRule } from '../rules/small-rules.ts';
import { DEADLINE_MS, fails } from './fake-regions.ts';
import { openIsolate, useFakeTime } from './limiter-harness.ts';
import { createModelRegion, seenFrom } from './model-regions.ts';

useFakeTime();

/** Longer than a request waits, and longer than an isolate trusts rules without an answer. */
const LOAD_MS = 600;

/** An isolate with old rules has been idle. Its region already announces new rules, which KV delivers late. */
async function open(idleMs = 500, loadMs = LOAD_MS) {
  const texts = new Map<string, string>();
  let kvMs = 0;
  const kv = {
    async get(name: string) {
      if (kvMs > 0) await new Promise((resolve) => setTimeout(resolve, kvMs));
      return texts.get(name) ?? null;
    },
    put: async (name: string, text: string) => void texts.set(name, text),
  };
  const published = async (sequence: number, id: string): Promise<Announcement> => {
    const rules = encodeSnapshot({ rules: [createRule(id)], tiers: [], lists: [] });
    const callers = JSON.stringify({ epoch: '0', revisions: {} });
    const announcement = { sequence, rules: await versionOf(rules), callers: await versionOf(callers) };
    await writeRules(kv, announcement.rules, rules);
    await writeCallers(kv, announcement.callers, callers);
    return announcement;
  };
  const [before, after] = [await published(1, 'old'), await published(2, 'new')];

  const us = createModelRegion('us');
  const errors: unknown[] = [];
  const real = createSnapshotSource({ kv, now: () => Date.now(), onError: (error) => errors.push(error) });
  us.does.announces = formatAnnouncement(before);
  await real.start(us.pointer);
  kvMs = loadMs;
  us.does.announces = formatAnnouncement(after);
  await vi.advanceTimersByTimeAsync(idleMs);

  const loads: Promise<boolean>[] = [];
  const load: typeof real.load = (news) => {
    const loading = real.load(news);
    loads.push(loading);
    return loading;
  };
  const source = { ...real, load, asks: undefined, announces: '' };
  const isolate = openIsolate(seenFrom([us], 0), { source });
  /** Which rules decided, whether they may be old, and whether the request has asked for the announcement. */
  const decide = async () => {
    const { length } = us.calls;
    const { decision, tookMs } = await isolate.decide();
    const asks = us.calls.slice(length).map(({ withAnnouncement }) => withAnnouncement);
    const isStale = 'isStale' in decision && decision.isStale;
    return { kind: decision.kind, rules: decision.rulesVersion, isStale, asks, tookMs };
  };
  return { us, before, after, loads, errors, decide, settle: isolate.settle };
}

it('after new rules arrive too late for a request, the next request asks for the announcement again', async () => {
  const { before, after, loads, errors, decide, settle } = await open();
  const waited = await decide();
  expect(waited).toMatchObject({
    kind: 'counted',
    rules: before.rules,
    isStale: true,
    asks: [true],
    tookMs: DEADLINE_MS / 2,
  });
  await vi.advanceTimersByTimeAsync(LOAD_MS - DEADLINE_MS / 2 - 1);
  // While the rules are being loaded, no other request waits for them.
  expect(await decide()).toMatchObject({
    kind: 'counted',
    rules: before.rules,
    isStale: true,
    asks: [false],
    tookMs: 0,
  });
  await vi.advanceTimersByTimeAsync(1);
  expect(await Promise.all(loads)).toEqual([true]);
  // The loaded rules are already too old to trust. Their load did not fail, so it keeps no request from asking.
  expect(await decide()).toMatchObject({
    kind: 'counted',
    rules: after.rules,
    isStale: false,
    asks: [true],
    tookMs: 0,
  });
  expect(await decide()).toMatchObject({
    kind: 'counted',
    rules: after.rules,
    isStale: false,
    asks: [false],
    tookMs: 0,
  });
  await settle();
  expect(errors).toEqual([]);
});

describe('an isolate that was idle for a minute', () => {
  const LAPSED_MS = 60_000;

  it('waits for the new rules beyond the deadline, and decides by them', async () => {
    const { after, decide, settle } = await open(LAPSED_MS);
    const { tookMs, ...decided } = await decide();
    expect(decided).toMatchObject({ kind: 'counted', rules: after.rules, isStale: false });
    expect(tookMs).toBeGreaterThanOrEqual(LOAD_MS);
    await settle();
  });

  it('decides by the old rules a millisecond before the minute is over', async () => {
    const { before, decide, settle } = await open(LAPSED_MS - 1);
    expect(await decide()).toMatchObject({ rules: before.rules, isStale: true, tookMs: DEADLINE_MS / 2 });
    await settle();
  });

  it('decides by the old rules if loading takes over two seconds, and the next request does not wait', async () => {
    const { before, decide, settle } = await open(LAPSED_MS, 5_000);
    expect(await decide()).toMatchObject({ rules: before.rules, isStale: true, asks: [true], tookMs: 2_000 });
    expect(await decide()).toMatchObject({ rules: before.rules, isStale: true, asks: [false], tookMs: 0 });
    await settle();
  });

  it('asks for the announcement with every request until a region answers', async () => {
    const { us, after, decide, settle } = await open(LAPSED_MS);
    const { run } = us.does;
    const asked: unknown[] = [];
    us.does.run = (call) => {
      asked.push(call.withAnnouncement);
      return fails('unavailable')();
    };
    for (let i = 0; i < 2; i += 1) await decide();
    expect(asked).toEqual([true, true]);
    us.does.run = run;
    expect(await decide()).toMatchObject({ rules: after.rules, isStale: false });
    await settle();
  });
});
