// Denials and usage, as the admin route reports them.
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createSubjects } from '../../src/telemetry/flush.ts';
import { type Admin, startAdmin, TOKENS } from './harness.ts';

const NOW_MS = Date.UTC(2030, 0, 31, 12);
const subjects = createSubjects({ isHashed: true, key: 'a key of the test' });

let admin: Admin;
beforeAll(async () => {
  admin = await startAdmin({ now: () => NOW_MS, storedSubject: subjects.stored });
  const sql = new pg.Client({ connectionString: admin.db.url });
  await sql.connect();
  await sql.query(`
    insert into events (at, scope, rule_id, rule_name, subject, count)
    select timestamptz '2030-01-31T11:59Z' - make_interval(mins => n), 'ip', 'r' || n % 2, 'rule ' || n % 2, '10.0.0.' || n % 7, n + 1
    from generate_series(0, 69) n`);
  await sql.query(`
    insert into events (at, scope, rule_id, rule_name, subject, count) values
      ('2030-01-31T11:00Z', 'user', 'r0', 'rule 0', 'ann', 5), ('2030-01-31T10:00Z', 'user', 'r1', 'rule 1', 'ann', 6),
      ('2030-01-31T10:00Z', 'user', 'r1', 'rule 1', '=1+1,"x"', 7), ('2030-01-29T10:00Z', 'user', 'r1', 'rule 1', 'old', 99),
      ('2030-01-31T10:00Z', 'ip', 'r1', 'rule 1', '${await subjects.hash('203.0.113.7')}', 1)`);
  await sql.query(`
    insert into usage (at, tenant_id, user_id, api_key_id, rule_id, requests, cost) values
      ('2030-01-30T10:00Z', 'acme', 'ann', 'k1', '', 10, 20), ('2030-01-30T10:00Z', 'acme', 'ann', 'k1', 'r0', 10, 15),
      ('2030-01-30T11:00Z', 'acme', 'bob', '', '', 1, 1), ('2030-01-31T11:00Z', 'acme', 'ann', 'k1', '', 2, 4),
      ('2030-01-31T11:00Z', 'globex', 'eve', '', '', 100, 100)`);
  await sql.end();
});
afterAll(() => admin[Symbol.asyncDispose]());

interface Page<T> {
  readonly items: T[];
  readonly nextCursor: string | null;
}
async function page<T>(path: string): Promise<Page<T>> {
  const response = await admin.call(path, { token: TOKENS.read.token });
  expect(response.status, await response.clone().text()).toBe(200);
  return (await response.json()) as Page<T>;
}
async function pages<T>(path: string): Promise<T[]> {
  const all: T[] = [];
  let cursor: string | null = '';
  while (cursor !== null) {
    const { items, nextCursor }: Page<T> = await page<T>(`${path}${cursor && `&cursor=${cursor}`}`);
    all.push(...items);
    cursor = nextCursor;
  }
  return all;
}
type Violator = {
  scope?: string;
  subject: string;
  name: string | null;
  count: number;
  lastAt: string;
  rules: { id: string; name: string }[];
};
type Used = { name: string; requests: number; cost: number };

const RULE_0 = { id: 'r0', name: 'rule 0' };
const RULE_1 = { id: 'r1', name: 'rule 1' };

