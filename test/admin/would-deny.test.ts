// "Who would this have denied?", asked about a day that the test has written.
import { PgDialect } from 'drizzle-orm/pg-core';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { wouldDenyQuery } from '../../src/telemetry/would-deny.ts';
import { type Admin, startAdmin, TOKENS } from './harness.ts';

const NOW_MS = Date.UTC(2030, 0, 31, 12, 30);
const BASE = { resource: '/*', algorithm: 'fixed-window', limit: 100, windowSeconds: 3_600 };

let admin: Admin;
let client: pg.Client;
const ids: Record<string, string> = {};
beforeAll(async () => {
  admin = await startAdmin({ now: () => NOW_MS });
  client = new pg.Client({ connectionString: admin.db.url });
  await client.connect();
  const create = async (name: string, body: Record<string, unknown>) => {
    const answer = await admin.call('/rules', { method: 'POST', body: { ...BASE, name, ...body } });
    ids[name] = ((await answer.json()) as { id: string }).id;
  };
  await create('users', { scope: 'user' });
  await create('addresses', { scope: 'ip', resource: '/a' });
  await create('everybody', { scope: 'global', resource: '/b' });
  await create('costly', { scope: 'tenant', resource: '/c', cost: 5 });
  await create('shadow', { scope: 'user', resource: '/d', action: 'log' });
  await create('parts', { scope: 'user', resource: '/e', by: ['user', 'header:x-project'] });
  await create('open', { scope: 'user', resource: '/f', algorithm: 'concurrency' });
  await create('monthly', { scope: 'user', resource: '/h', windowSeconds: undefined, window: 'month' });
  await create('several', {
    scope: 'user',
    resource: '/g',
    limit: undefined,
    windowSeconds: undefined,
    limits: [{ limit: 1, windowSeconds: 1 }],
  });
  await client.query(`
    insert into usage (at, tenant_id, user_id, api_key_id, rule_id, requests, cost) values
      ('2030-01-31T10:00Z', '', 'ann', 'k1', '${ids['users']}', 60, 60),
      ('2030-01-31T10:00Z', '', 'ann', 'k2', '${ids['users']}', 30, 30),
      ('2030-01-31T11:00Z', '', 'ann', '', '${ids['users']}', 10, 10),
      ('2030-01-31T10:00Z', '', 'bob', '', '${ids['users']}', 30, 30),
      ('2030-01-31T11:00Z', '', 'bob', '', '${ids['users']}', 20, 20),
      ('2030-01-31T09:00Z', '', 'eve', '', '${ids['users']}', 5, 5),
      ('2030-01-29T09:00Z', '', 'old', '', '${ids['users']}', 900, 900),
      ('2030-01-31T11:00Z', '', '', '', '${ids['users']}', 7, 7),
      ('2030-01-31T11:00Z', '', 'ann', '', '', 999, 999),
      ('2030-01-31T11:00Z', '', '', '', '${ids['addresses']}', 500, 500),
      ('2030-01-31T11:00Z', 't', 'ann', '', '${ids['everybody']}', 40, 40),
      ('2030-01-31T11:00Z', '', '', '', '${ids['everybody']}', 50, 50),
      ('2030-01-31T11:00Z', 't', '', '', '${ids['costly']}', 10, 50)`);
  await client.query(`
    insert into events (at, scope, rule_id, rule_name, subject, count) values
      ('2030-01-31T10:59Z', 'user', '${ids['users']}', 'users', 'ann', 8),
      ('2030-01-31T11:01Z', 'ip', '${ids['users']}', 'users', '10.0.0.9', 55),
      ('2030-01-31T11:01Z', 'user', '${ids['users']}', 'users', 'other', 3),
      ('2030-01-31T11:01Z', 'ip', '${ids['addresses']}', 'addresses', '10.0.0.1', 70),
      ('2030-01-31T11:02Z', 'tenant', '${ids['costly']}', 'costly', 't', 2)`);
});
afterAll(async () => {
  await client.end();
  await admin[Symbol.asyncDispose]();
});

interface Effect {
  readonly unknown: string | null;
  readonly callers: readonly { subject: string; atLeast: number }[];
}
async function ask(rule: string, query: string): Promise<Effect> {
  const answer = await admin.call(`/rules/${ids[rule]}/would-deny?${query}`, { token: TOKENS.read.token });
  expect(answer.status, await answer.clone().text()).toBe(200);
  return (await answer.json()) as Effect;
}

