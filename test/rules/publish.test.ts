// What is published, and what happens when a part fails.
import { describe, expect, it } from 'vitest';
import { formatAnnouncement } from '../../src/core/ports/announcement.ts';
import { CounterStoreError } from '../../src/core/ports/counter-store.ts';
import { readCallers, readCurrent, readRules } from '../../src/rules/book/snapshot-kv.ts';
import { publish } from '../../src/rules/publishing/publish.ts';
import { type Step, usePublishing } from './publish-harness.ts';

const { before, copies, createOptions, errors, hanging, keys, publishNow, run, standing, writes, ...world } =
  usePublishing();
const { addRule, failed, kv, regions } = world;

const EVERYWHERE = ['eu', 'us'].map((name) => ({ name, announced: true }));
const failAt = (...steps: Step[]) => {
  before.step = async (step) => {
    if (steps.includes(step)) throw new Error(`fails: ${step}`);
  };
};
const succeed = () => {
  before.step = async () => undefined;
};

describe('a publication', () => {
  it('is in KV, announced in every region, and named by KV itself', async () => {
    await addRule('a');
    await run(`insert into users (id) values ('ann')`);
    const { version, ...told } = await publishNow();
    expect(told).toEqual({ changed: true, ruleCount: 1, rejected: [], warnings: [], regions: EVERYWHERE });
    const [eu, us] = await standing();
    expect(eu).toMatchObject({ rules: version });
    expect(us).toEqual(eu);
    expect(await readCurrent(kv())).toEqual(eu);
    expect(await readRules(kv(), version)).toMatchObject({ version, ruleCount: 1 });
    const callers = await readCallers(kv(), eu?.callers ?? '');
    expect(Object.keys(callers?.revisions ?? {})).toEqual(['user:ann']);
    expect(errors).toEqual([]);
  });

  it('of no rules is one too', async () => {
    const { version, ruleCount } = await publishNow();
    expect(ruleCount).toBe(0);
    expect(await readRules(kv(), version)).toMatchObject({ ruleCount: 0 });
  });

  it('tells of rules that are hardly meant', async () => {
    await addRule('a', { resource: '/same' });
    await addRule('b', { resource: '/same' });
    expect((await publishNow()).warnings).toMatchObject([
      { message: expect.stringContaining('never applies') },
    ]);
  });

  it('of the same rules is the same one, and is not written again', async () => {
    await addRule('a');
    const options = createOptions();
    const first = await publish(options);
    const [announced] = await standing();
    for (const again of [options, createOptions()]) {
      writes.length = 0;
      expect(await publish(again)).toEqual({ ...first, changed: false });
      expect(writes).toEqual(['current']);
    }
    const [latest] = await standing();
    expect(latest).toEqual({ ...announced, sequence: (announced?.sequence ?? 0) + 2 });

    await run('update rules set enabled = false');
    expect((await publish(options)).version).not.toBe(first.version);
    await run('update rules set enabled = true');
    expect((await publish(options)).version).toBe(first.version);
  });

  it('is written again if that is asked for, though it is the same one', async () => {
    await addRule('a');
    const { version } = await publishNow();
    for (const name of await keys()) await kv().delete(name);
    expect(await publish(createOptions())).toMatchObject({ version, changed: false });
    expect(await readRules(kv(), version)).toBeUndefined();
    expect(await publish(createOptions(), { again: true })).toMatchObject({ version, changed: false });
    const [announced] = await standing();
    expect((await keys()).sort()).toEqual([`callers:${announced?.callers}`, 'current', `rules:${version}`]);
  });

  it('goes from KV by itself a month after it was last written', async () => {
    await publishNow();
    const DAY_SECONDS = 86_400;
    const monthAway = Date.now() / 1000 + 30 * DAY_SECONDS;
    for (const { name, expiration } of (await kv().list({ prefix: '' })).keys)
      if (name === 'current') expect(expiration).toBeUndefined();
      else expect(Math.abs((expiration ?? 0) - monthAway)).toBeLessThan(DAY_SECONDS);
  });

  it('of changed callers does not write the rules again', async () => {
    await addRule('a');
    const { version } = await publishNow();
    const [earlier] = await standing();
    writes.length = 0;
    await run(`insert into users (id) values ('ann')`);
    expect(await publishNow()).toMatchObject({ version, changed: false });
    const [announced] = await standing();
    expect(announced?.callers).not.toBe(earlier?.callers);
    expect(writes.sort()).toEqual([`callers:${announced?.callers}`, 'current']);
  });
});

