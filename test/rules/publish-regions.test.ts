// Publishing while a region fails, hangs or cannot run the script, and the copy of the rules in each region.
import { describe, expect, it } from 'vitest';
import { CounterStoreError } from '../../src/core/ports/region.ts';
import { readCurrent } from '../../src/rules/edge/published.ts';
import { publish } from '../../src/rules/publishing/publish.ts';
import { EVERYWHERE, type Step, usePublishing } from './publish-harness.ts';
import { readRules } from './published.ts';

const {
  addRule,
  before,
  copies,
  createOptions,
  errors,
  failAt,
  failed,
  hanging,
  kv,
  publishNow,
  regions,
  run,
  standing,
  succeed,
} = usePublishing();

describe('a region', () => {
  it.each<[string, Step[], number]>([
    ['cannot be read', ['read us'], 1],
    ['cannot be written', ['write us'], 1],
    ['cannot be reached at all', ['read us', 'write us'], 2],
  ])('that %s does not keep the announcement from other regions', async (_, steps, failures) => {
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
    'gets no announcement while its Redis fails: %j',
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
  ])('that cannot run the script is left out, and the publication says why: %s', async (said, problem) => {
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
  });

  it('that cannot run the script gets no announcement, although it could be written', async () => {
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

  it('that can run the script, but not the announcing script, gets no announcement either', async () => {
    before.step = async (step) => {
      if (step === 'write us') throw new CounterStoreError('script-failed', 'ERR x');
    };
    expect((await publishNow()).regions).toEqual([
      { name: 'eu', announced: true },
      { name: 'us', announced: false, problem: 'ERR x' },
    ]);
    expect([errors.length, failed]).toEqual([1, ['us']]);
  });

  it('that is slow to show whether it runs the script gets the announcement', async () => {
    before.step = async (step) => {
      if (step === 'probe us') throw new CounterStoreError('timeout', 'x');
    };
    expect((await publishNow()).regions).toEqual(EVERYWHERE);
    expect(errors).toEqual([]);
  });

  it('gets the announcement even if the probe of the script has a bug, which is reported', async () => {
    failAt('probe us');
    expect((await publishNow()).regions).toEqual(EVERYWHERE);
    expect([errors, failed]).toEqual([[new Error('fails: probe us')], ['us']]);
  });

  it('that has a foreign value gets the announcement in its place', async () => {
    await addRule('a');
    const [eu, us] = regions();
    for (const region of [eu, us]) await region?.putText('what is this');
    const { version, changed } = await publishNow();
    expect([changed, (await standing()).map((known) => known?.rules)]).toEqual([true, [version, version]]);
  });

  it('is not needed: if none can be reached, the rules are in KV', async () => {
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

  it('is written before the region announces it', async () => {
    await addRule('a');
    const taken = steps();
    const { version } = await publishNow();
    for (const name of ['eu', 'us'])
      expect(taken.indexOf(`copy ${name}`)).toBeLessThan(taken.indexOf(`write ${name}`));
    const [announced] = await standing();
    const both = [`rules:${version}`, `callers:${announced?.callers}`];
    expect(copies).toEqual(['eu', 'us'].flatMap((name) => both.map((part) => `${name} ${part}`)));
  });

  it('contains the parts that have changed, and nothing else', async () => {
    await addRule('a');
    await publishNow();
    copies.length = 0;
    await publishNow();
    expect(copies).toEqual([]);
    await run(`insert into tenants (id) values ('acme')`);
    await run(`insert into users (id, tenant_id) values ('ann', 'acme')`);
    await publishNow();
    const [announced] = await standing();
    expect(copies).toEqual(['eu', 'us'].map((name) => `${name} callers:${announced?.callers}`));
    copies.length = 0;
    await publish(createOptions(), { again: true });
    expect(copies).toHaveLength(4);
  });

  it('that fails does not stop the announcement, and is made at the next renewal', async () => {
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
