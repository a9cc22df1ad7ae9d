// New rules that come later than a request can wait for them, with the real source of rules on a slow KV.
import { expect, it, vi } from 'vitest';
import { encodeSnapshot, versionOf } from '../../src/core/matching/stored-snapshot.ts';
import { type Announcement, formatAnnouncement } from '../../src/core/ports/announcement.ts';
import { writeCallers, writeRules } from '../../src/rules/book/snapshot-kv.ts';
import { createSnapshotSource } from '../../src/rules/book/snapshot-source.ts';
import { createRule } from '../rules/small-rules.ts';
import { DEADLINE_MS } from './fake-regions.ts';
import { openIsolate, useFakeTime } from './limiter-harness.ts';
import { createModelRegion, seenFrom } from './model-regions.ts';

useFakeTime();

/** Longer than a request waits, and longer than an isolate trusts rules without an answer. */
const LOAD_MS = 600;

/** An idle isolate with old rules, while its region already announces new ones, which KV takes LOAD_MS to bring. */
async function open() {
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
  await real.start(us.board);
  kvMs = LOAD_MS;
  us.does.announces = formatAnnouncement(after);
  await vi.advanceTimersByTimeAsync(500);

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
    return { rules: decision.rulesVersion, isStale: 'isStale' in decision && decision.isStale, asks, tookMs };
  };
  return { before, after, loads, errors, decide, settle: isolate.settle };
}

it('the next request asks again as soon as new rules have come too late for a request', async () => {
  const { before, after, loads, errors, decide, settle } = await open();
  const waited = await decide();
  expect(waited).toEqual({ rules: before.rules, isStale: true, asks: [true], tookMs: DEADLINE_MS / 2 });
  await vi.advanceTimersByTimeAsync(LOAD_MS - DEADLINE_MS / 2 - 1);
  // While the rules are being loaded, no other request waits for them.
  expect(await decide()).toEqual({ rules: before.rules, isStale: true, asks: [false], tookMs: 0 });
  await vi.advanceTimersByTimeAsync(1);
  expect(await Promise.all(loads)).toEqual([true]);
  // The rules that came are already too old to be trusted, and their load was no failure that keeps requests from asking.
  expect(await decide()).toEqual({ rules: after.rules, isStale: false, asks: [true], tookMs: 0 });
  expect(await decide()).toEqual({ rules: after.rules, isStale: false, asks: [false], tookMs: 0 });
  await settle();
  expect(errors).toEqual([]);
});
