// What an isolate knows of the rules, on a real KV and an injected clock.
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { encodeSnapshot, versionOf } from '../../src/core/matching/stored-snapshot.ts';
import { type Announcement, formatAnnouncement, type Published } from '../../src/core/ports/region.ts';
import type { Kv } from '../../src/rules/edge/published.ts';
import { createSnapshotSource } from '../../src/rules/edge/snapshot-source.ts';
import { writeCurrent } from '../../src/rules/publishing/copies.ts';
import { startKv, type TestKv } from './kv.ts';
import { readRules, writeCallers, writeRules } from './published.ts';
import { createRule } from './small-rules.ts';

let testKv: TestKv;
let kv: TestKv['kv'];
beforeAll(async () => {
  testKv = await startKv();
  kv = testKv.kv;
});
afterAll(() => testKv[Symbol.asyncDispose]());

/** Publishes rules with these ids, and returns what is announced. */
async function published(sequence: number, ...ids: string[]): Promise<Announcement> {
  const rulesText = encodeSnapshot({ rules: ids.map(createRule), tiers: [], lists: [] });
  const callersText = JSON.stringify({ epoch: '0', revisions: { 'key:k': String(sequence) } });
  const announcement = {
    sequence,
    rules: await versionOf(rulesText),
    callers: await versionOf(callersText),
  };
  await writeRules(kv, announcement.rules, rulesText);
  await writeCallers(kv, announcement.callers, callersText);
  return announcement;
}

let nowMs: number;
let errors: unknown[];
beforeEach(async () => {
  nowMs = 1_000_000;
  errors = [];
  for (const { name } of (await kv.list({ prefix: '' })).keys) await kv.delete(name);
});

const methodsOf = (real: Kv): Kv => ({
  get: (name) => real.get(name),
  put: (name, text, options) => real.put(name, text, options),
});
const createSource = (through: Partial<Kv> = {}) =>
  createSnapshotSource({
    kv: { ...methodsOf(kv), ...through },
    now: () => nowMs,
    onError: (error) => errors.push(error),
  });
const noCopies = { readPublished: async (parts: readonly Published[]) => parts.map(() => undefined) };
const boardWith = (announcement: Announcement | undefined) => ({
  read: async () => announcement && formatAnnouncement(announcement),
  ...noCopies,
});
const brokenBoard = { read: () => Promise.reject(new Error('gone')), ...noCopies };
const newsOf = (announcement: Announcement | string) => ({
  announced: typeof announcement === 'string' ? announcement : formatAnnouncement(announcement),
  pointer: noCopies,
});

