// The gateway's HTTP side: what it refuses, with which texts, its JSON, its limits and its faults.
import pg from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type NeonGateway, startNeonGateway } from '../../local/neon-gateway/server.ts';
import { freePort, StackError } from '../../local/ports.ts';
import type { Faults } from '../../local/upstash-gateway/faults.ts';
import { createFreshDatabase, type FreshDatabase } from '../shared/database.ts';

const MAX_BYTES = 20_000;
const CONNECTION_STRING = 'postgresql://weir:secret@db.example.test/weir';
let postgres: FreshDatabase;
let gateway: NeonGateway;
let chance = 0;

beforeAll(async () => {
  postgres = await createFreshDatabase('empty');
  gateway = await startNeonGateway({
    port: await freePort(),
    databaseUrl: postgres.url,
    maxRequestBytes: MAX_BYTES,
    maxResponseBytes: MAX_BYTES,
    random: () => chance,
  });
});
afterEach(() => gateway.faults.clear());
afterAll(async () => {
  await gateway.stop();
  await postgres[Symbol.asyncDispose]();
});

function post(
  body: unknown,
  headers: Record<string, string> = {},
  init: RequestInit = {},
): Promise<Response> {
  return fetch(gateway.fetchEndpoint, {
    method: 'POST',
    headers: { 'Neon-Connection-String': CONNECTION_STRING, ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
    ...init,
  });
}

async function answerOf(reply: Promise<Response>): Promise<{ status: number; body: unknown }> {
  const response = await reply;
  return { status: response.status, body: await response.json() };
}

describe('in its answers, the gateway', () => {
  const ALL = `select true as b, 7 as i, 8::int8 as big, 1.5::float8 as f, 'NaN'::float8 as nan, 1.50::numeric as n,
    'x' as t, null as nothing, '{"a":[1]}'::jsonb as j, array['a"b','NULL',null] as ta,
    array[[1,2],[3,4]] as ia, array[true,false] as ba, '[0:1]={5,6}'::int[] as bounds, '{}'::text[] as empty`;

  it('gives JSON values in objects if the request has no Neon headers', async () => {
    const { status, body } = await answerOf(post({ query: ALL }));
    expect(status).toBe(200);
    expect(body).toMatchObject({ command: 'SELECT', rowCount: 1, rowAsArray: false });
    expect((body as { rows: unknown[] }).rows).toEqual([
      {
        b: true,
        i: 7,
        big: '8',
        f: 1.5,
        nan: 'NaN',
        n: '1.50',
        t: 'x',
        nothing: null,
        j: { a: [1] },
        ta: ['a"b', 'NULL', null],
        ia: [
          [1, 2],
          [3, 4],
        ],
        ba: [true, false],
        bounds: [5, 6],
        empty: [],
      },
    ]);
  });

  it('gives the text of Postgres in arrays if the Neon headers ask for it', async () => {
    const headers = { 'Neon-Raw-Text-Output': 'true', 'Neon-Array-Mode': 'true' };
    const { body } = await answerOf(post({ query: 'select true, false, 7, null, array[1,2]' }, headers));
    expect(body).toMatchObject({ rowAsArray: true, rows: [['t', 'f', '7', null, '{1,2}']] });
  });

  it('prefers the array mode of a query to that of the header', async () => {
    const queries = [{ query: 'select 1 as a', arrayMode: false }, { query: 'select 2 as a' }];
    const { body } = await answerOf(post({ queries }, { 'Neon-Array-Mode': 'true' }));
    expect(body).toMatchObject({ results: [{ rows: [{ a: 1 }] }, { rows: [[2]] }] });
  });

  it('answers an empty batch with no results, and repeats the options of a transaction', async () => {
    const response = await post({ queries: [] }, { 'Neon-Batch-Isolation-Level': 'Serializable' });
    expect(response.headers.get('neon-batch-isolation-level')).toBe('Serializable');
    expect(await response.json()).toEqual({ results: [] });
  });

  it.each([
    ['numbers', [41, 1], 'select $1::int + $2::int as v', 42],
    ['booleans', [true], 'select $1::bool as v', true],
    ['objects', [{ a: 'x' }], 'select $1::jsonb as v', { a: 'x' }],
    ['arrays', [[1, null, 3]], 'select $1::int[] as v', [1, null, 3]],
    ['arrays of text', [['a', 'b"c', 'NULL']], 'select $1::text[] as v', ['a', 'b"c', 'NULL']],
    ['arrays of objects', [[{ a: 1 }]], 'select $1::jsonb[] as v', [{ a: 1 }]],
    ['nested arrays', [[[1], [2]]], 'select $1::int[] as v', [[1], [2]]],
  ])('takes %s as JSON parameters', async (_what, params, query, expected) => {
    expect((await answerOf(post({ query, params }))).body).toMatchObject({ rows: [{ v: expected }] });
  });
});

describe('the gateway', () => {
  it.each([
    ['nonsense', 'invalid connection string: relative URL without a base'],
    ['https://weir:secret@db.example.test/weir', 'incorrect scheme'],
    ['postgresql://weir:secret@db.example.test', 'invalid database name'],
    ['postgresql://db.example.test/weir', 'missing username'],
  ])('refuses the connection string %s', async (connectionString, message) => {
    const answer = await answerOf(
      post({ query: 'select 1' }, { 'Neon-Connection-String': connectionString }),
    );
    expect(answer).toMatchObject({ status: 400, body: { message, code: null } });
  });

  it('refuses a request without a connection string', async () => {
    const answer = await answerOf(
      fetch(gateway.fetchEndpoint, { method: 'POST', body: '{"query":"select 1"}' }),
    );
    expect(answer).toMatchObject({
      status: 400,
      body: { message: 'invalid header: neon-connection-string' },
    });
  });

  it.each(['', 'not json', '[]', '{}', '{"query":1}', '{"queries":[{}]}', '{"query":"select 1","params":1}'])(
    'refuses the body %j',
    async (body) => {
      const answer = await answerOf(post(body));
      expect(answer.status).toBe(400);
      expect(answer.body).toMatchObject({
        message: expect.stringMatching(/^could not parse the HTTP request body: /),
      });
    },
  );

  it('refuses an unknown isolation level', async () => {
    const answer = await answerOf(post({ queries: [] }, { 'Neon-Batch-Isolation-Level': 'Chaos' }));
    expect(answer).toMatchObject({ status: 400, body: { message: 'invalid isolation level' } });
  });

  it('refuses bodies and answers beyond the limit, and says how large they may be', async () => {
    const large = await answerOf(post({ query: 'select 1', params: ['x'.repeat(MAX_BYTES)] }));
    const message = `is too large (max is ${MAX_BYTES} bytes)`;
    expect(large).toMatchObject({ status: 413, body: { message: `request ${message}` } });
    const wide = await answerOf(post({ query: `select repeat('x', ${MAX_BYTES})` }));
    expect(wide).toMatchObject({ status: 507, body: { message: `response ${message}` } });
  });

  it('refuses other paths and methods', async () => {
    expect((await fetch(gateway.fetchEndpoint)).status).toBe(400);
    expect(await answerOf(fetch(`${gateway.url}/v2`, { method: 'POST' }))).toEqual({
      status: 400,
      body: 'query is not supported',
    });
  });

  it('answers 500 when no Postgres is behind it', async () => {
    const databaseUrl = `postgres://nobody@127.0.0.1:${await freePort()}/none`;
    const lonely = await startNeonGateway({ port: await freePort(), databaseUrl });
    const headers = { 'Neon-Connection-String': CONNECTION_STRING };
    const answer = await fetch(lonely.fetchEndpoint, {
      method: 'POST',
      headers,
      body: '{"query":"select 1"}',
    });
    expect(answer.status).toBe(500);
    await lonely.stop();
  });

  it('says in one line that its port is taken', async () => {
    const starting = startNeonGateway({ port: gateway.port, databaseUrl: postgres.url });
    await expect(starting).rejects.toThrow(new StackError(`port ${gateway.port} (Neon gateway) is taken`));
  });
});

describe('for callers that leave, the gateway', () => {
  it('rolls back a batch whose caller leaves before the batch is done', async () => {
    await post({ query: 'create table if not exists half (n int)' });
    const caller = new AbortController();
    const queries = [{ query: 'insert into half values (1)' }, { query: 'select pg_sleep(0.2)' }];
    const batch = post({ queries: [...queries, ...queries] }, {}, { signal: caller.signal });
    setTimeout(() => caller.abort(), 100);
    await expect(batch).rejects.toThrow();
    const { body } = await answerOf(post({ query: 'select count(*)::int as n from half' }));
    expect(body).toMatchObject({ rows: [{ n: 0 }] });
  });
});

describe('stopping the gateway', () => {
  it('does not wait for a query that waits for a lock', async () => {
    const blocker = new pg.Client({ connectionString: postgres.url });
    await blocker.connect();
    await blocker.query('create table held (n int)');
    await blocker.query('begin; lock table held in access exclusive mode');
    const stopped = await startNeonGateway({ port: 0, databaseUrl: postgres.url });
    const headers = { 'Neon-Connection-String': CONNECTION_STRING };
    const body = '{"query":"select n from held"}';
    const waiting = fetch(stopped.fetchEndpoint, { method: 'POST', headers, body });
    const failed = expect(waiting).rejects.toThrow();
    const lockWaits = async () =>
      (await blocker.query(`select from pg_locks where not granted and relation = 'held'::regclass`))
        .rowCount;
    await expect.poll(lockWaits).toBe(1);
    await stopped.stop();
    await failed;
    await blocker.query('commit');
    await blocker.end();
  });
});

describe('with a fault, the gateway', () => {
  const ask = (init: RequestInit = {}) => post({ query: 'select 1 as one' }, {}, init);

  afterEach(async () => {
    await gateway.faults.clear();
    expect((await ask()).status).toBe(200);
  });

  it('answers with the given status, and does not run the query', async () => {
    await post({ query: 'create table if not exists untouched (n int)' });
    await gateway.faults.set({ status: 503 });
    expect((await post({ query: 'insert into untouched values (1)' })).status).toBe(503);
    await gateway.faults.clear();
    const { body } = await answerOf(post({ query: 'select count(*)::int as n from untouched' }));
    expect(body).toMatchObject({ rows: [{ n: 0 }] });
  });

  it('answers garbage, or JSON of the wrong shape', async () => {
    await gateway.faults.set({ garbage: true });
    const garbage = await ask();
    expect(garbage.status).toBe(200);
    await expect(garbage.json()).rejects.toThrow();
    await gateway.faults.set({ wrongShape: true });
    expect(await (await ask()).json()).not.toHaveProperty('rows');
  });

  it.each<Faults>([{ latencyMs: 80 }, { latencyMs: { min: 80, max: 90 } }])(
    'answers late: %j',
    async (faults) => {
      await gateway.faults.set(faults);
      const start = performance.now();
      expect((await ask()).status).toBe(200);
      // Timers may fire up to a millisecond early.
      expect(performance.now() - start).toBeGreaterThanOrEqual(79);
    },
  );

  it('hangs: it never answers', async () => {
    await gateway.faults.set({ hang: true });
    await expect(ask({ signal: AbortSignal.timeout(100) })).rejects.toMatchObject({ name: 'TimeoutError' });
  });

  it('runs the query, then breaks off in the middle of the answer', async () => {
    await post({ query: 'create table if not exists done (n int)' });
    await gateway.faults.set({ resetMidReply: true });
    await expect(
      post({ query: 'insert into done values (1)' }).then((reply) => reply.text()),
    ).rejects.toThrow();
    await gateway.faults.clear();
    const { body } = await answerOf(post({ query: 'select count(*)::int as n from done' }));
    expect(body).toMatchObject({ rows: [{ n: 1 }] });
  });

  it('refuses connections and listens on the same port again', async () => {
    await gateway.faults.set({ refuse: true });
    // The first request may still use a connection that was open before.
    await ask().catch(() => {});
    await expect(ask()).rejects.toMatchObject({ cause: { code: 'ECONNREFUSED' } });
  });

  it('hits the given share of the requests', async () => {
    await gateway.faults.set({ status: 500, rate: 0.25 });
    const statuses: number[] = [];
    for (const draw of [0.1, 0.24, 0.25, 0.9]) {
      chance = draw;
      statuses.push((await ask()).status);
    }
    expect(statuses).toEqual([500, 500, 200, 200]);
  });
});