describe('violators', () => {
  it('come with the most denials first, for the time that was asked for', async () => {
    const { items } = await page<Violator>('/violators?since=24h&groupBy=user');
    expect(items).toEqual([
      {
        ...{ subject: 'ann', name: null, count: 11, lastAt: '2030-01-31T11:00:00.000Z' },
        rules: [RULE_0, RULE_1],
        countedAs: [{ scope: 'user', subject: 'ann' }],
      },
      {
        ...{ subject: '=1+1,"x"', name: null, count: 7, lastAt: '2030-01-31T10:00:00.000Z' },
        rules: [RULE_1],
        countedAs: [{ scope: 'user', subject: '=1+1,"x"' }],
      },
    ]);
    expect((await page<Violator>('/violators?since=7d&groupBy=user')).items[0]?.subject).toBe('old');
    expect(
      (await page<Violator>('/violators?since=90m&groupBy=user')).items.map(({ count }) => count),
    ).toEqual([5]);
  });

  it('can be counted by rule, in every scope', async () => {
    const { items } = await page<Violator>('/violators?groupBy=rule');
    expect(items.map(({ subject }) => subject).sort()).toEqual(['r0', 'r1']);
    const total = items.reduce((sum, { count }) => sum + count, 0);
    expect(total).toBe((70 * 71) / 2 + 5 + 6 + 7 + 1);
  });

  it('can be listed for all scopes at once, each with its scope', async () => {
    const { items } = await page<Violator & { scope: string }>('/violators?groupBy=all&limit=1000');
    expect(items.map(({ scope }) => scope)).toEqual(expect.arrayContaining(['ip', 'user']));
    expect(items.find(({ subject }) => subject === 'ann')).toMatchObject({ scope: 'user', count: 11 });
    const csv = await (await admin.call('/violators?groupBy=all&format=csv&limit=1')).text();
    expect(csv.split('\r\n')[0]).toBe(
      'scope,subject,name,tenantId,userId,apiKeyId,count,lastAt,rules,countedAs',
    );
  });

  it('come in pages that neither repeat nor skip one', async () => {
    const all = await pages<Violator>('/violators?groupBy=ip&limit=3');
    expect(all).toEqual((await page<Violator>('/violators?groupBy=ip')).items);
    expect(all).toHaveLength(8);
  });

  it('come as CSV, in which no text is a formula', async () => {
    const response = await admin.call('/violators?groupBy=user&format=csv');
    expect(response.headers.get('Content-Type')).toBe('text/csv; charset=utf-8');
    expect((await response.text()).split('\r\n')).toEqual([
      'subject,count,lastAt,rules',
      'ann,11,2030-01-31T11:00:00.000Z,rule 0 rule 1',
      `"'=1+1,""x""",7,2030-01-31T10:00:00.000Z,rule 1`,
      '',
    ]);
  });
});

describe('events', () => {
  type Event = { at: string; ruleId: string; scope: string; subject: string; count: number };

  it('come newest first, in pages that neither repeat nor skip one', async () => {
    const all = await pages<Event>('/events?since=24h&limit=9');
    expect(all).toHaveLength(74);
    expect(all.map(({ at }) => at)).toEqual(
      all
        .map(({ at }) => at)
        .toSorted()
        .toReversed(),
    );
    expect(new Set(all.map((event) => JSON.stringify(event))).size).toBe(74);
  });

  it('can be filtered by rule, scope and subject, even if subjects are stored as hashes', async () => {
    expect((await page<Event>('/events?rule=r0&scope=user')).items).toMatchObject([
      { subject: 'ann', count: 5 },
    ]);
    expect((await page<Event>('/events?rule=rule%200&scope=user')).items).toHaveLength(1);
    const { items } = await page<Event>('/events?scope=ip&subject=203.0.113.7');
    expect(items).toMatchObject([{ count: 1 }]);
  });

  it('come as CSV, with the next page in a header', async () => {
    const response = await admin.call('/events?limit=1&format=csv');
    expect((await response.text()).split('\r\n')).toHaveLength(3);
    const cursor = response.headers.get('X-Next-Cursor');
    expect((await page<Event>(`/events?cursor=${cursor}`)).items).toHaveLength(50);
  });
});