describe('a cold isolate', () => {
  it('loads the rules that the region announces', async () => {
    const source = createSource();
    const announcement = await published(1, 'a', 'b');
    expect(await source.start(boardWith(announcement))).toMatchObject({
      version: announcement.rules,
      ruleCount: 2,
    });
    expect(source.callerRevisions()).toEqual({ epoch: '0', revisions: { 'key:k': '1' } });
  });

  it('loads the rules that KV names if Redis is down', async () => {
    const announcement = await published(1, 'a');
    await writeCurrent(kv, announcement);
    expect(await createSource().start(brokenBoard)).toMatchObject({ version: announcement.rules });
  });

  it('loads the rules that KV names if Redis hangs, without a long wait', async () => {
    const announcement = await published(1, 'a');
    await writeCurrent(kv, announcement);
    const hanging = {
      read: (signal: AbortSignal) =>
        new Promise<undefined>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
      ...noCopies,
    };
    const source = createSource();
    expect(await source.start(hanging)).toMatchObject({ version: announcement.rules });
    // KV alone may be a minute behind.
    expect(source.probe()?.isOverdue).toBe(true);
  });

  it('takes the newer rules of region and KV, and the older if the newer cannot be read', async () => {
    const older = await published(1, 'a');
    const newer = await published(2, 'b');
    await writeCurrent(kv, older);
    expect(await createSource().start(boardWith(newer))).toMatchObject({ version: newer.rules });
    const unreadable = { sequence: 3, rules: 'f'.repeat(16), callers: newer.callers };
    expect(await createSource().start(boardWith(unreadable))).toMatchObject({ version: older.rules });
  });

  it('has no rules when none are published, and does not look again for half a second', async () => {
    const reads: number[] = [];
    const counting = { ...boardWith(undefined), read: async () => void reads.push(nowMs) };
    const source = createSource();
    expect(await source.start(counting)).toBeUndefined();
    expect(await source.start(counting)).toBeUndefined();
    nowMs += 499;
    expect(await source.start(counting)).toBeUndefined();
    nowMs += 1;
    expect(await source.start(counting)).toBeUndefined();
    expect(reads).toHaveLength(2);
  });

  it.each([
    ['damaged', async ({ rules }: Announcement) => kv.put(`rules:${rules}`, '{"format":1,"rules":[]}')],
    ['gone', async ({ rules }: Announcement) => kv.delete(`rules:${rules}`)],
  ])('has no rules when the snapshot is %s', async (_, spoil) => {
    const announcement = await published(1, 'a');
    await spoil(announcement);
    expect(await createSource().start(boardWith(announcement))).toBeUndefined();
  });

  it('refuses rules in a future format', async () => {
    const text = '{"format":6,"rules":[],"tiers":[],"lists":[]}';
    const version = await versionOf(text);
    await writeRules(kv, version, text);
    expect(await readRules(kv, version)).toBeUndefined();
  });
});