describe('rules that are too large together, as a migration can make them', () => {
  it('are not published: the rules in force stay in force, and that is said', async () => {
    await addRule('a');
    await publishNow();
    const [known, kept] = [await standing(), await keys()];
    await run(`insert into rules (resource, scope, algorithm, "limit", window_seconds, subjects)
      select '/' || rule, 'user', 'gcra', 1, 1, array(select repeat('x', 250) || i from generate_series(1, 999) i)
      from generate_series(1, 34) rule`);
    await expect(publishNow()).rejects.toThrow(
      /^All rules, tiers and lists together take 8\.\d+ MiB, and at most 8 MiB can be published$/,
    );
    expect([await standing(), await keys()]).toEqual([known, kept]);
    await run(`delete from rules where resource = '/34' or resource = '/33'`);
    expect(await publishNow()).toMatchObject({ ruleCount: 33, regions: EVERYWHERE });
  });
});

describe('a region', () => {
  it.each<[string, Step[], number]>([
    ['cannot be read', ['read us'], 1],
    ['cannot be written', ['write us'], 1],
    ['cannot be reached at all', ['read us', 'write us'], 2],
  ])('that %s keeps no other one from being told', async (_, steps, failures) => {
    await addRule('a');
    failAt(...steps);
    const { version, regions: told } = await publishNow();
    const announced = !steps.includes('write us');
    expect(told).toEqual([
      { name: 'eu', announced: true },
      { name: 'us', announced },
    ]);
    const [eu, us] = await standing();
    expect(eu).toMatchObject({ rules: version });
    expect(us).toEqual(announced ? eu : undefined);
    expect([errors.length, new Set(failed)]).toEqual([failures, new Set(['us'])]);

    succeed();
    expect(await publishNow()).toMatchObject({ version, changed: false, regions: EVERYWHERE });
  });

  it.each([{ status: 500 }, { garbage: true }, { refuse: true }, { hang: true }])(
    'whose Redis does this is not told: %j',
    async (fault) => {
      await addRule('a');
      const [, us] = regions();
      await us?.gateway.faults.set(fault);
      if ('hang' in fault) hanging.name = 'us';
      const told = (await publishNow()).regions;
      await us?.gateway.faults.clear();
      delete hanging.name;
      expect(told).toEqual([
        { name: 'eu', announced: true },
        { name: 'us', announced: false },
      ]);
      expect(errors).toHaveLength(2);
      expect((await publishNow()).regions).toEqual(EVERYWHERE);
    },
  );

  it.each([
    [
      "ERR Error running script: @user_script:12: attempt to call a nil value stack traceback: [G]: in function 'call'",
      'ERR Error running script: @user_script:12: attempt to call a nil value',
    ],
    [
      "ERR @user_script line:2(column:7) near 'local': syntax error",
      "ERR @user_script line:2(column:7) near 'local': syntax error",
    ],
  ])(
    'that cannot run the script is told nothing, and what its server said is told: %s',
    async (said, problem) => {
      await addRule('a');
      await publishNow();
      const [, before] = await standing();
      await addRule('b');
      const [, us] = regions();
      await us?.gateway.faults.set({ scriptError: said });
      const { version, regions: told } = await publishNow();
      expect(told).toEqual([
        { name: 'eu', announced: true },
        { name: 'us', announced: false, problem },
      ]);
      expect(errors).toMatchObject([{ failure: 'script-failed', message: problem }]);
      expect(failed).toEqual(['us']);
      const [inEu, inUs] = await standing();
      expect([inEu?.rules, inUs]).toEqual([version, before]);

      await us?.gateway.faults.clear();
      expect(await publishNow()).toMatchObject({ version, regions: EVERYWHERE });
    },
  );

  it('that cannot run the script is told nothing, though it could be', async () => {
    before.step = async (step) => {
      if (step === 'probe us') throw new CounterStoreError('script-failed', 'ERR x');
    };
    const { version, regions: told } = await publishNow();
    expect(told).toEqual([
      { name: 'eu', announced: true },
      { name: 'us', announced: false, problem: 'ERR x' },
    ]);
    const [eu, us] = await standing();
    expect([eu?.rules, us]).toEqual([version, undefined]);
  });

  it('that can run the script, but not the one that announces, is not told either', async () => {
    before.step = async (step) => {
      if (step === 'write us') throw new CounterStoreError('script-failed', 'ERR x');
    };
    expect((await publishNow()).regions).toEqual([
      { name: 'eu', announced: true },
      { name: 'us', announced: false, problem: 'ERR x' },
    ]);
    expect([errors.length, failed]).toEqual([1, ['us']]);
  });

  it('that was slow to say whether it runs the script is told', async () => {
    before.step = async (step) => {
      if (step === 'probe us') throw new CounterStoreError('timeout', 'x');
    };
    expect((await publishNow()).regions).toEqual(EVERYWHERE);
    expect(errors).toEqual([]);
  });

  it('is told, and the mistake too, if Weir itself fails to find out whether it runs the script', async () => {
    failAt('probe us');
    expect((await publishNow()).regions).toEqual(EVERYWHERE);
    expect([errors, failed]).toEqual([[new Error('fails: probe us')], ['us']]);
  });

  it('that has something else there is told as if it had nothing', async () => {
    await addRule('a');
    const [eu, us] = regions();
    for (const region of [eu, us]) await region?.putText('what is this');
    const { version, changed } = await publishNow();
    expect([changed, (await standing()).map((known) => known?.rules)]).toEqual([true, [version, version]]);
  });

  it('is not needed: without any, all that is published is in KV', async () => {
    await addRule('a');
    failAt('read eu', 'read us', 'write eu', 'write us');
    const { version, changed, regions: told } = await publishNow();
    expect(changed).toBe(true);
    expect(told.map(({ announced }) => announced)).toEqual([false, false]);
    expect(await readCurrent(kv())).toMatchObject({ rules: version });
    expect(await readRules(kv(), version)).toMatchObject({ ruleCount: 1 });
  });
});

