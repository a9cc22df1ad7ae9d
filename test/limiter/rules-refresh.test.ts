// A check that the rules at hand cannot plan makes the isolate read the announcement, a few times a second at most.
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { createRulesRefresh } from '../../src/checks/checks.ts';
import { createRegion } from './fake-regions.ts';
import { createSource, snapshotOf, timed } from './limiter-harness.ts';

beforeEach(() => void vi.useFakeTimers({ now: 1_800_000_000_000 }));
afterEach(() => void vi.useRealTimers());

interface Situation {
  readonly announces?: string;
  readonly isDown?: boolean;
  readonly isCode?: boolean;
  /** How long a region takes to answer. */
  readonly readMs?: number;
}

function open({ announces = 'this', isDown = false, isCode = false, readMs = 0 }: Situation = {}) {
  let reads = 0;
  const snapshot = snapshotOf('old');
  let current = snapshot;
  const source = createSource({ current: () => current, isConfirmed: () => !isDown && readMs < 100 });
  source.announces = isCode ? '' : 'this';
  const { load } = source;
  source.load = async (news) => {
    current = snapshotOf('new');
    return load.call(source, news);
  };
  const region = createRegion('us', {});
  const pointer = {
    ...region.pointer,
    async read() {
      reads += 1;
      if (readMs > 0) await new Promise((resolve) => setTimeout(resolve, readMs));
      if (isDown) throw new Error('down');
      return announces;
    },
  };
  const refresh = createRulesRefresh({ snapshots: source, deadlineMs: 100, now: () => Date.now() });
  const request = { regions: [{ ...region, pointer }], afterResponse: () => {} } as const;
  return {
    refresh: () => refresh(snapshot, request),
    another: () => refresh(snapshotOf('x'), request),
    reads: () => reads,
  };
}

it('loads what is announced', async () => {
  expect(await open({ announces: 'that' }).refresh()).toBe('newer');
});

it('says that the rules are the same, and reads at most five times a second', async () => {
  const { refresh, reads } = open();
  for (let i = 0; i < 50; i += 1) expect(await refresh()).toBe('same');
  expect(reads()).toBe(5);
  await Promise.all(Array.from({ length: 50 }, refresh));
  expect(reads()).toBe(5);
  vi.setSystemTime(Date.now() + 1_000);
  const { decision } = await timed(() => Promise.all(Array.from({ length: 50 }, refresh)));
  expect(new Set(decision)).toEqual(new Set(['same']));
  expect(reads()).toBe(10);
});

it('loads what is announced for all calls that come at once, with five reads', async () => {
  const { refresh, reads } = open({ announces: 'that', readMs: 30 });
  const { decision, tookMs } = await timed(() => Promise.all(Array.from({ length: 50 }, refresh)));
  expect(new Set(decision)).toEqual(new Set(['newer']));
  expect(reads()).toBe(5);
  expect(tookMs).toBeLessThan(60);
});

it('does not say that the rules are the same before any read has an answer', async () => {
  const { refresh, reads } = open({ readMs: 10_000 });
  const { decision } = await timed(() => Promise.all(Array.from({ length: 50 }, refresh)));
  expect(new Set(decision)).toEqual(new Set(['unknown']));
  expect(reads()).toBe(5);
});

it('does not know, if no region answers, until one does', async () => {
  const { refresh } = open({ isDown: true });
  for (let i = 0; i < 10; i += 1) expect(await refresh()).toBe('unknown');
});

it('reads nothing, if another request has loaded other rules meanwhile', async () => {
  const { another, reads } = open();
  expect([await another(), reads()]).toEqual(['newer', 0]);
});

it('reads nothing, if the rules are in code', async () => {
  const { refresh, reads } = open({ isCode: true });
  expect([await refresh(), reads()]).toEqual(['same', 0]);
});
