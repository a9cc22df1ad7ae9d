// Who may enter: tokens, roles, the same answer for everybody else, and a brake on guessing.

import { OpenAPIHono } from '@hono/zod-openapi';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { AdminEnv } from '../../src/admin/app.ts';
import { createAuth, type GateServices, createGate as openGate } from '../../src/admin/auth.ts';
import { type CounterOperations, type CounterStore, operationsBy } from '../../src/core/ports/region.ts';
import { createClient } from '../../src/redis/client.ts';
import { createUpstashStore } from '../../src/redis/counter-store.ts';
import { type Harness, startHarness, TOKEN } from '../local/upstash-gateway-harness.ts';
import { TOKENS } from './harness.ts';

interface Call {
  readonly method?: string;
  readonly path?: string;
  readonly authorization?: string | undefined;
  readonly ip?: string;
  readonly headers?: Record<string, string>;
}

/** The gate alone, in front of a route that says who came in. */
function createGate(overrides: Partial<GateServices> = {}) {
  const logged: string[] = [];
  const app = new OpenAPIHono<AdminEnv>().basePath('/_weir/admin');
  const services = {
    regions: [],
    auth: { tokens: Object.values(TOKENS) },
    deadlineMs: 1_000,
    now: () => Date.now(),
    // The whole admin route logs in the same way.
    log: { error: (event: string, error: unknown) => logged.push(`${event} ${error}`) },
    ...overrides,
  };
  const gate = openGate(services);
  app.use(createAuth(gate));
  app.all('/*', (c) => c.json(c.get('actor')));
  const call = async ({ method = 'GET', path = '/rules', authorization, ip = '192.0.2.1', headers }: Call) =>
    app.fetch(
      new Request(`https://weir.test/_weir/admin${path}`, {
        method,
        headers: {
          'CF-Connecting-IP': ip,
          ...(authorization && { Authorization: authorization }),
          ...headers,
        },
      }),
    );
  return { call, logged };
}

const bearer = (token: string) => `Bearer ${token}`;
const basic = (token: string) => `Basic ${btoa(`anything:${token}`)}`;
const { admin, other, read } = TOKENS;

describe('tokens', () => {
  test.each([admin, other, read])('$name acts under the name of the token', async ({ token, name, role }) => {
    const response = await createGate().call({ authorization: bearer(token) });
    expect(response.status).toBe(200);
    expect(await response.json()).toEqual({ name, role });
  });

  test('the scheme may be written in any case', async () => {
    expect((await createGate().call({ authorization: `bearer ${admin.token}` })).status).toBe(200);
  });

  test.each([
    ['none', undefined],
    ['a wrong one', bearer('wrong')],
    ['an empty one', 'Bearer '],
    ['the beginning of a right one', bearer(admin.token.slice(0, -1))],
    ['a right one and more', bearer(`${admin.token}x`)],
    ['a right one without a scheme', admin.token],
    ['another scheme', `Digest ${admin.token}`],
    ['two tokens', bearer(`${admin.token} ${other.token}`)],
    ['Basic that is not base64', 'Basic %%%'],
    ['Basic with the token as the user', `Basic ${btoa(`${admin.token}:`)}`],
  ])('%s gets a 401, the same for every path and method', async (_, authorization) => {
    const { call } = createGate();
    const answers = [];
    for (const method of ['GET', 'POST', 'PUT', 'DELETE', 'OPTIONS'])
      for (const path of ['/rules', '/nothing-here']) {
        const ip = `192.0.2.${answers.length}`;
        const response = await call({ method, path, authorization, ip });
        answers.push([response.status, await response.text(), [...response.headers]]);
      }
    const [status, body] = answers[0] ?? [];
    expect(status).toBe(401);
    expect(JSON.parse(String(body))).toMatchObject({ code: 'unauthorized', status: 401 });
    expect(new Set(answers.map((answer) => JSON.stringify(answer))).size).toBe(1);
    expect(Object.fromEntries(answers[0]?.[2] as [string, string][])).toMatchObject({
      'www-authenticate': 'Bearer',
      'content-type': 'application/problem+json',
    });
  });

  test('without a configured token every request is refused', async () => {
    const { call } = createGate({ auth: { tokens: [] } });
    expect((await call({ authorization: bearer('') })).status).toBe(401);
    expect((await call({ authorization: bearer('x') })).status).toBe(401);
  });

  test('a browser may read with the token as password, but may not change anything', async () => {
    const { call } = createGate();
    expect((await call({ authorization: basic(admin.token) })).status).toBe(200);
    for (const method of ['POST', 'PUT', 'PATCH', 'DELETE'])
      expect((await call({ method, authorization: basic(admin.token) })).status).toBe(401);
  });

  test('a script cannot use the password of the browser, and its tries do not lock the person out', async () => {
    const { call } = createGate();
    for (let i = 0; i < 12; i += 1) {
      const headers = { 'Sec-Fetch-Dest': 'empty' };
      const response = await call({ authorization: basic(admin.token), headers });
      expect(response.status).toBe(403);
    }
    const opened = { authorization: basic(admin.token), headers: { 'Sec-Fetch-Dest': 'document' } };
    expect((await call(opened)).status).toBe(200);
  });

  test('a browser that opens the admin route is asked for the token, on a host where nothing is proxied', async () => {
    const ask = async (adminHost?: string) => {
      const { call } = createGate({ auth: { tokens: [admin], adminHost } });
      const response = await call({ headers: { 'Sec-Fetch-Mode': 'navigate' } });
      return response.headers.get('WWW-Authenticate');
    };
    expect(await ask('weir.test')).toBe('Basic realm="weir"');
    // A proxied page could ask for the password of the same realm.
    expect(await ask()).toBe('Bearer');
  });

  test.each([
    ['a guessed token', 'guess-123', 401],
    ['a valid token', admin.token, 200],
  ])('%s reaches neither the log nor the answer', async (_, token, status) => {
    const { call, logged } = createGate();
    const response = await call({ authorization: bearer(token) });
    expect(response.status).toBe(status);
    expect(await response.text()).not.toContain(token);
    expect(logged).toEqual([]);
  });
});

