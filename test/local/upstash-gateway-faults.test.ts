// Everything that can go wrong with an Upstash database, on demand, and how the gateway recovers.
import { Redis } from '@upstash/redis';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { freePort, StackError } from '../../local/ports.ts';
import { type RedisServer, startRedisServer } from '../../local/redis-server.ts';
import { startUpstashGateway } from '../../local/upstash-gateway/server.ts';
import { eventually, type Harness, isPending, startHarness, TOKEN } from './upstash-gateway-harness.ts';

let harness: Harness;
let chance = 0;
beforeAll(async () => {
  harness = await startHarness({ random: () => chance });
});
afterAll(() => harness.stop());
afterEach(async () => {
  chance = 0;
  await harness.gateway.faults.clear();
});

const control = (method: string, value?: unknown) =>
  harness.request('/_gateway/faults', {
    method,
    headers: { authorization: '' },
    ...(value === undefined ? {} : { body: typeof value === 'string' ? value : JSON.stringify(value) }),
  });
const raw = (init: RequestInit = {}) => fetch(`${harness.gateway.url}/incr/n?_token=${TOKEN}`, init);
const works = async () => expect((await harness.send('ECHO', 'fine')).json).toEqual({ result: 'fine' });

describe('faults', () => {
  test('status answers with the given status and does not run the command', async () => {
    await harness.send('SET', 'n', 0);
    for (const status of [500, 429, 401, 503]) {
      await harness.gateway.faults.set({ status });
      const response = await raw();
      expect(response.status).toBe(status);
      expect(await response.json()).toEqual({ error: `ERR fault: status ${status}` });
    }
    await harness.gateway.faults.clear();
    expect((await harness.send('GET', 'n')).json.result).toBe('0');
  });

  test('scriptError answers every script with the given error, and runs other commands', async () => {
    await harness.send('SET', 'n', 0);
    await harness.gateway.faults.set({ scriptError: 'ERR Error running script: @user_script:1: x' });
    for (const name of ['EVAL', 'evalsha'])
      expect(await harness.send(name, `redis.call('INCR', 'n')`, 0)).toMatchObject({
        status: 400,
        json: { error: 'ERR Error running script: @user_script:1: x' },
      });
    expect((await harness.send('GET', 'n')).json.result).toBe('0');
  });

  test('garbage answers 200 with something that is not JSON', async () => {
    await harness.gateway.faults.set({ garbage: true });
    const response = await raw();
    expect(response.status).toBe(200);
    await expect(response.json()).rejects.toThrow(SyntaxError);
    const client = new Redis({ url: harness.gateway.url, token: TOKEN, retry: { retries: 0 } });
    await expect(client.get('n')).rejects.toThrow();
  });

  test('wrongShape answers 200 with JSON that is neither a result nor an error', async () => {
    await harness.gateway.faults.set({ wrongShape: true });
    const response = await raw();
    expect(response.status).toBe(200);
    const body = await response.json();
    expect(body).toBeTypeOf('object');
    expect(body).not.toHaveProperty('result');
    expect(body).not.toHaveProperty('error');
  });

  test('resetMidReply runs the command, then drops the connection in the middle of the answer', async () => {
    await harness.send('SET', 'n', 0);
    await harness.gateway.faults.set({ resetMidReply: true });
    const response = await raw();
    expect(response.status).toBe(200);
    await expect(response.text()).rejects.toThrow();
    await harness.gateway.faults.clear();
    expect((await harness.send('GET', 'n')).json.result).toBe('1');
  });

  test('loseReply runs the command, then drops the connection without an answer', async () => {
    await harness.send('SET', 'n', 0);
    await harness.gateway.faults.set({ loseReply: true });
    await expect(raw()).rejects.toThrow();
    await harness.gateway.faults.clear();
    expect((await harness.send('GET', 'n')).json.result).toBe('1');
  });

  test('hang accepts the request and never answers, even after it is cleared', async () => {
    await harness.gateway.faults.set({ hang: true });
    const abort = new AbortController();
    const hanging = raw({ signal: abort.signal });
    expect(await isPending(hanging)).toBe(true);
    await harness.gateway.faults.clear();
    await works();
    expect(await isPending(hanging, 20)).toBe(true);
    abort.abort();
    await expect(hanging).rejects.toThrow();
  });

  test('latencyMs delays the answer by the given time, or by a random one from a range', async () => {
    await harness.gateway.faults.set({ latencyMs: 60 });
    const start = performance.now();
    await works();
    expect(performance.now() - start).toBeGreaterThanOrEqual(59);
    chance = 0.5;
    await harness.gateway.faults.set({ latencyMs: { min: 0, max: 200 } });
    const again = performance.now();
    await works();
    expect(performance.now() - again).toBeGreaterThanOrEqual(99);
  });

  test('refuse closes the port and drops open requests; clear opens the same port again', async () => {
    await harness.gateway.faults.set({ hang: true });
    const hanging = raw();
    hanging.catch(() => {});
    expect(await isPending(hanging, 30)).toBe(true);
    await harness.gateway.faults.set({ refuse: true });
    await expect(hanging).rejects.toThrow();
    await expect(raw()).rejects.toMatchObject({ cause: { code: 'ECONNREFUSED' } });
    await harness.gateway.faults.set({ refuse: true });
    await harness.gateway.faults.clear();
    await works();
  });

  test('refuse can be switched on and off many times', async () => {
    for (let i = 0; i < 15; i++) {
      void harness.gateway.faults.set({ refuse: true });
      await harness.gateway.faults.clear();
    }
    await works();
  });

  test('the last of several changes made at once counts', async () => {
    await harness.gateway.faults.set({ refuse: true });
    void harness.gateway.faults.clear();
    await harness.gateway.faults.set({ refuse: true });
    await expect(raw()).rejects.toMatchObject({ cause: { code: 'ECONNREFUSED' } });
  });

  test('rate hits the given share of the requests', async () => {
    await harness.gateway.faults.set({ status: 500, rate: 0.3 });
    chance = 0.29;
    expect((await raw()).status).toBe(500);
    chance = 0.3;
    expect((await raw()).status).toBe(200);
    chance = 0;
    await harness.gateway.faults.set({ status: 500, rate: 0 });
    expect((await raw()).status).toBe(200);
    chance = 0.999;
    await harness.gateway.faults.set({ status: 500, rate: 1 });
    expect((await raw()).status).toBe(500);
  });

  test('a new set of faults replaces the old one', async () => {
    await harness.gateway.faults.set({ status: 500 });
    await harness.gateway.faults.set({ latencyMs: 1 });
    expect(harness.gateway.faults.get()).toEqual({ latencyMs: 1 });
    await works();
  });
});

