// The second source of published rules: KV may not have them everywhere yet, but the region that announces them does.
// On a real KV that can lack, lose or damage keys, and a real Redis.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { publishedKey } from '../../src/core/counting/keys.ts';
import { packText } from '../../src/core/digest.ts';
import { encodeSnapshot } from '../../src/core/matching/stored-snapshot.ts';
import { formatAnnouncement } from '../../src/core/ports/region.ts';
import type { Kv } from '../../src/rules/edge/published.ts';
import { createSnapshotSource } from '../../src/rules/edge/snapshot-source.ts';
import { copyTo, MAX_PACKED, publishedText, writeCurrent } from '../../src/rules/publishing/copies.ts';
import { startKv, type TestKv } from './kv.ts';
import { type Region, startRegion } from './publish-harness.ts';
import { createPublished, keyOf, type Published, writeCallers, writeRules } from './published.ts';

let testKv: TestKv;
let kv: TestKv['kv'];
let region: Region;
beforeAll(async () => {
  [testKv, region] = [await startKv(), await startRegion('eu')];
  kv = testKv.kv;
});
afterAll(async () => {
  await region?.stop();
  await testKv?.[Symbol.asyncDispose]();
});

/** How long snapshot-source.ts waits for KV before it asks the region. */
const KV_WAIT_MS = 1_000;
const PATIENT_MS = 60_000;
const { timeout } = AbortSignal;
/** Isolates give up on a KV after this time. No other call times out, however busy the machine is. */
const giveUpKvAfter = (kvMs: number) =>
  vi.spyOn(AbortSignal, 'timeout').mockImplementation((ms) => timeout(ms === KV_WAIT_MS ? kvMs : PATIENT_MS));

let errors: unknown[];
const onError = (error: unknown) => void errors.push(error);
beforeEach(async () => {
  giveUpKvAfter(PATIENT_MS);
  errors = [];
  await region.clear();
  for (const { name } of (await kv.list({ prefix: '' })).keys) await kv.delete(name);
});
afterEach(() => vi.restoreAllMocks());

/** Publishes rules that the region announces and has a copy of, but that KV lacks. */
async function publishWithoutKv(sequence: number, ...ids: string[]): Promise<Published> {
  const published = await createPublished(sequence, ids);
  await copyTo(region.pointer, published.parts, { known: undefined, again: false, onError });
  await region.put(published.announcement);
  return published;
}
const putInKv = async ({ announcement, texts }: Published) => {
  await writeRules(kv, announcement.rules, texts.rules);
  await writeCallers(kv, announcement.callers, texts.callers);
};

/** An isolate that has rule `a`, from KV. */
async function started(through: Partial<Kv> = {}) {
  const get: Kv['get'] = (name) => (through.get ?? ((key) => kv.get(key)))(name);
  const now = () => Date.now();
  const source = createSnapshotSource({ kv: { get, put: kv.put.bind(kv) }, now, onError });
  const first = await publishWithoutKv(1, 'a');
  await putInKv(first);
  await source.start(region.pointer);
  return { source, first };
}
const newsOf = ({ announcement }: Published) => ({
  announced: formatAnnouncement(announcement),
  pointer: region.pointer,
});
const redis = (command: string, ...args: string[]) =>
  fetch(region.gateway.url, {
    method: 'POST',
    headers: { Authorization: 'Bearer token' },
    body: JSON.stringify([command, ...args]),
  }).then(async (answer) => ((await answer.json()) as { result: unknown }).result);
