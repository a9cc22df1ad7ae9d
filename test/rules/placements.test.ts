// How publications record the placement of rules over regions: a former placement ends only when every region knows the
// new one.
import { describe, expect, it } from 'vitest';
import type { Split } from '../../src/core/matching/rule.ts';
import type { Publication } from '../../src/rules/publishing/publish.ts';
import { usePublishing } from './publish-harness.ts';
import { readRules } from './published.ts';

const { addRule, before: steps, kv, publishNow, run, standing } = usePublishing();

const splitOf = async ({ version }: Publication): Promise<Split | undefined> =>
  (await readRules(kv(), version))?.split;
const idOf = async (name: string): Promise<string> =>
  (await run('select id from rules where name = $1', [name])).rows[0].id;
const change = (name: string, set: string) => run(`update rules set ${set} where name = $1`, [name]);
/** The former placements of a rule in the publication, without their times. */
const movedIn = async (publication: Publication, name: string) =>
  (await splitOf(publication))?.moved?.[await idOf(name)]?.map(({ shares, central }) => ({
    shares,
    central,
  }));
const sharesBefore = async (publication: Publication) =>
  (await splitOf(publication))?.before.map(({ shares }) => shares);
const failAt = (what: string) => {
  steps.step = async (step) => {
    if (step === what) throw new Error('down');
  };
};

const SPLIT = { shares: null, central: false };
const CENTRAL = { shares: null, central: true };

describe('the first publication', () => {
  it('records how REGIONS splits limits, without former shares', async () => {
    await addRule('a');
    expect(await splitOf(await publishNow({ eu: 2, us: 0.5 }))).toEqual({
      shares: { eu: 2, us: 0.5 },
      before: [],
    });
  });
});

describe('a placement', () => {
  it('is checked again only if its rule has changed, and keeps its date if it is the same', async () => {
    await addRule('a');
    await publishNow();
    const stamps = async () =>
      (
        await run(
          `select p.revision = r.revision as same, p.updated_at from placements p join rules r on p.id = r.id::text`,
        )
      ).rows[0];
    const { updated_at: before, ...first } = await stamps();
    expect(first).toEqual({ same: true });
    await change('a', '"limit" = 77');
    expect((await stamps()).same).toBe(false);
    await publishNow();
    expect(await stamps()).toEqual({ same: true, updated_at: before });
  });
});

describe('a change of placement', () => {
  it('is published with the former placement, and with the moment at which every region knew the new one', async () => {
    await addRule('a');
    await publishNow();
    const fromMs = Date.now();
    await change('a', 'central = true');
    const publication = await publishNow();
    const toMs = Date.now();
    expect(publication).toMatchObject({ changed: true });
    expect(await movedIn(publication, 'a')).toEqual([SPLIT]);
    const [before] = (await splitOf(publication))?.moved?.[await idOf('a')] ?? [];
    expect(before?.replacedAtMs).toBeGreaterThanOrEqual(fromMs);
    expect(before?.replacedAtMs).toBeLessThanOrEqual(toMs);
  });

  it.each([
    ['shares = \'{"eu": 1}\'', SPLIT],
    ['central = true', SPLIT],
    ['count_denied = true', SPLIT],
    ['block_seconds = 5', SPLIT],
    ['cost_from_origin = true', SPLIT],
    [`action = 'throttle', algorithm = 'leaky-bucket'`, SPLIT],
    [`algorithm = 'concurrency'`, SPLIT],
  ])('is noticed for every field that can cause it: %s', async (set, expected) => {
    await addRule('a');
    await publishNow();
    await change('a', set);
    expect(await movedIn(await publishNow(), 'a')).toEqual([expected]);
  });

  it('does not happen if a changed field leaves the rule where it is counted', async () => {
    await addRule('a', { central: true });
    await publishNow();
    await change('a', '"limit" = 7, count_denied = true');
    expect(await movedIn(await publishNow(), 'a')).toBeUndefined();
  });

  it('back and forth lists each former placement once', async () => {
    await addRule('a');
    await publishNow();
    for (const central of [true, false, true]) {
      await change('a', `central = ${central}`);
      await publishNow();
    }
    const publication = await publishNow();
    expect(await movedIn(publication, 'a')).toEqual([SPLIT]);
    await change('a', 'central = false');
    expect(await movedIn(await publishNow(), 'a')).toEqual([CENTRAL]);
  });

  it('has no end until every region has the announcement', async () => {
    await addRule('a');
    await publishNow();
    await change('a', 'central = true');
    failAt('write us');
    const first = await publishNow();
    expect(first.regions).toContainEqual(expect.objectContaining({ name: 'us', announced: false }));
    const untold = (await splitOf(first))?.moved?.[await idOf('a')];
    expect(untold).toEqual([{ ...SPLIT, replacedAtMs: null }]);
    expect((await splitOf(await publishNow()))?.moved?.[await idOf('a')]).toEqual(untold);
    steps.step = async () => undefined;
    const fromMs = Date.now();
    const [told] = (await splitOf(await publishNow()))?.moved?.[await idOf('a')] ?? [];
    expect(told?.replacedAtMs).toBeGreaterThanOrEqual(fromMs);
  });
});

describe('new shares in REGIONS', () => {
  it('are a new publication, which lists the former shares', async () => {
    await publishNow({ eu: 2 });
    const second = await publishNow({ eu: 3 });
    expect(second).toMatchObject({ changed: true });
    expect(await splitOf(second)).toEqual({
      shares: { eu: 3, us: 1 },
      before: [{ shares: { eu: 2, us: 1 }, replacedAtMs: expect.any(Number) }],
    });
    expect(await publishNow({ eu: 3 })).toMatchObject({ version: second.version, changed: false });
  });

  it('from two isolates that publish in turn do not push out earlier shares', async () => {
    await publishNow({ eu: 9 });
    let last: Publication | undefined;
    for (let turn = 0; turn < 6; turn++) last = await publishNow({ eu: 1 + (turn % 2) });
    expect((await standing())[0]?.rules).toBe(last?.version);
    expect(last && (await sharesBefore(last))).toEqual([
      { eu: 9, us: 1 },
      { eu: 1, us: 1 },
    ]);
  });

  it('from two isolates at once leave one in force, and list the other as former', async () => {
    await publishNow({ eu: 9 });
    await Promise.all([publishNow({ eu: 1 }), publishNow({ eu: 2 })]);
    const announced = (await standing())[0]?.rules ?? '';
    const split = (await readRules(kv(), announced))?.split;
    expect(split?.before.map(({ shares }) => shares)).toEqual([
      { eu: 9, us: 1 },
      { eu: split?.shares['eu'] === 1 ? 2 : 1, us: 1 },
    ]);
  });

  it('list at most ten former shares, the latest', async () => {
    let last: Publication | undefined;
    for (let eu = 1; eu <= 13; eu++) last = await publishNow({ eu });
    expect(last && (await sharesBefore(last))).toEqual(
      Array.from({ length: 10 }, (_, i) => ({ eu: i + 3, us: 1 })),
    );
  });
});

it('shares for a region that does not exist cause a warning, and the rule is published', async () => {
  await addRule('a', { shares: '{"eu": 1, "mars": 1}' });
  expect(await publishNow()).toMatchObject({
    ruleCount: 1,
    rejected: [],
    warnings: [{ message: '"a" has shares for regions that do not exist: mars. They are ignored.' }],
  });
});