describe('the role read', () => {
  test('reads and explains', async () => {
    const { call } = createGate();
    const authorization = bearer(read.token);
    expect((await call({ authorization })).status).toBe(200);
    expect((await call({ authorization, method: 'HEAD' })).status).toBe(200);
    expect((await call({ authorization, method: 'POST', path: '/explain' })).status).toBe(200);
  });

  test.each([
    ['POST', '/rules'],
    ['PUT', '/rules/1'],
    ['PATCH', '/explain'],
    ['DELETE', '/rules/1'],
    ['POST', '/import'],
    ['POST', '/publish'],
    ['POST', '/explain/more'],
    ['POST', '/nothing-here'],
  ])('is refused %s %s', async (method, path) => {
    const response = await createGate().call({ authorization: bearer(read.token), method, path });
    expect(response.status).toBe(403);
    expect(await response.json()).toMatchObject({ code: 'read-only-token' });
  });
});

describe('failed attempts', () => {
  let redis: Harness;
  let store: CounterStore;
  beforeEach(async () => {
    redis = await startHarness();
    store = createUpstashStore(createClient({ url: redis.gateway.url, token: TOKEN }));
    await startOfMinute();
  });
  afterEach(() => redis.stop());

  const wrong = { authorization: bearer('wrong') };
  const right = { authorization: bearer(admin.token) };
  const statuses = async (count: number, call: () => Promise<Response>) => {
    const seen: number[] = [];
    for (let i = 0; i < count; i += 1) seen.push((await call()).status);
    return seen;
  };

  const countCalls = () => {
    const calls: string[] = [];
    const operations: CounterOperations = store;
    const counted: CounterStore = {
      ...store,
      ...operationsBy((operation, call, signal) => {
        calls.push(operation);
        return operations[operation](call, signal);
      }),
    };
    return { calls, counted };
  };

  test('are answered ten times a minute; after that even a right token is refused', async () => {
    const { call } = createGate({ regions: [{ name: 'eu', share: 1, store }] });
    expect(await statuses(10, () => call(wrong))).toEqual(Array(10).fill(401));
    const response = await call(right);
    expect(response.status).toBe(429);
    expect(await response.json()).toMatchObject({ code: 'too-many-attempts' });
    expect(Number(response.headers.get('Retry-After'))).toBeGreaterThan(0);
    expect(Number(response.headers.get('Retry-After'))).toBeLessThanOrEqual(60);
  });

  test('count for all isolates together, and for each address on its own', async () => {
    const regions = [{ name: 'eu', share: 1, store }];
    const [one, another] = [createGate({ regions }), createGate({ regions })];
    await statuses(5, () => one.call(wrong));
    await statuses(5, () => another.call(wrong));
    expect((await one.call(wrong)).status).toBe(429);
    expect((await another.call(right)).status).toBe(429);
    expect((await one.call({ ...right, ip: '192.0.2.2' })).status).toBe(200);
  });

  test('in a burst give a right token among them the answer that wrong ones get', async () => {
    const { call } = createGate({ regions: [{ name: 'eu', share: 1, store }] });
    // Digests are made in threads, and could end in another order than that of the calls.
    const make = crypto.subtle.digest.bind(crypto.subtle);
    let last: Promise<unknown> = Promise.resolve();
    const inOrder = vi.spyOn(crypto.subtle, 'digest').mockImplementation((...input) => {
      const made = last.then(() => make(...input));
      last = made;
      return made;
    });
    const burst = Array.from({ length: 30 }, (_, i) => call(i < 15 ? wrong : right));
    const seen = (await Promise.all(burst)).map(({ status }) => status);
    inOrder.mockRestore();
    expect(seen).toEqual([...Array(10).fill(401), ...Array(20).fill(429)]);
  });

  test('that Redis has counted are remembered: no token is looked at until the minute ends', async () => {
    const { calls, counted } = countCalls();
    const elsewhere = createGate({ regions: [{ name: 'eu', share: 1, store }] });
    await statuses(10, () => elsewhere.call(wrong));
    const { call } = createGate({ regions: [{ name: 'eu', share: 1, store: counted }] });
    const answers = [];
    for (const one of [right, wrong, right, wrong, ...Array(20).fill(wrong), right])
      answers.push(await (await call(one)).text());
    expect(new Set(answers).size).toBe(1);
    expect(answers[0]).toContain('too-many-attempts');
    expect(calls).toEqual(['peek']);
  });

  test('of nobody: a right token asks Redis once in five seconds, even while Redis is frozen', async () => {
    let nowMs = Date.now();
    const { calls, counted } = countCalls();
    const { call } = createGate({
      regions: [{ name: 'eu', share: 1, store: counted }],
      deadlineMs: 50,
      now: () => nowMs,
    });
    expect(await statuses(5, () => call(right))).toEqual(Array(5).fill(200));
    expect(calls).toHaveLength(1);
    await redis.redis.freeze();
    nowMs += 5_000;
    expect(await statuses(5, () => call(right))).toEqual(Array(5).fill(200));
    expect(calls).toHaveLength(2);
    // A wrong token from the same address is counted all the same.
    expect(await statuses(11, () => call(wrong))).toEqual([...Array(10).fill(401), 429]);
    redis.redis.thaw();
  });

  test('beyond the tenth in a minute cost no call to Redis', async () => {
    const { calls, counted } = countCalls();
    const { call } = createGate({ regions: [{ name: 'eu', share: 1, store: counted }] });
    await statuses(10, () => call(wrong));
    const spent = calls.length;
    expect(spent).toBe(20);
    expect(await statuses(50, () => call(wrong))).toEqual(Array(50).fill(429));
    expect((await call(right)).status).toBe(429);
    expect(calls.length).toBe(spent);
    // All at once, from another address: only ten of them ask Redis.
    await Promise.all(Array.from({ length: 100 }, () => call({ ...wrong, ip: '192.0.2.3' })));
    expect(calls.length).toBe(2 * spent);
  });

  test('from one IPv6 network count together', async () => {
    const { call } = createGate({ regions: [{ name: 'eu', share: 1, store }] });
    for (let i = 0; i < 10; i += 1) await call({ ...wrong, ip: `2001:db8:1:2::${i}` });
    expect((await call({ ...wrong, ip: '2001:db8:1:2:ffff::1' })).status).toBe(429);
    expect((await call({ ...wrong, ip: '2001:db8:1:3::1' })).status).toBe(401);
  });

  test('do not include right tokens, nor requests without a token', async () => {
    const { call } = createGate({ regions: [{ name: 'eu', share: 1, store }] });
    expect(await statuses(12, () => call(right))).toEqual(Array(12).fill(200));
    expect(await statuses(12, () => call({}))).toEqual(Array(12).fill(401));
    expect((await call(right)).status).toBe(200);
  });

  test.each([
    ['is gone', (): unknown => redis.stop()],
    ['is frozen', (): unknown => redis.redis.freeze()],
  ])('are counted by the isolate while Redis %s, and a right token works', async (_, breakIt) => {
    await breakIt();
    const { call } = createGate({ regions: [{ name: 'eu', share: 1, store }], deadlineMs: 50 });
    expect((await call(right)).status).toBe(200);
    expect(await statuses(11, () => call(wrong))).toEqual([...Array(10).fill(401), 429]);
    expect((await call({ ...right, ip: '192.0.2.2' })).status).toBe(200);
    redis.redis.thaw();
  });

  test('that the isolate counted are forgotten after a minute', async () => {
    let nowMs = 60_000_000;
    const { call } = createGate({ now: () => nowMs });
    expect(await statuses(11, () => call(wrong))).toEqual([...Array(10).fill(401), 429]);
    nowMs += 59_999;
    expect((await call(right)).status).toBe(429);
    nowMs += 1;
    expect((await call(right)).status).toBe(200);
  });
});

/** Windows are aligned, so a test that spans two of them would find the second one empty. */
async function startOfMinute(): Promise<void> {
  const left = 60_000 - (Date.now() % 60_000);
  if (left < 5_000) await new Promise((resolve) => setTimeout(resolve, left));
}
