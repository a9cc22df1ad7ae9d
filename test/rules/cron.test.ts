// Cron runs, minute by minute: what they cost while nothing happens, and what they notice.
import { readFileSync } from 'node:fs';
import { describe, expect, it, vi } from 'vitest';
import { formatAnnouncement } from '../../src/core/ports/region.ts';
import { readCurrent } from '../../src/rules/edge/published.ts';
import { type PublishOptions, publish } from '../../src/rules/publishing/publish.ts';
import { MIDNIGHT, useCron } from './cron-harness.ts';
import type { Step } from './publish-harness.ts';
import { readCallers, readRules } from './published.ts';

const {
  addRule,
  before,
  createOptions,
  errors,
  hourOfCron,
  keys,
  kv,
  publishNow,
  regions,
  run,
  runOnce,
  standing,
  writes,
} = useCron();

describe('an hour in which nothing changes', () => {
  it('costs a Redis command per region and a query a minute, eight more queries to delete, and no writes', async () => {
    await addRule('a');
    await run(`insert into users (id) values ('ann')`);
    await publishNow();
    const known = await standing();
    expect(await hourOfCron()).toEqual({
      kvReads: 0,
      kvWrites: 0,
      redisCommands: [60, 60],
      postgresQueries: 68,
    });
    expect(await standing()).toEqual(known);
    expect(errors).toEqual([]);
  });

  it('leaves Postgres asleep for DATABASE_CHECK_MINUTES', async () => {
    await addRule('a');
    await publishNow();
    const cost = await hourOfCron({ databaseCheckMinutes: 30 });
    expect(cost).toEqual({ kvReads: 0, kvWrites: 0, redisCommands: [60, 60], postgresQueries: 10 });
  });

  it('costs one query more each time Postgres is asked, if there is a webhook', async () => {
    await addRule('a');
    await publishNow();
    expect((await hourOfCron({ hasWebhook: true })).postgresQueries).toBe(68 + 60);
    expect((await hourOfCron({ hasWebhook: true, databaseCheckMinutes: 30 })).postgresQueries).toBe(10 + 2);
    expect(errors).toEqual([]);
  });

  it('adds up to a month as in docs/cost.md', async () => {
    await addRule('a');
    const options = createOptions();
    await publish(options);
    const quiet = await hourOfCron({ options });
    const renewing = await hourOfCron({ from: MIDNIGHT, options });
    const monthOf = (pick: (hour: typeof quiet) => number) => 30 * (23 * pick(quiet) + pick(renewing));
    const text = readFileSync(new URL('../../docs/cost.md', import.meta.url), 'utf8');
    const idleOf = (service: string) =>
      new RegExp(`^\\| ${service}[^|]*\\| ([\\d,]+) `, 'm').exec(text)?.[1]?.replaceAll(',', '');
    expect(Number(idleOf('KV'))).toBe(monthOf(({ kvWrites }) => kvWrites));
    expect(monthOf(({ kvReads }) => kvReads)).toBe(0);
    expect(Number(idleOf('Upstash'))).toBe(monthOf(({ redisCommands }) => redisCommands[0] ?? 0));
    expect(Number(idleOf('Neon'))).toBe(monthOf(({ postgresQueries }) => postgresQueries));
  });

  it('renews everything once a day before it expires, under the same number', async () => {
    await addRule('a');
    const options = createOptions();
    await publish(options);
    const known = await standing();
    // The renewal: one more look at the regions, a probe of each (6), copies of both parts (2), an announcement (EVAL,
    // GET, PSETEX), and in Postgres a read, a deletion and a record.
    expect(await hourOfCron({ from: MIDNIGHT, options })).toEqual({
      kvReads: 0,
      kvWrites: 3,
      redisCommands: [72, 72],
      postgresQueries: 71,
    });
    expect(await standing()).toEqual(known);
  });
});