describe('the series of denials', () => {
  type Point = { at: string; count: number };
  const series = async (query: string) =>
    (await (await admin.call(`/events/series?${query}`, { token: TOKENS.read.token })).json()) as {
      from: string;
      to: string;
      items: Point[];
    };

  it('has a sum for each minute that has denials, oldest first', async () => {
    const { from, to, items } = await series('since=3m');
    expect([from, to]).toEqual(['2030-01-31T11:57:00.000Z', '2030-01-31T12:00:00.000Z']);
    expect(items).toEqual([
      { at: '2030-01-31T11:57:00.000Z', count: 3 },
      { at: '2030-01-31T11:58:00.000Z', count: 2 },
      { at: '2030-01-31T11:59:00.000Z', count: 1 },
    ]);
  });

  it('can have hours, one rule or one subject, even if subjects are stored as hashes', async () => {
    const { items } = await series('since=24h&step=hour&scope=user&subject=ann');
    expect(items).toEqual([]);
    expect((await series('since=24h&step=hour&scope=user&rule=r1')).items).toEqual([
      { at: '2030-01-31T10:00:00.000Z', count: 13 },
    ]);
    expect((await series('since=24h&scope=ip&subject=203.0.113.7')).items).toEqual([
      { at: '2030-01-31T10:00:00.000Z', count: 1 },
    ]);
  });

  it('goes back at most two days by the minute', async () => {
    expect((await series('since=90d')).from).toBe('2030-01-29T12:00:00.000Z');
    expect((await series('since=90d&step=hour')).from).toBe('2029-12-31T12:00:00.000Z');
  });
});

describe('usage', () => {
  it('counts each request once, however many rules applied', async () => {
    const { items } = await page<Used>(
      '/usage?tenant=acme&from=2030-01-01T00:00:00Z&to=2030-01-31T00:00:00Z',
    );
    expect(items).toEqual([{ name: '2030-01-30', requests: 11, cost: 21 }]);
  });

  it.each([
    [
      'groupBy=hour&tenant=acme',
      [
        ['2030-01-30T10:00:00Z', 10],
        ['2030-01-30T11:00:00Z', 1],
        ['2030-01-31T11:00:00Z', 2],
      ],
    ],
    [
      'groupBy=tenant',
      [
        ['acme', 13],
        ['globex', 100],
      ],
    ],
    [
      'groupBy=user&tenant=acme',
      [
        ['bob', 1],
        ['ann', 12],
      ].toReversed(),
    ],
    [
      'groupBy=apiKey&tenant=acme',
      [
        ['', 1],
        ['k1', 12],
      ],
    ],
    ['groupBy=rule', [['r0', 10]]],
    ['groupBy=tenant&rule=r0', [['acme', 10]]],
    ['groupBy=tenant&apiKey=k1', [['acme', 12]]],
  ])('can be grouped and filtered: %s', async (query, expected) => {
    const all = await pages<Used>(`/usage?${query}&limit=1`);
    expect(all.map(({ name, requests }) => [name, requests])).toEqual(expected);
  });

  it('comes as CSV', async () => {
    const response = await admin.call('/usage?groupBy=tenant&format=csv');
    expect(await response.text()).toBe('name,requests,cost\r\nacme,13,25\r\nglobex,100,100\r\n');
  });
});

/** A server of acme with a key, which a rule has counted by its address. The other rows are of the same address. */
async function startAcme() {
  const create = async (path: string, body: object) =>
    (await (await admin.call(path, { method: 'POST', body })).json()) as { id: string };
  await create('/tenants', { id: 'acme' });
  const { id: key } = await create('/keys', { name: 'acme server', tenantId: 'acme' });
  const limit = { resource: '/login', scope: 'ip', limit: 5, windowSeconds: 60 };
  const { id: rule } = await create('/rules', { ...limit, name: 'login-ip' });
  await using sql = Object.assign(new pg.Client({ connectionString: admin.db.url }), {
    [Symbol.asyncDispose]: () => sql.end(),
  });
  await sql.connect();
  await sql.query(`
    insert into denials (at, scope, rule_id, rule_name, subject, tenant_id, user_id, api_key_id, count) values
      ('2030-01-31T11:30Z', 'ip', '${rule}', 'login-ip', '198.51.100.10', 'acme', '', '${key}', 7000),
      ('2030-01-31T11:31Z', 'ip', '${rule}', 'login-ip', '198.51.100.10', 'acme', '', '${key}', 210),
      ('2030-01-31T11:31Z', 'ip', '${rule}', 'login-ip', '198.51.100.10', '', '', '', 3),
      ('2030-01-31T11:31Z', 'global', 'g', 'everybody', 'all', 'acme', '${await subjects.hash('zoe')}', '', 4),
      ('2030-01-31T11:31Z', 'global', 'g', 'everybody', 'all', '', '', '', 1000)`);
  await sql.query(`
    insert into usage (at, tenant_id, user_id, api_key_id, rule_id, requests, cost) values
      ('2020-01-30T10:00Z', 'acme', '', '${key}', '', 8, 9), ('2020-01-30T10:00Z', 'acme', '', '${key}', '${rule}', 8, 9)`);
  return { key, rule };
}

