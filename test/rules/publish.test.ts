// What is published, and what happens when a part fails.
import { describe, expect, it } from 'vitest';
import { formatAnnouncement } from '../../src/core/ports/region.ts';
import { readCurrent } from '../../src/rules/edge/published.ts';
import { publish } from '../../src/rules/publishing/publish.ts';
import { EVERYWHERE, type Step, usePublishing } from './publish-harness.ts';
import { readCallers, readRules } from './published.ts';

const {
  addRule,
  before,
  createOptions,
  errors,
  failAt,
  keys,
  kv,
  publishNow,
  run,
  standing,
  stopPostgres,
  succeed,
  writes,
} = usePublishing();

const ANN = `with tenant as (insert into tenants (id) values ('acme') returning id)
  insert into users (id, tenant_id) select 'ann', id from tenant`;

describe('a publication', () => {
  it('is written to KV and announced in every region and in KV', async () => {
    await addRule('a');
    await run(ANN);
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

  it('says whether Weir has made all keys that there are', async () => {
    const onlyWeirKeys = async () => {
      await publishNow();
      const [announced] = await standing();
      return (await readCallers(kv(), announced?.callers ?? ''))?.onlyWeirKeys;
    };
    const add = (prefix: string) =>
      run('insert into api_keys (hash, prefix) values (md5($1) || md5($1), $1)', [prefix]);
    await add('weir_Ab3dE9');
    expect(await onlyWeirKeys()).toBe(true);
    await add('weird_key');
    expect(await onlyWeirKeys()).toBe(false);
    await run(`delete from api_keys where prefix = 'weird_key'`);
    expect(await onlyWeirKeys()).toBe(true);
  });

  it('may have no rules', async () => {
    const { version, ruleCount } = await publishNow();
    expect(ruleCount).toBe(0);
    expect(await readRules(kv(), version)).toMatchObject({ ruleCount: 0 });
  });

  it('warns of rules that are probably mistakes', async () => {
    await addRule('a', { resource: '/same' });
    await addRule('b', { resource: '/same' });
    expect((await publishNow()).warnings).toMatchObject([
      { message: expect.stringContaining('never applies') },
    ]);
  });

  it('of the same rules has the same version, and is not written again', async () => {
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

  it('is written again if asked, even if it is the same', async () => {
    await addRule('a');
    const { version } = await publishNow();
    for (const name of await keys()) await kv().delete(name);
    expect(await publish(createOptions())).toMatchObject({ version, changed: false });
    expect(await readRules(kv(), version)).toBeUndefined();
    expect(await publish(createOptions(), { again: true })).toMatchObject({ version, changed: false });
    const [announced] = await standing();
    expect((await keys()).sort()).toEqual([`callers:${announced?.callers}`, 'current', `rules:${version}`]);
  });

  it('expires in KV a month after it was last written', async () => {
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
    await run(ANN);
    expect(await publishNow()).toMatchObject({ version, changed: false });
    const [announced] = await standing();
    expect(announced?.callers).not.toBe(earlier?.callers);
    expect(writes.sort()).toEqual([`callers:${announced?.callers}`, 'current']);
  });
});

describe('rules that a migration has made too large', () => {
  it('are not published: the old rules stay in force, and the error says why', async () => {
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

describe('KV', () => {
  it('may refuse the key current, which takes one write a second, without stopping the publication', async () => {
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
    'stops the publication if it fails to %s, and nothing is announced',
    async (step) => {
      await addRule('a');
      await publishNow();
      const [known, current] = [await standing(), await readCurrent(kv())];
      await addRule('b');
      await run(ANN);
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
  it.each([1, 2])(
    'stops the publication if it fails at question %i, and nothing changes',
    async (failing) => {
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
    },
  );

  it('stops the publication if it is down, and nothing changes', async () => {
    await addRule('a');
    const { version } = await publishNow();
    const [known, kept] = [await standing(), await keys()];
    const options = createOptions();
    await stopPostgres();
    await expect(publish(options)).rejects.toThrow();
    expect([await standing(), await keys()]).toEqual([known, kept]);
    expect(formatAnnouncement(known[0] ?? expect.fail('nothing'))).toContain(version);
  });
});