describe('a cron run publishes', () => {
  const published = async (change: () => Promise<unknown>, options?: PublishOptions) => {
    await addRule('a');
    await run(`insert into tiers (name) values ('free')`);
    await run(`insert into tenants (id) values ('acme')`);
    await run(`insert into list_entries (list, kind, value, expires_at)
      values ('deny', 'user', 'eve', now() + interval '1 hour')`);
    await publishNow();
    const [known] = await standing();
    await change();
    await runOnce(options);
    const [now] = await standing();
    expect(await standing()).toEqual([now, now]);
    expect(await readCurrent(kv())).toEqual(now);
    expect((now?.sequence ?? 0) > (known?.sequence ?? 0)).toBe(true);
    return { isOtherRules: now?.rules !== known?.rules, isOtherCallers: now?.callers !== known?.callers };
  };
  const RULES = { isOtherRules: true, isOtherCallers: false };
  const CALLERS = { isOtherRules: false, isOtherCallers: true };

  it.each<[string, string, typeof RULES]>([
    ['a changed rule', `update rules set "limit" = 7`, RULES],
    ['a deleted rule', 'delete from rules', RULES],
    ['a changed tier', `update tiers set limits = '{"x": 1}'`, RULES],
    [
      'a new list entry',
      `insert into list_entries (list, kind, value) values ('deny', 'user', 'bob')`,
      RULES,
    ],
    ['a new user', `insert into users (id, tier) values ('ann', 'free')`, CALLERS],
    ['a changed tenant', `insert into users (id, tenant_id) values ('ann', 'acme')`, CALLERS],
    [
      'a revocation',
      `insert into history (change_id, actor, entity, entity_id, after) values
        (1, 'a', 'callers', 'user:lin', '{"id": "user:lin"}')`,
      CALLERS,
    ],
    ['a new key', `insert into api_keys (hash, prefix) values ('${'a'.repeat(64)}', 'p')`, CALLERS],
  ])('%s', async (_, statement, expected) => {
    expect(await published(() => run(statement))).toEqual(expected);
  });

  it('a list without expired entries, although no row has changed', async () => {
    const expire = `set session_replication_role = replica;
      update list_entries set expires_at = now() - interval '1 second';
      set session_replication_role = origin`;
    expect(await published(() => run(expire))).toEqual(RULES);
  });

  it('changed shares of the regions', async () => {
    expect(await published(async () => {}, createOptions({ eu: 3 }))).toEqual(RULES);
  });

  it('rules that were never published', async () => {
    await addRule('a');
    await runOnce();
    const [eu, us] = await standing();
    expect(await readRules(kv(), eu?.rules ?? '')).toMatchObject({ ruleCount: 1 });
    expect(us).toEqual(eu);
  });

  it('rules that have expired everywhere, under the same number', async () => {
    await addRule('a');
    await publishNow();
    const known = await standing();
    for (const region of regions()) await region.clear();
    for (const name of await keys()) if (name !== 'current') await kv().delete(name);
    await runOnce();
    expect(await standing()).toEqual(known);
    expect(await readRules(kv(), known[0]?.rules ?? '')).toMatchObject({ ruleCount: 1 });
    expect(await readCallers(kv(), known[0]?.callers ?? '')).toBeDefined();
  });

  it('after a deployment, under the same number if the rules are the same', async () => {
    await addRule('a');
    await publishNow();
    const known = await standing();
    const options = { ...createOptions(), deployment: 'another' };
    let questions = 0;
    before.step = async (step) => {
      if (step === 'postgres') questions += 1;
    };
    await runOnce(options);
    expect(questions).toBeGreaterThan(1);
    questions = 0;
    await runOnce(options);
    expect([questions, await standing()]).toEqual([1, known]);
  });
});

it('old changes of callers do not cause a publication', async () => {
  await run(`insert into users (id) values ('ann')`);
  await publishNow();
  const known = await standing();
  await run(`update history set at = at - interval '20 minutes'`);
  await run(`update last_publication set callers_since = callers_since - interval '20 minutes'`);
  await runOnce();
  expect(await standing()).toEqual(known);
});