describe('the copy in a region', () => {
  const steps = () => {
    const taken: string[] = [];
    before.step = async (step) => void taken.push(step);
    return taken;
  };

  it('is there before the region announces it', async () => {
    await addRule('a');
    const taken = steps();
    const { version } = await publishNow();
    for (const name of ['eu', 'us'])
      expect(taken.indexOf(`copy ${name}`)).toBeLessThan(taken.indexOf(`write ${name}`));
    const [announced] = await standing();
    const both = [`rules:${version}`, `callers:${announced?.callers}`];
    expect(copies).toEqual(['eu', 'us'].flatMap((name) => both.map((part) => `${name} ${part}`)));
  });

  it('is made of what has changed there, and of nothing else', async () => {
    await addRule('a');
    await publishNow();
    copies.length = 0;
    await publishNow();
    expect(copies).toEqual([]);
    await run(`insert into users (id) values ('ann')`);
    await publishNow();
    const [announced] = await standing();
    expect(copies).toEqual(['eu', 'us'].map((name) => `${name} callers:${announced?.callers}`));
    copies.length = 0;
    await publish(createOptions(), { again: true });
    expect(copies).toHaveLength(4);
  });

  it('that cannot be made keeps nothing from being announced, and is made with the next day', async () => {
    await addRule('a');
    failAt('copy us');
    expect((await publishNow()).regions).toEqual(EVERYWHERE);
    expect(errors).toMatchObject([{ message: 'fails: copy us' }]);
    succeed();
    await publish(createOptions(), { again: true });
    expect(copies.filter((copy) => copy.startsWith('us'))).toHaveLength(2);
  });

  it('is not sent to a region that does not answer', async () => {
    await addRule('a');
    failAt('read us', 'write us');
    await publishNow();
    expect(copies.filter((copy) => copy.startsWith('us'))).toEqual([]);
  });
});

describe('KV', () => {
  it('that refuses the small key, which takes one write a second, keeps nothing from being published', async () => {
    await addRule('a');
    failAt('put current');
    const { version, regions: told } = await publishNow();
    expect(told).toEqual(EVERYWHERE);
    expect((await standing())[0]).toMatchObject({ rules: version });
    expect(errors).toMatchObject([{ message: 'fails: put current' }]);
    expect(await readCurrent(kv())).toBeUndefined();
    succeed();
    await publishNow();
    expect(await readCurrent(kv())).toMatchObject({ rules: version });
  });

  it.each<Step>(['put rules', 'put callers'])(
    'that refuses what is published (%s) ends it, and nothing is told',
    async (step) => {
      await addRule('a');
      await publishNow();
      const [known, current] = [await standing(), await readCurrent(kv())];
      await addRule('b');
      await run(`insert into users (id) values ('ann')`);
      failAt(step);
      await expect(publishNow()).rejects.toThrow(`fails: ${step}`);
      expect([await standing(), await readCurrent(kv())]).toEqual([known, current]);
      succeed();
      const { version } = await publishNow();
      expect(await readRules(kv(), version)).toMatchObject({ ruleCount: 2 });
    },
  );
});

// The last tests, because Postgres does not come back.
describe('Postgres', () => {
  it.each([1, 2])('that fails at question %i ends it, and nothing changes', async (failing) => {
    await addRule('a');
    await publishNow();
    const [known, kept] = [await standing(), await keys()];
    await addRule('b');
    let questions = 0;
    before.step = async (step) => {
      if (step === 'postgres' && ++questions === failing) throw new Error('down');
    };
    await expect(publishNow()).rejects.toThrow();
    expect([await standing(), await keys()]).toEqual([known, kept]);
  });

  it('that is gone ends it, and nothing changes', async () => {
    await addRule('a');
    const { version } = await publishNow();
    const [known, kept] = [await standing(), await keys()];
    const options = createOptions();
    await world.stopPostgres();
    await expect(publish(options)).rejects.toThrow();
    expect([await standing(), await keys()]).toEqual([known, kept]);
    expect(formatAnnouncement(known[0] ?? expect.fail('nothing'))).toContain(version);
  });
});