describe('over HTTP', () => {
  test('PUT sets, GET shows and DELETE clears the faults, without a token and even during a hang', async () => {
    expect(await control('GET')).toEqual({ status: 200, json: {} });
    const faults = { hang: true, latencyMs: { min: 1, max: 2 }, rate: 0.5 };
    expect(await control('PUT', faults)).toEqual({ status: 200, json: faults });
    expect(await control('GET')).toEqual({ status: 200, json: faults });
    expect(harness.gateway.faults.get()).toEqual(faults);
    expect(await control('DELETE')).toEqual({ status: 200, json: {} });
    await works();
  });

  test('PUT answers before refuse closes the port', async () => {
    expect((await control('PUT', { refuse: true })).status).toBe(200);
    await eventually(() => expect(raw()).rejects.toThrow());
    await harness.gateway.faults.clear();
    await works();
  });

  test('scripts can be flushed', async () => {
    const { json } = await harness.send('SCRIPT', 'LOAD', 'return 1');
    expect((await control('PUT', { flushScripts: true })).json).toEqual({});
    expect((await harness.send('EVALSHA', json.result, 0)).json.error).toMatch(/^NOSCRIPT/);
    await harness.send('SCRIPT', 'LOAD', 'return 1');
    expect((await harness.request('/_gateway/flush-scripts', { method: 'POST' })).status).toBe(200);
    expect((await harness.send('EVALSHA', json.result, 0)).json.error).toMatch(/^NOSCRIPT/);
  });

  test.each<[unknown, string]>([
    [{ latencyMs: -1 }, 'latencyMs: expected milliseconds'],
    [{ latencyMs: { min: 2, max: 1 } }, 'latencyMs: expected milliseconds'],
    [{ latencyMs: 'slow' }, 'latencyMs: expected milliseconds'],
    [{ hang: 'yes' }, 'hang: expected true or false'],
    [{ status: 99 }, 'status: expected an HTTP status'],
    [{ status: '500' }, 'status: expected an HTTP status'],
    [{ rate: 2 }, 'rate: expected a share'],
    [{ refuse: true, rate: 0.5 }, 'rate: does not go with refuse'],
    [{ explode: true }, 'explode: unknown fault'],
    [{ toString: true }, 'toString: unknown fault'],
    [[], 'expected a JSON object'],
    ['{nope', 'the body is not JSON'],
  ])('answers 400 to %j and names the field', async (value, message) => {
    const { status, json } = await control('PUT', value);
    expect(status).toBe(400);
    expect(json.error).toContain(message);
    expect(harness.gateway.faults.get()).toEqual({});
  });

  test('any other path is a 404', async () => {
    expect((await harness.request('/_gateway/nothing')).status).toBe(404);
  });

  test('bad faults are rejected in a program as well', async () => {
    await expect(harness.gateway.faults.set({ rate: 7 })).rejects.toThrow('rate: expected a share');
  });
});