describe('a region', () => {
  const failAt = (...steps: Step[]) => {
    before.step = async (step) => {
      if (steps.includes(step)) throw new Error(`fails: ${step}`);
    };
  };
  const publishKnown = async () => {
    await addRule('a');
    await publishNow();
    writes.length = 0;
    return standing();
  };

  it.each([1, 60])(
    'that was emptied gets the announcement again, under the same number (Postgres is asked every %i min)',
    async (minutes) => {
      const known = await publishKnown();
      await regions()[1]?.clear();
      await runOnce(createOptions(), minutes);
      expect(await standing()).toEqual(known);
      expect(writes).toEqual([]);
    },
  );

  it('that missed an announcement gets it, under the same number', async () => {
    const [old] = await publishKnown();
    await addRule('b');
    await publishNow();
    const known = await standing();
    await regions()[1]?.clear();
    await regions()[1]?.put(old ?? expect.fail('nothing'));
    await runOnce(createOptions(), 60);
    expect(await standing()).toEqual(known);
  });

  it('that has a damaged announcement gets the current one', async () => {
    const known = await publishKnown();
    await regions()[0]?.putText('what is this');
    await runOnce();
    expect(await standing()).toEqual(known);
  });

  it.each<[string, Step[], number]>([
    ['one cannot be read', ['read us', 'write us'], 1],
    ['none can be read', ['read eu', 'read us', 'write eu', 'write us'], 2],
  ])(
    'that does not answer causes no writes (%s), and changes are still published',
    async (_, steps, failures) => {
      await publishKnown();
      failAt(...steps);
      await runOnce();
      expect([writes, errors.length]).toEqual([[], failures]);
      await run('update rules set "limit" = 7');
      await runOnce();
      const { rules = '' } = (await readCurrent(kv())) ?? {};
      expect(await readRules(kv(), rules)).toMatchObject({ ruleCount: 1 });
      expect(writes).toContain(`rules:${rules}`);
    },
  );

  it('that can be read but not written causes no writes, no matter how long', async () => {
    const known = await publishKnown();
    await regions()[1]?.clear();
    failAt('write us');
    for (let i = 0; i < 3; i += 1) await runOnce();
    expect([writes, await standing()]).toEqual([[], [known[0], undefined]]);
  });
});

describe('a step that a publication could not finish', () => {
  it.each<[string, Step, number]>([
    ['the small key of KV', 'put current', 1],
    ['the record in Postgres', 'postgres', 3],
  ])('(%s) is made up for by the next run, under the same number', async (_, failing, nth) => {
    await addRule('a');
    let count = 0;
    before.step = async (step) => {
      if (step === failing && ++count === nth) throw new Error('fails');
    };
    await publishNow();
    const [known] = await standing();
    expect(errors).toHaveLength(1);
    before.step = async () => undefined;
    await runOnce();
    expect(await standing()).toEqual([known, known]);
    expect(await readCurrent(kv())).toEqual(known);
    writes.length = 0;
    await runOnce();
    expect(writes).toEqual([]);
  });
});

it('a cron run reports rejected rows when it publishes, not every minute', async () => {
  const warn = vi.spyOn(console, 'warn').mockImplementation(() => {});
  await addRule('bad', { resource: '/_weir/x' });
  await runOnce();
  await runOnce();
  expect(warn.mock.calls.map(([line]) => JSON.parse(String(line)))).toMatchObject([
    { event: 'rule-rejected', name: 'bad' },
  ]);
  warn.mockRestore();
});

it('a publication records its announcement and its size', async () => {
  await addRule('a');
  await publishNow();
  const [known] = await standing();
  const { rows } = await run('select announcement, bytes from last_publication');
  expect(rows[0].announcement).toBe(known && formatAnnouncement(known));
  const text = (await kv().get(`rules:${known?.rules}`)) ?? '';
  expect(rows[0].bytes).toBe(Buffer.byteLength(text));
});