describe('news', () => {
  it('that KV does not have yet is read from the region that announced it: rules and callers', async () => {
    const { source } = await started();
    const next = await publishWithoutKv(2, 'a', 'b');
    expect(await source.load(newsOf(next))).toBe(true);
    expect(source.current()).toMatchObject({ version: next.announcement.rules, ruleCount: 2 });
    expect(source.callerRevisions().revisions).toEqual({ 'key:k': '2' });
    expect(errors).toEqual([]);
  });

  it('that KV does not have yet costs one command of Redis, in one request', async () => {
    const { source } = await started();
    const next = await publishWithoutKv(2, 'b');
    const before = await region.gateway.stats();
    await source.load(newsOf(next));
    const { billed, requests } = await region.gateway.stats();
    expect([billed - before.billed, requests - before.requests]).toEqual([1, 1]);
  });

  it('that KV has costs no call', async () => {
    const { source } = await started();
    const next = await publishWithoutKv(2, 'b');
    await putInKv(next);
    const before = await region.gateway.stats();
    expect(await source.load(newsOf(next))).toBe(true);
    expect((await region.gateway.stats()).requests).toBe(before.requests);
  });

  it('is read from the region only for the part that KV lacks', async () => {
    const { source } = await started();
    const next = await publishWithoutKv(2, 'b');
    await writeRules(kv, next.announcement.rules, next.texts.rules);
    const asked = vi.spyOn(region.pointer, 'readPublished');
    expect(await source.load(newsOf(next))).toBe(true);
    expect(asked.mock.calls.map(([parts]) => parts)).toEqual([
      [{ kind: 'callers', version: next.announcement.callers }],
    ]);
    expect(source.callerRevisions().revisions).toEqual({ 'key:k': '2' });
  });

  it.each([
    ['fails', () => Promise.reject(new Error('KV is down'))],
    ['is damaged', async () => '<html>not what you asked for</html>'],
    ['has other rules', async () => encodeSnapshot({ rules: [], tiers: [], lists: [] })],
  ])('is read from the region if KV %s', async (_, broken) => {
    let isBroken = false;
    const { source } = await started({ get: (name) => (isBroken ? broken() : kv.get(name)) });
    const next = await publishWithoutKv(2, 'b');
    await putInKv(next);
    isBroken = true;
    expect(await source.load(newsOf(next))).toBe(true);
    expect(source.current()?.version).toBe(next.announcement.rules);
  });

  it('is read from the region if KV does not answer for a second', async () => {
    let isStuck = false;
    const { source } = await started({ get: (name) => (isStuck ? new Promise(() => {}) : kv.get(name)) });
    const next = await publishWithoutKv(2, 'b');
    isStuck = true;
    giveUpKvAfter(50);
    expect(await source.load(newsOf(next))).toBe(true);
    expect(source.current()?.version).toBe(next.announcement.rules);
    expect(errors).toHaveLength(1);
  });
});

it('news that only KV has is read from there, however long that takes', async () => {
  let isSlow = false;
  const slowly = (name: string) => new Promise<void>((done) => setTimeout(done, 50)).then(() => kv.get(name));
  const { source } = await started({ get: (name) => (isSlow ? slowly(name) : kv.get(name)) });
  const next = await publishWithoutKv(2, 'b');
  await putInKv(next);
  await redis('DEL', keyOf(next, 'rules'));
  isSlow = true;
  giveUpKvAfter(1);
  expect(await source.load(newsOf(next))).toBe(true);
  expect(source.current()?.version).toBe(next.announcement.rules);
});

describe('news that neither KV nor the region has', () => {
  const damage: readonly (readonly [string, (next: Published) => Promise<unknown>])[] = [
    ['gone', (next) => redis('DEL', keyOf(next, 'rules'))],
    ['not packed', (next) => redis('SET', keyOf(next, 'rules'), '{"format":1}')],
    [
      'cut off',
      async (next) => redis('SET', keyOf(next, 'rules'), (await packText(next.texts.rules)).slice(0, 40)),
    ],
    [
      'something else',
      async (next) => redis('SET', keyOf(next, 'rules'), await packText('{"format":1,"rules":[]}')),
    ],
    [
      'a list',
      async (next) => [
        await redis('DEL', keyOf(next, 'rules')),
        await redis('LPUSH', keyOf(next, 'rules'), 'x'),
      ],
    ],
  ];

  it.each(damage)('leaves the rules as they are: the copy is %s', async (_, spoil) => {
    const { source, first } = await started();
    const next = await publishWithoutKv(2, 'b');
    await spoil(next);
    await writeCallers(kv, next.announcement.callers, next.texts.callers);
    expect(await source.load(newsOf(next))).toBe(false);
    expect(source.current()?.version).toBe(first.announcement.rules);
    expect(source.announced()).toBe(formatAnnouncement(first.announcement));
  });

  it('leaves the rules as they are if both KV and the copy are damaged', async () => {
    const { source, first } = await started();
    const next = await publishWithoutKv(2, 'b');
    await writeRules(kv, next.announcement.rules, 'garbage');
    await redis('SET', keyOf(next, 'rules'), 'garbage');
    expect(await source.load(newsOf(next))).toBe(false);
    expect(source.current()?.version).toBe(first.announcement.rules);
  });

  it('leaves rules and callers as they are if both KV and the region fail', async () => {
    let isBroken = false;
    const get: Kv['get'] = (name) => (isBroken ? Promise.reject(new Error('KV')) : kv.get(name));
    const { source } = await started({ get });
    const next = await publishWithoutKv(2, 'a');
    isBroken = true;
    await region.gateway.faults.set({ status: 500 });
    expect(await source.load(newsOf(next))).toBe(false);
    await region.gateway.faults.clear();
    expect(source.callerRevisions().revisions).toEqual({ 'key:k': '1' });
    expect(errors).toHaveLength(2);
  });

  it('is loaded once KV has it', async () => {
    const { source } = await started();
    const next = await publishWithoutKv(2, 'b');
    await redis('DEL', keyOf(next, 'rules'));
    expect(await source.load(newsOf(next))).toBe(false);
    await putInKv(next);
    expect(await source.load(newsOf(next))).toBe(true);
  });
});