describe('a Redis that freezes or dies', () => {
  test('frozen: requests wait until it thaws', async () => {
    harness.redis.freeze();
    const waiting = [harness.send('ECHO', 'a'), harness.send('ECHO', 'b'), harness.request('/echo/c')];
    expect(await isPending(Promise.race(waiting))).toBe(true);
    harness.redis.thaw();
    expect((await Promise.all(waiting)).map(({ json }) => json.result)).toEqual(['a', 'b', 'c']);
  });

  test('dead: requests fail at once with 503, even those under way, and work again after a restart', async () => {
    const own = await startHarness();
    own.redis.freeze();
    const underWay = own.send('ECHO', 'lost');
    expect(await isPending(underWay, 30)).toBe(true);
    await own.redis.stop();
    const down = { status: 503, json: { error: 'ERR Redis is not reachable' } };
    expect(await underWay).toEqual(down);
    const pipeline = { method: 'POST', body: '[["PING"],["PING"]]' };
    expect(await own.send('PING')).toEqual(down);
    expect(await own.request('/pipeline', pipeline)).toEqual(down);
    expect(await own.request('/multi-exec', pipeline)).toEqual(down);
    expect(await own.request('/_gateway/stats')).toEqual(down);
    const again = await startRedisServer({ port: own.redis.port, name: 'again' });
    await eventually(async () => expect((await own.send('PING')).json).toEqual({ result: 'PONG' }));
    expect((await own.request('/multi-exec', pipeline)).json).toEqual([
      { result: 'PONG' },
      { result: 'PONG' },
    ]);
    await own.gateway.stop();
    await again.stop();
  });
});

describe('when it starts or stops, the gateway', () => {
  test('says in one line that no Redis answers', async () => {
    const redisUrl = `redis://127.0.0.1:${await freePort()}`;
    const start = startUpstashGateway({ port: 0, token: TOKEN, redisUrl, name: 'lonely' });
    await expect(start).rejects.toThrow(
      new StackError(`Upstash gateway lonely: no Redis answers at ${redisUrl}`),
    );
  });

  test('says in one line that the port is taken', async () => {
    const { port } = harness.gateway;
    const start = startUpstashGateway({ port, token: TOKEN, redisUrl: harness.redis.url, name: 'late' });
    await expect(start).rejects.toThrow(new StackError(`port ${port} (Upstash gateway late) is taken`));
  });

  test('does not wait for hung or delayed requests, a frozen Redis, or a closed port', async () => {
    for (const faults of [{ hang: true }, { latencyMs: 500_000 }, { refuse: true }, {}]) {
      const redis: RedisServer = await startRedisServer({ port: 0, name: 'stop' });
      const gateway = await startUpstashGateway({ port: 0, token: TOKEN, redisUrl: redis.url, name: 'stop' });
      await gateway.faults.set(faults);
      redis.freeze();
      const request = fetch(`${gateway.url}/ping?_token=${TOKEN}`);
      request.catch(() => {});
      await isPending(request, 30);
      await gateway.stop();
      await gateway.stop();
      await expect(request).rejects.toThrow();
      await redis.stop();
    }
  });
});