describe('the denials of a customer', () => {
  let acme: Awaited<ReturnType<typeof startAcme>>;
  beforeAll(async () => {
    acme = await startAcme();
  });
  const AS_ADDRESS = { scope: 'ip', subject: '198.51.100.10' };

  it('are found by its tenant and key, although the rule counts addresses', async () => {
    const loginIp = () => ({ id: acme.rule, name: 'login-ip' });
    for (const asked of [`apiKey=${acme.key}`, 'apiKey=acme%20server', 'tenant=acme&rule=login-ip'])
      expect((await page<Violator>(`/violators?groupBy=rule&${asked}`)).items).toEqual([
        {
          ...{ subject: acme.rule, name: 'login-ip', count: 7_210, lastAt: '2030-01-31T11:31:00.000Z' },
          ...{ rules: [loginIp()], countedAs: [AS_ADDRESS] },
        },
      ]);
    const { items } = await page<Violator>('/violators?groupBy=tenant');
    expect(items).toMatchObject([{ subject: 'acme', count: 7_214 }]);
  });

  it('come in minutes that name the key with its id, and who was counted', async () => {
    const { items } = await page<object>('/events?apiKey=acme%20server');
    const ids = { tenantId: 'acme', userId: null, apiKeyId: acme.key, apiKeyName: 'acme server' };
    expect(items).toMatchObject([
      { ...AS_ADDRESS, ...ids, at: '2030-01-31T11:31:00.000Z', ruleName: 'login-ip', count: 210 },
      { ...AS_ADDRESS, ...ids, at: '2030-01-31T11:30:00.000Z', ruleName: 'login-ip', count: 7_000 },
    ]);
  });

  it('are the caller’s in the list of everyone, which is the default', async () => {
    const { items } = await page<Violator>('/violators?limit=1000');
    expect(items[0]).toEqual({
      ...{ scope: 'apiKey', subject: acme.key, name: 'acme server', countedAs: [AS_ADDRESS] },
      ...{ tenantId: 'acme', userId: null, apiKeyId: acme.key },
      ...{ count: 7_210, lastAt: '2030-01-31T11:31:00.000Z', rules: [{ id: acme.rule, name: 'login-ip' }] },
    });
    expect(items.find(({ subject }) => subject === '198.51.100.10')).toMatchObject({ scope: 'ip', count: 3 });
    // Of a rule that counts everybody: a user is known, and the others are not.
    const zoe = await subjects.hash('zoe');
    expect(items.find(({ subject }) => subject === zoe)).toMatchObject({ scope: 'user', count: 4 });
    expect(items.some(({ scope }) => scope === 'global')).toBe(false);
    expect((await page<Violator>('/violators?user=zoe')).items).toMatchObject([{ count: 4 }]);
  });

  it('that the version before has recorded are found by the subject', async () => {
    const { items } = await page<Violator>('/violators?groupBy=user&since=7d');
    expect(items.map(({ subject }) => subject)).toContain('old');
  });

  it.each([
    ['apiKey', 'acme server', () => acme.key],
    ['rule', 'login-ip', () => acme.rule],
  ])('have usage by %s with the name and the id', async (groupBy, named, id) => {
    const period = 'from=2020-01-01T00:00:00Z&to=2020-02-01T00:00:00Z';
    const expected = [{ name: named, id: id(), requests: 8, cost: 9 }];
    expect((await page(`/usage?groupBy=${groupBy}&${period}`)).items).toEqual(expected);
    const byName = await page(`/usage?groupBy=${groupBy}&${groupBy}=${named}&${period}`);
    expect(byName.items).toEqual(expected);
  });
});