describe('a cold isolate', () => {
  const cold = (get: Kv['get'] = (name) => kv.get(name)) =>
    createSnapshotSource({ kv: { get, put: kv.put.bind(kv) }, now: () => Date.now(), onError });

  it('starts from the region alone while KV has nothing', async () => {
    const { announcement } = await publishWithoutKv(1, 'a');
    expect(await cold().start(region.pointer)).toMatchObject({ version: announcement.rules });
  });

  it('starts from the region alone while KV fails, or hangs', async () => {
    giveUpKvAfter(50);
    const { announcement } = await publishWithoutKv(1, 'a');
    for (const get of [() => Promise.reject(new Error('KV')), () => new Promise<never>(() => {})])
      expect(await cold(get).start(region.pointer)).toMatchObject({ version: announcement.rules });
  });

  it('starts as soon as KV has the announced parts, if the region has no copy', async () => {
    const published = await publishWithoutKv(1, 'a');
    for (const kind of ['rules', 'callers'] as const) await redis('DEL', keyOf(published, kind));
    let nowMs = Date.now();
    const source = createSnapshotSource({ kv, now: () => nowMs, onError });
    expect(await source.start(region.pointer)).toBeUndefined();
    await putInKv(published);
    nowMs += 500;
    expect(await source.start(region.pointer)).toMatchObject({ version: published.announcement.rules });
  });

  it('reads the copies once, even if KV names the same rules', async () => {
    const { announcement } = await publishWithoutKv(1, 'a');
    await writeCurrent(kv, announcement);
    for (const kind of ['rules', 'callers'] as const)
      await redis('DEL', publishedKey({ kind, version: announcement[kind] }));
    const asked = vi.spyOn(region.pointer, 'readPublished');
    expect(await cold().start(region.pointer)).toBeUndefined();
    expect(asked).toHaveBeenCalledOnce();
  });
});

describe('a copy', () => {
  it('expires three days after it was written', async () => {
    const published = await publishWithoutKv(1, 'a');
    for (const kind of ['rules', 'callers'] as const) {
      const ttlMs = Number(await redis('PTTL', keyOf(published, kind)));
      expect(ttlMs).toBeGreaterThan(3 * 86_000_000);
      expect(ttlMs).toBeLessThanOrEqual(3 * 86_400_000);
    }
  });

  it('of both parts is one request of two commands', async () => {
    const before = await region.gateway.stats();
    await publishWithoutKv(1, 'a');
    const { billed, requests } = await region.gateway.stats();
    // The announcement is a script of three commands, in its own request.
    expect([billed - before.billed, requests - before.requests]).toEqual([2 + 3, 2]);
  });

  it('that is too large is not made, and this is reported; the other part is copied', async () => {
    const noise = Array.from({ length: MAX_PACKED / 8 }, () => Math.random().toString(36).slice(2, 12)).join(
      '',
    );
    const parts = [
      publishedText({ kind: 'rules', version: 'large' }, noise),
      publishedText({ kind: 'callers', version: 'small' }, 'text'),
    ];
    await copyTo(region.pointer, parts, { known: undefined, again: false, onError });
    expect(errors).toMatchObject([{ message: expect.stringContaining('too large') }]);
    expect(await redis('EXISTS', publishedKey({ kind: 'rules', version: 'large' }))).toBe(0);
    expect(await redis('EXISTS', publishedKey({ kind: 'callers', version: 'small' }))).toBe(1);
  });

  it('shows nothing of its content when writing it fails', async () => {
    await region.gateway.faults.set({ status: 500 });
    await publishWithoutKv(1, 'a').catch(() => {});
    await region.gateway.faults.clear();
    expect(String((errors[0] as Error).message)).toBe('the command failed');
  });
});
