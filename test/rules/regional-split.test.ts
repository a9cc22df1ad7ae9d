// How limits are split over regions, as publications record it: what was before is never forgotten too early.
import { describe, expect, it } from 'vitest';
import type { Split } from '../../src/core/rule.ts';
import type { Publication } from '../../src/rules/publish.ts';
import { readRules } from '../../src/rules/snapshot-kv.ts';
import { usePublishing } from './publish-harness.ts';

const { addRule, kv, publishNow, run, standing } = usePublishing();

const stored = async () => (await run('select id, shares, before, updated_at from regional_split')).rows;
const splitOf = async ({ version }: Publication): Promise<Split | undefined> =>
  (await readRules(kv(), version))?.split;
const before = async () => (await stored())[0].before as Split['before'];
const sharesBefore = async () => (await before()).map(({ shares }) => shares);
/** As if all that was replaced had been so long ago. */
const age = (ms: number) =>
  run(
    `update regional_split set before = (select jsonb_agg(entry || jsonb_build_object('replacedAtMs',
      (entry ->> 'replacedAtMs')::bigint - $1::bigint)) from jsonb_array_elements(before) entry)`,
    [ms],
  );

describe('the first publication', () => {
  it('writes the shares as configured, with nothing before', async () => {
    const publication = await publishNow({ eu: 2, us: 0.5 });
    expect(await stored()).toMatchObject([{ id: 1, shares: { eu: 2, us: 0.5 }, before: [] }]);
    expect(await splitOf(publication)).toEqual({ shares: { eu: 2, us: 0.5 }, before: [] });
  });
});

describe('a publication', () => {
  it('with the same shares keeps the row, and is the same one', async () => {
    await addRule('a');
    const { version } = await publishNow({ eu: 2 });
    const row = await stored();
    expect(await publishNow({ eu: 2 })).toMatchObject({ version, changed: false });
    expect(await stored()).toEqual(row);
  });

  it('with other shares is another one, and keeps what was before, with the moment', async () => {
    const first = await publishNow({ eu: 2 });
    const fromMs = Date.now();
    const second = await publishNow({ eu: 3 });
    const toMs = Date.now();
    expect(second).toMatchObject({ changed: true });
    expect(second.version).not.toBe(first.version);
    const split = await splitOf(second);
    expect(split).toEqual({
      shares: { eu: 3, us: 1 },
      before: [{ shares: { eu: 2, us: 1 }, replacedAtMs: expect.any(Number) }],
    });
    expect(split?.before[0]?.replacedAtMs).toBeGreaterThanOrEqual(fromMs);
    expect(split?.before[0]?.replacedAtMs).toBeLessThanOrEqual(toMs);
  });

  it('puts central rules, shares and how they were placed into the snapshot', async () => {
    await addRule('a', { shares: '{"eu": 1}', spill: false });
    await addRule('b', { central: true });
    await run(`update rules set shares = '{"us": 1}' where name = 'a'`);
    const { version, rejected } = await publishNow();
    expect(rejected).toEqual([]);
    const { rules } = JSON.parse((await kv().get(`rules:${version}`)) ?? '');
    const placedBefore = [{ shares: { eu: 1 }, central: false, replacedAtMs: expect.any(Number) }];
    expect(rules).toMatchObject([{ shares: { us: 1 }, spill: false, placedBefore }, { central: true }]);
    expect(Object.keys(rules[0])).not.toContain('central');
    for (const field of ['placedBefore', 'shares', 'spill'])
      expect(Object.keys(rules[1])).not.toContain(field);
    const snapshot = await readRules(kv(), version);
    const caller = { ip: '192.0.2.1', address: '192.0.2.1' };
    const ruleAt = (matchPath: string) => snapshot?.match({ matchPath, method: 'GET', caller })[0]?.rule;
    expect(ruleAt('/a')).toMatchObject({ shares: { us: 1 }, spill: false, central: false, placedBefore });
    expect(ruleAt('/b')).toMatchObject({ shares: null, spill: true, central: true, placedBefore: [] });
  });

  it('warns of shares for a region that does not exist, and publishes the rule', async () => {
    await addRule('a', { shares: '{"eu": 1, "mars": 1}' });
    expect(await publishNow()).toMatchObject({
      ruleCount: 1,
      rejected: [],
      warnings: [{ message: '"a" has shares for regions that do not exist: mars. They are ignored.' }],
    });
  });
});

describe('what was before', () => {
  it('goes with the next change when no rule counts it any more', async () => {
    await addRule('a', { window_seconds: 60 });
    await addRule('b', { window_seconds: 600, enabled: false });
    await publishNow({ eu: 2 });
    await publishNow({ eu: 3 });
    await age(2 * 600_000 + 180_000 - 10_000);
    await publishNow({ eu: 4 });
    expect(await sharesBefore()).toEqual([
      { eu: 2, us: 1 },
      { eu: 3, us: 1 },
    ]);
    await age(10_001);
    expect(await publishNow({ eu: 4 })).toMatchObject({ rejected: [] });
    expect(await sharesBefore()).toHaveLength(2);
    await publishNow({ eu: 5 });
    expect(await sharesBefore()).toEqual([
      { eu: 3, us: 1 },
      { eu: 4, us: 1 },
    ]);
  });

  it('is at most ten, the latest', async () => {
    for (let eu = 1; eu <= 13; eu++) await publishNow({ eu });
    expect(await sharesBefore()).toEqual(Array.from({ length: 10 }, (_, i) => ({ eu: i + 3, us: 1 })));
  });
});

describe('two isolates with different shares that publish in turn', () => {
  it('each win when they publish, and push nothing out that was before', async () => {
    await publishNow({ eu: 9 });
    for (let turn = 0; turn < 12; turn++) {
      const eu = 1 + (turn % 2);
      const { version } = await publishNow({ eu });
      expect((await standing())[0]?.rules).toBe(version);
      expect((await readRules(kv(), version))?.split?.shares).toEqual({ eu, us: 1 });
    }
    expect(await sharesBefore()).toEqual([
      { eu: 9, us: 1 },
      { eu: 2, us: 1 },
      { eu: 1, us: 1 },
    ]);
    const atMs = (await before()).map(({ replacedAtMs }) => replacedAtMs);
    expect(atMs).toEqual(atMs.toSorted((a, b) => a - b));
  });

  it('at once leave one of both in force, with the other one before it', async () => {
    await publishNow({ eu: 9 });
    await Promise.all([publishNow({ eu: 1 }), publishNow({ eu: 2 })]);
    const [{ shares }] = await stored();
    const announced = (await standing())[0]?.rules ?? '';
    expect((await readRules(kv(), announced))?.split?.shares).toEqual(shares);
    expect(await sharesBefore()).toEqual([
      { eu: 9, us: 1 },
      { eu: shares.eu === 1 ? 2 : 1, us: 1 },
    ]);
  });
});