describe('a lower limit', () => {
  it('of an hour would have denied exactly what callers sent beyond it in an hour', async () => {
    expect(await ask('users', 'limit=50')).toEqual({
      from: '2030-01-30T12:00:00.000Z',
      to: '2030-01-31T12:30:00.000Z',
      limit: 50,
      windowSeconds: 3_600,
      unknown: null,
      admitted: 162,
      denied: 66,
      unnamedAdmitted: 7,
      unnamedDenied: 3,
      atLeast: 48 + 5,
      surelyDenied: 2,
      perhapsDenied: 0,
      surelyNotDenied: 2,
      callers: [
        { scope: 'user', subject: 'ann', admitted: 100, denied: 8, atLeast: 48 },
        { scope: 'ip', subject: '10.0.0.9', admitted: 0, denied: 55, atLeast: 5 },
      ],
    });
  });

  it('of a minute may have denied callers that sent more in an hour: their pace is not known', async () => {
    const effect = await ask('users', 'limit=40&windowSeconds=60');
    expect(effect).toMatchObject({ atLeast: 0, surelyDenied: 0, perhapsDenied: 3, surelyNotDenied: 1 });
    expect(effect.callers).toEqual([]);
  });

  it('of a day would have denied requests beyond it in an hour, because the day touches two windows', async () => {
    expect(await ask('users', 'limit=45&windowSeconds=86400')).toMatchObject({
      atLeast: 98 - 45 + (55 - 45),
      surelyDenied: 2,
      perhapsDenied: 1,
    });
    // With such windows, only the sum of the day decides.
    expect(await ask('users', 'limit=49&windowSeconds=600000')).toMatchObject({ atLeast: 108 - 49 + 1 + 6 });
  });

  it('includes the burst', async () => {
    const query = 'limit=1&windowSeconds=3600&algorithm=token-bucket';
    expect(await ask('users', `${query}&burst=90`)).toMatchObject({ surelyDenied: 1, atLeast: 7 });
  });
});

it('a higher limit denies only callers that sent more than it admits', async () => {
  expect(await ask('users', 'limit=97')).toMatchObject({ atLeast: 1, surelyDenied: 1, perhapsDenied: 1 });
  expect(await ask('users', 'limit=1000')).toMatchObject({
    atLeast: 0,
    // Nobody knows how many requests of the address were admitted.
    perhapsDenied: 1,
    surelyNotDenied: 3,
  });
});

it('all callers of a global rule count as one caller', async () => {
  expect(await ask('everybody', 'limit=80')).toMatchObject({
    atLeast: 10,
    callers: [{ scope: 'global', subject: 'all', atLeast: 10 }],
  });
});

it('denied requests count with their cost', async () => {
  expect(await ask('costly', 'limit=45')).toMatchObject({ admitted: 50, denied: 2, atLeast: 15 });
});

it('for a rule by address, only denied callers have names, and the answer leaves other numbers open', async () => {
  expect(await ask('addresses', 'limit=60')).toMatchObject({
    admitted: 500,
    unnamedAdmitted: 500,
    atLeast: 10,
    surelyDenied: 1,
    perhapsDenied: null,
    surelyNotDenied: null,
  });
});

it.each([
  ['shadow', 'only logs'],
  ['parts', 'several counters'],
  ['open', 'open at once'],
  ['monthly', 'of the calendar'],
])('for the rule “%s” the answer says why nothing is known', async (rule, why) => {
  expect((await ask(rule, 'limit=5')).unknown).toContain(why);
});

it('a bad question is refused, with the name of the wrong parameter', async () => {
  const detailsOf = async (path: string) => {
    const answer = await admin.call(path);
    const { errors } = (await answer.json()) as { errors?: { pointer: string; detail: string }[] };
    return [answer.status, errors?.[0]?.pointer];
  };
  expect(await detailsOf(`/rules/${ids['several']}/would-deny?limit=5`)).toEqual([400, 'windowSeconds']);
  expect(await detailsOf(`/rules/${ids['users']}/would-deny?limit=0`)).toEqual([400, 'limit']);
  expect(await detailsOf(`/rules/${ids['users']}/would-deny`)).toEqual([400, 'limit']);
  expect(await detailsOf('/rules/nobody/would-deny?limit=5')).toEqual([404, undefined]);
});

it('the query reads one range of an index in each table', async () => {
  const question = {
    ruleId: ids['users'] ?? '',
    scope: 'user',
    from: new Date(NOW_MS - 86_400_000),
    to: new Date(NOW_MS),
    leastCost: 1,
    mostCost: 1,
    mostAnHour: 50,
    mostInAll: 1_000,
    capacity: 50,
    withinMs: 3_600_000,
    limit: 20,
  } as const;
  const { sql, params } = new PgDialect().sqlToQuery(wouldDenyQuery(question));
  // Without this, Postgres would scan such a small table as a whole.
  await client.query('set enable_seqscan = off');
  const { rows } = await client.query(`explain ${sql}`, params);
  const plan = JSON.stringify(rows);
  expect(plan).toContain('usage_rule');
  expect(plan).toContain('events_rule');
  expect(plan).not.toContain('Seq Scan');
});