describe('a denied request', () => {
  type Denied = { requestId: string; apiKeyName: string | null; at: string };
  let keyId = '';
  const RULE = {
    ...{ id: 'r0', name: 'login-ip', resource: '/login', scope: 'ip', subject: '198.51.100.10' },
    ...{ limit: 5, windowSeconds: 60, cost: 1, remaining: 0, retryAfterMs: 12_345 },
  };
  beforeAll(async () => {
    const made = await admin.call('/keys', { method: 'POST', body: { name: 'globex server' } });
    keyId = ((await made.json()) as { id: string }).id;
    const client = new pg.Client({ connectionString: admin.db.url });
    await client.connect();
    await client.query(`
      insert into denied_requests
      select id, at, 429, 'rate-limited', 'POST', 'default', 'eu', tenant, '', key, rules::jsonb
      from (values
        ('8f2a5c3d1e4b6a70', timestamptz '2030-01-31T11:03:27.123Z', 'globex', '${keyId}', '[${JSON.stringify(RULE)}]'),
        ('own-id-of-16-chr', '2030-01-31T11:02Z', '', '', '[]'),
        ('8f2a5c3d1e4b6a71', '2030-01-30T11:59:59Z', 'globex', '${keyId}', '[]')
      ) as one (id, at, tenant, key, rules)`);
    await client.end();
  });

  it.each(['8f2a5c3d1e4b6a70', '8f2a5c3d1e4b6a70-FRA'])('is found by its id: %s', async (id) => {
    const answer = await admin.call(`/denials/${id}`, { token: TOKENS.read.token });
    expect(await answer.json()).toEqual({
      ...{ requestId: '8f2a5c3d1e4b6a70', at: '2030-01-31T11:03:27.123Z', status: 429, code: 'rate-limited' },
      ...{ method: 'POST', route: 'default', region: 'eu' },
      ...{ tenantId: 'globex', userId: null, apiKeyId: keyId, apiKeyName: 'globex server' },
      rules: [RULE],
    });
  });

  it.each(['8f2a5c3d1e4b6a71', 'unknown', '-'])(
    'is not found if it is older than a day, or unknown: %s',
    async (id) => {
      const answer = await admin.call(`/denials/${id}`);
      expect(answer.status).toBe(404);
      expect(await answer.json()).toMatchObject({
        code: 'not-found',
        detail: expect.stringContaining('/events'),
      });
    },
  );

  it('is listed with those of the last day, newest first, and by caller, rule and time', async () => {
    const idsOf = async (query: string) =>
      (await pages<Denied>(`/denials?limit=1${query}`)).map(({ requestId }) => requestId);
    expect(await idsOf('')).toEqual(['8f2a5c3d1e4b6a70', 'own-id-of-16-chr']);
    for (const query of ['tenant=globex', 'apiKey=globex%20server', 'rule=login-ip', 'rule=r0'])
      expect(await idsOf(`&${query}`), query).toEqual(['8f2a5c3d1e4b6a70']);
    expect(await idsOf('&from=2030-01-31T11:02:00Z&to=2030-01-31T11:03:00Z')).toEqual(['own-id-of-16-chr']);
  });
});

it.each([
  '/violators?since=1y',
  '/violators?groupBy=country',
  '/violators?limit=1001',
  '/violators?cursor=x',
  '/events?cursor=WyJ4IiwieCIsIngiLCJ4Il0',
  '/usage?from=yesterday',
  '/usage?groupBy=minute',
])('%s is refused', async (path) => {
  const response = await admin.call(path);
  expect(response.status).toBe(400);
  expect(await response.json()).toMatchObject({ code: 'invalid-request' });
});