describe('an isolate that has rules', () => {
  async function started(through?: Partial<Kv>) {
    const announcement = await published(1, 'a');
    const source = createSource(through);
    await source.start(boardWith(announcement));
    return { source, announcement };
  }

  it('asks once, 250 ms after its rules were confirmed', async () => {
    const { source, announcement } = await started();
    nowMs += 249;
    expect(source.probe()).toBeUndefined();
    nowMs += 1;
    const expected = formatAnnouncement(announcement);
    expect(source.probe()).toEqual({ expected, isOverdue: false, isLapsed: false, askedAtMs: nowMs });
    expect(source.probe()).toBeUndefined();
  });

  it('lets every request ask from 500 ms on, until one has an answer', async () => {
    const { source } = await started();
    nowMs += 500;
    const [first, second] = [source.probe(), source.probe()];
    expect([first?.isOverdue, second?.isOverdue]).toEqual([true, true]);
    if (first) source.confirm(first);
    expect(source.probe()).toBeUndefined();
  });

  it('reports that its rules have lapsed, a minute after they were confirmed', async () => {
    const { source } = await started();
    nowMs += 59_999;
    expect(source.probe()?.isLapsed).toBe(false);
    nowMs += 1;
    const probe = source.probe();
    expect(probe?.isLapsed).toBe(true);
    if (probe) source.confirm(probe);
    nowMs += 250;
    expect(source.probe()?.isLapsed).toBe(false);
  });

  it('dates an answer by the time of the question, not by the time of arrival', async () => {
    const { source } = await started();
    nowMs += 300;
    const probe = source.probe();
    nowMs += 499;
    if (probe) source.confirm(probe);
    expect(source.probe()?.isOverdue).toBe(false);
    nowMs += 1;
    expect(source.probe()?.isOverdue).toBe(true);
  });

  it('loads both rules and callers of a new announcement', async () => {
    const { source } = await started();
    const next = await published(2, 'a', 'b');
    expect(await source.load(newsOf(next))).toBe(true);
    expect(source.current()).toMatchObject({ version: next.rules, ruleCount: 2 });
    expect(source.callerRevisions().revisions).toEqual({ 'key:k': '2' });
  });

  it('reads only changed parts from KV', async () => {
    const read: string[] = [];
    const get = ((name: string) => {
      read.push(name);
      return kv.get(name);
    }) as Kv['get'];
    const { source, announcement } = await started({ get });
    const next = await published(2, 'a');
    expect(next.rules).toBe(announcement.rules);
    read.length = 0;
    await source.load(newsOf(next));
    expect(read).toEqual([`callers:${next.callers}`]);
  });

  it('never goes back to an older announcement, in any order of loading', async () => {
    const { source } = await started();
    const [second, third] = [await published(2, 'b'), await published(3, 'c')];
    await Promise.all([source.load(newsOf(third)), source.load(newsOf(second))]);
    expect(source.current()?.version).toBe(third.rules);
    expect(await source.load(newsOf(second))).toBe(true);
    expect(source.current()?.version).toBe(third.rules);
  });

  it('keeps its rules while the new version cannot be read, and asks again', async () => {
    const { source, announcement } = await started();
    const unreadable = { sequence: 2, rules: 'f'.repeat(16), callers: announcement.callers };
    expect(await source.load(newsOf(unreadable))).toBe(false);
    expect(await source.load(newsOf('not an announcement'))).toBe(false);
    expect(source.current()?.version).toBe(announcement.rules);
    nowMs += 999;
    expect(source.probe()).toBeUndefined();
    expect(source.isConfirmed(nowMs)).toBe(false);
    nowMs += 1;
    expect(source.probe()?.isOverdue).toBe(true);
  });

  it('does not ask again within a second after a probe without an answer', async () => {
    const { source } = await started();
    nowMs += 500;
    expect(source.probe()?.isOverdue).toBe(true);
    source.fail();
    nowMs += 999;
    expect(source.probe()).toBeUndefined();
    nowMs += 1;
    expect(source.probe()?.isOverdue).toBe(true);
  });

  it('asks again when the clock has been set back', async () => {
    const { source } = await started();
    nowMs -= 3_600_000;
    const probe = source.probe();
    expect(probe?.isOverdue).toBe(true);
    if (probe) source.confirm(probe);
    expect(source.probe()).toBeUndefined();
    nowMs += 500;
    expect(source.probe()?.isOverdue).toBe(true);
  });

  it('reads and compiles new rules once, even if many requests find them at the same time', async () => {
    let reads = 0;
    const get = (name: string) => {
      if (name.startsWith('rules:')) reads += 1;
      return kv.get(name);
    };
    const { source } = await started({ get });
    const next = newsOf(await published(2, 'a', 'b'));
    reads = 0;
    expect(await Promise.all(Array.from({ length: 50 }, () => source.load(next)))).toEqual(
      Array(50).fill(true),
    );
    expect(reads).toBe(1);
  });

  it('loads the rules again if a request that began to load them never finishes', async () => {
    let isStuck = true;
    const get = (name: string) =>
      isStuck && name.startsWith('rules:') ? new Promise<string | null>(() => {}) : kv.get(name);
    isStuck = false;
    const { source } = await started({ get });
    const next = newsOf(await published(2, 'b'));
    isStuck = true;
    void source.load(next);
    isStuck = false;
    const second = source.load(next);
    nowMs += 1_000;
    expect(await second).toBe(true);
  });

  it('keeps its rules while KV fails, and reports it', async () => {
    let fails = false;
    const get = ((name: string) => (fails ? Promise.reject(new Error('KV')) : kv.get(name))) as Kv['get'];
    const { source, announcement } = await started({ get });
    fails = true;
    expect(await source.load(newsOf(await published(2, 'b')))).toBe(false);
    expect(source.current()?.version).toBe(announcement.rules);
    expect(errors).toHaveLength(1);
  });

  it('forgets all callers if the list of changed callers cannot be read', async () => {
    const { source } = await started();
    const next = await published(2, 'b');
    await kv.delete(`callers:${next.callers}`);
    expect(await source.load(newsOf(next))).toBe(true);
    expect(source.callerRevisions()).toEqual({ epoch: next.callers, revisions: {} });
  });
});
