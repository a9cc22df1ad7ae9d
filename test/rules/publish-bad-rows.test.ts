// A bad row never affects the others: the publisher leaves it out, and reports it.
import { describe, expect, it } from 'vitest';
import { usePublishing } from './publish-harness.ts';
import { readRules } from './published.ts';

const { addRule, kv, publishNow, run } = usePublishing();

describe('a bad row that SQL does not refuse is left out and reported:', () => {
  const BAD: [string, Record<string, unknown>, string][] = [
    ['a path of Weir itself', { resource: '/_weir/health' }, 'resource: is under /_weir'],
    ['a * in the middle', { resource: '/a/*/b' }, 'resource: may have a * only at its end'],
    ['an optional parameter', { resource: '/a/:id?' }, 'resource: has ":id?"'],
    ['two parameters of one name', { resource: '/:a/:a' }, 'resource: has two parameters named a'],
    ['a query', { resource: '/a?b=c' }, 'resource: is a path'],
    ['too many segments', { resource: '/x'.repeat(33) }, 'resource: has more than 32 segments'],
    ['an empty method', { methods: [''] }, 'methods.0: must be upper-case letters'],
    ['two methods in one', { methods: ['GET,POST'] }, 'methods.0: must be upper-case letters'],
    ['too many methods', { methods: Array(21).fill('GET') }, 'methods: '],
    ['a tier without a name', { tiers: [''] }, 'tiers.0: '],
    ['a subject that is too long', { subjects: ['x'.repeat(257)] }, 'subjects.0: '],
    ['too many subjects', { subjects: Array(1001).fill('x') }, 'subjects: '],
    [
      'more than can be counted in a window',
      { algorithm: 'gcra', limit: 1e12, window_seconds: 1e5 },
      'limit: is too large for so long a window',
    ],
    [
      'more than can be remembered',
      { algorithm: 'sliding-window-log', limit: 100_001 },
      'limit: sliding-window-log',
    ],
    ['a cost that never fits', { cost: 6 }, 'cost: is more than the limit can ever hold'],
    [
      'shares that regions cannot help each other out with',
      { shares: '{"eu": 1}', count_denied: true },
      'shares: cannot be split over regions that help each other out: a denial is not one before all regions have said no (countDenied)',
    ],
    [
      'a share that is too small for a number',
      { shares: '{"eu": 1e-999}' },
      'shares: must name at least one',
    ],
    ['a share that is too large for one', { shares: '{"eu": 1e999}' }, 'shares.eu: '],
  ];

  it.each(BAD)('%s', async (name, row, problem) => {
    await addRule(name, row);
    await addRule('good');
    const { version, ruleCount, rejected } = await publishNow();
    expect(rejected).toEqual([
      { id: expect.any(String), name, problems: [expect.stringContaining(problem)] },
    ]);
    expect(ruleCount).toBe(1);
    expect(await readRules(kv(), version)).toMatchObject({ ruleCount: 1 });
    await run(`delete from rules where name <> 'good'`);
    expect(await publishNow()).toMatchObject({ version, changed: false });
  });

  it('all bad rows at once, each by its name', async () => {
    for (const [name, row] of BAD) await addRule(name, row);
    await addRule('good');
    const { ruleCount, rejected } = await publishNow();
    expect(ruleCount).toBe(1);
    expect(rejected.map(({ name }) => name).sort()).toEqual(BAD.map(([name]) => name).sort());
  });

  it('a rule whose limit in some tier cannot be counted, until the tier changes', async () => {
    const more = { algorithm: 'sliding-window-log', limit: null, limit_name: 'calls' };
    await run(
      `insert into tiers (name, limits) values ('free', '{"calls": 5}'), ('pro', '{"calls": 100001}')`,
    );
    await addRule('a', more);
    await addRule('b', { ...more, tiers: ['free'] });
    const { ruleCount, rejected } = await publishNow();
    expect([ruleCount, rejected]).toMatchObject([1, [{ name: 'a' }]]);
    expect(rejected[0]?.problems).toEqual([
      'limitName: with the limit of tier pro, sliding-window-log takes a limit of up to 100000',
    ]);
    await run(`update tiers set limits = '{"calls": null}' where name = 'pro'`);
    expect(await publishNow()).toMatchObject({ ruleCount: 2, rejected: [] });
  });

  it('a tier whose limit is a list', async () => {
    await run(`insert into tiers (name, limits) values ('free', '{"calls": [5]}'), ('pro', '{}')`);
    await addRule('a');
    const { ruleCount, rejected } = await publishNow();
    expect([ruleCount, rejected]).toMatchObject([1, [{ name: 'free' }]]);
    expect(rejected[0]?.problems).toEqual([expect.stringContaining('limits.calls: ')]);
  });
});
