// The gateway's REST API, request by request, without any client library.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type Harness, startHarness, TOKEN } from './upstash-gateway-harness.ts';

let harness: Harness;
beforeAll(async () => {
  harness = await startHarness();
});
afterAll(() => harness.stop());
beforeEach(() => harness.send('FLUSHALL'));

const post = (path: string, value: unknown, headers: Record<string, string> = {}) =>
  harness.request(path, { method: 'POST', body: JSON.stringify(value), headers });

describe('one command', () => {
  test('answers 200 with the result, even if it is null', async () => {
    expect(await harness.send('SET', 'key', 'value')).toEqual({ status: 200, json: { result: 'OK' } });
    expect(await harness.send('GET', 'key')).toEqual({ status: 200, json: { result: 'value' } });
    expect(await harness.send('GET', 'none')).toEqual({ status: 200, json: { result: null } });
    expect(await harness.send('DEL', 'key')).toEqual({ status: 200, json: { result: 1 } });
  });

  test('keeps replies flat, as Redis sends them', async () => {
    await harness.send('HSET', 'hash', 'a', 1, 'b', 2);
    expect((await harness.send('HGETALL', 'hash')).json).toEqual({ result: ['a', '1', 'b', '2'] });
    await harness.send('ZADD', 'zset', 1.5, 'm');
    expect((await harness.send('ZRANGE', 'zset', 0, -1, 'WITHSCORES')).json.result).toEqual(['m', '1.5']);
    expect((await harness.send('SCAN', 0)).json.result).toEqual(['0', expect.any(Array)]);
  });

  test('answers 400 with the error of Redis', async () => {
    await harness.send('SET', 'key', 'text');
    expect(await harness.send('INCR', 'key')).toEqual({
      status: 400,
      json: { error: 'ERR value is not an integer or out of range' },
    });
    expect((await harness.send('LPUSH', 'key', 'x')).json.error).toMatch(/^WRONGTYPE /);
    expect((await harness.send('GET')).json.error).toBe("ERR wrong number of arguments for 'get' command");
    expect((await harness.send('NOSUCH')).json.error).toMatch(/^ERR unknown command 'NOSUCH'/i);
  });

  test('takes numbers, booleans, null and nested JSON as text', async () => {
    for (const [value, text] of [
      [1, '1'],
      [-1.5, '-1.5'],
      [true, 'true'],
      [null, 'null'],
      [{ a: [1, 'ü'] }, '{"a":[1,"ü"]}'],
      [[], '[]'],
      ['', ''],
    ]) {
      await harness.send('SET', 'key', value);
      expect((await harness.send('GET', 'key')).json.result).toBe(text);
    }
  });

  test('answers integers with all their digits', async () => {
    await harness.send('SET', 'big', '9223372036854775806');
    const response = await fetch(`${harness.gateway.url}/incr/big?_token=${TOKEN}`);
    expect(await response.text()).toBe('{"result":9223372036854775807}');
  });

  test.each([
    ['not JSON at all', '{nope', 'ERR failed to parse: the body is not JSON'],
    ['an empty body', '', 'ERR failed to parse: the body is not JSON'],
    ['an object', '{}', 'ERR failed to parse: a command must be a JSON array'],
    ['a string', '"PING"', 'ERR failed to parse: a command must be a JSON array'],
    ['an empty command', '[]', 'ERR empty command'],
    ['an empty name', '[""]', 'ERR empty command'],
    ['a name that is no string', '[1]', 'ERR the name of a command must be a string'],
  ])('answers 400 to %s', async (_what, body, error) => {
    expect(await harness.request('/', { method: 'POST', body })).toEqual({ status: 400, json: { error } });
  });

  test('takes a body of 10 MB and answers 413 to a larger one', async () => {
    const command = (bytes: number) => JSON.stringify(['STRLEN', 'x'.repeat(bytes - '["STRLEN",""]'.length)]);
    const limit = 10 * 1024 * 1024;
    const fits = await harness.request('/', { method: 'POST', body: command(limit) });
    expect(fits).toEqual({ status: 200, json: { result: 0 } });
    const larger = await harness.request('/', { method: 'POST', body: command(limit + 1) });
    expect(larger.status).toBe(413);
    expect(larger.json.error).toMatch(/^ERR max request size exceeded/);
  });
});

describe('the path as a command', () => {
  test('takes arguments from the path, decoded', async () => {
    expect((await harness.request('/set/a%2Fb/v%20%C3%BC')).json).toEqual({ result: 'OK' });
    expect((await harness.send('GET', 'a/b')).json.result).toBe('v ü');
    expect((await harness.request('/get/a%2fb')).json.result).toBe('v ü');
    expect((await harness.request('/get/%ff')).status).toBe(400);
  });

  test('appends query parameters after the path', async () => {
    await harness.request('/set/key/value?EX=100');
    expect((await harness.request('/ttl/key')).json.result).toBe(100);
    expect((await harness.request('/set/key/other?NX')).json.result).toBeNull();
  });

  test.each(['POST', 'PUT'])(
    'puts the body of a %s between path and query, byte for byte',
    async (method) => {
      const body = Buffer.from([0, 255, 254, 10, 13, 128]);
      await harness.request('/set/bytes?EX=50', { method, body });
      expect((await harness.request('/ttl/bytes')).json.result).toBe(50);
      const read = await harness.request('/get/bytes', { headers: { 'Upstash-Encoding': 'base64' } });
      expect(Buffer.from(read.json.result, 'base64')).toEqual(body);
    },
  );

  test('runs a command for HEAD and sends no body', async () => {
    expect(await harness.request('/set/head/1', { method: 'HEAD' })).toEqual({
      status: 200,
      json: undefined,
    });
    expect((await harness.send('GET', 'head')).json.result).toBe('1');
  });

  test('answers 400 when there is no command', async () => {
    expect(await harness.request('/')).toEqual({ status: 400, json: { error: 'ERR empty command' } });
  });
});

describe('the gateway', () => {
  const unauthorized = { status: 401, json: { error: 'WRONGPASS invalid or missing auth token' } };

  test('takes the token as a query parameter, which does not become an argument', async () => {
    const anonymous = { headers: { authorization: '' } };
    expect((await harness.request(`/echo/hi?_token=${TOKEN}`, anonymous)).json).toEqual({ result: 'hi' });
  });

  test.each(['', 'Bearer ', 'Bearer wrong', `Basic ${TOKEN}`, `Bearer ${TOKEN}x`])(
    'answers 401 to the authorization "%s"',
    async (authorization) => {
      expect(await harness.request('/set/key/1', { headers: { authorization } })).toEqual(unauthorized);
      expect((await harness.send('GET', 'key')).json.result).toBeNull();
    },
  );

  test('answers 401 to a wrong token parameter, and does so for pipelines too', async () => {
    const anonymous = { headers: { authorization: '' } };
    expect(await harness.request('/ping?_token=wrong', anonymous)).toEqual(unauthorized);
    expect(await post('/pipeline', [['PING']], anonymous.headers)).toEqual(unauthorized);
    expect(await post('/multi-exec', [['PING']], anonymous.headers)).toEqual(unauthorized);
  });

  test.each(['DELETE', 'PATCH', 'OPTIONS'])('answers 405 to %s', async (method) => {
    expect((await harness.request('/ping', { method })).status).toBe(405);
  });
});

describe('pipelines', () => {
  test('answer with one entry for each command, errors included', async () => {
    const commands = [['SET', 'k', 'v'], ['INCR', 'k'], ['GET', 'none'], ['NOSUCH'], ['GET', 'k']];
    const { status, json } = await post('/pipeline', commands);
    expect(status).toBe(200);
    expect(json).toEqual([
      { result: 'OK' },
      { error: 'ERR value is not an integer or out of range' },
      { result: null },
      { error: expect.stringMatching(/^ERR unknown command/) },
      { result: 'v' },
    ]);
  });

  test.each(['/pipeline', '/multi-exec'])(
    '%s answers 400 to a body that is not a list of commands',
    async (path) => {
      expect(await post(path, 'x')).toEqual({
        status: 400,
        json: { error: 'ERR failed to parse: expected an array of commands' },
      });
      expect((await post(path, [])).json).toEqual({ error: 'ERR empty pipeline request' });
      expect((await post(path, ['PING'])).json.error).toMatch(/a command must be a JSON array/);
      expect((await post(path, [['PING'], []])).json.error).toBe('ERR empty command');
    },
  );
});

describe('transactions', () => {
  test('answer with one entry for each command, and run all of them even if one fails', async () => {
    const { status, json } = await post('/multi-exec', [
      ['SET', 'k', 'v'],
      ['INCR', 'k'],
      ['GET', 'k'],
    ]);
    expect(status).toBe(200);
    expect(json).toEqual([
      { result: 'OK' },
      { error: 'ERR value is not an integer or out of range' },
      { result: 'v' },
    ]);
  });

  test('run nothing and answer with one error when a command cannot be queued', async () => {
    expect(
      await post('/multi-exec', [
        ['SET', 'k', 'v'],
        ['SET', 'k'],
      ]),
    ).toEqual({
      status: 400,
      json: { error: "ERR wrong number of arguments for 'set' command" },
    });
    expect((await post('/multi-exec', [['SET', 'k', 'v'], ['MONITOR']])).status).toBe(400);
    expect((await harness.send('GET', 'k')).json.result).toBeNull();
  });

  test('let no other command run in between', async () => {
    const increments = Array.from({ length: 5 }, () => ['INCR', 'n']);
    const runs = Array.from({ length: 40 }, async () => {
      const [transaction] = await Promise.all([post('/multi-exec', increments), harness.send('INCR', 'n')]);
      return transaction.json.map(({ result }: { result: number }) => result) as number[];
    });
    for (const [first = 0, ...rest] of await Promise.all(runs)) {
      expect(rest).toEqual([first + 1, first + 2, first + 3, first + 4]);
    }
    expect((await harness.send('GET', 'n')).json.result).toBe('240');
  });
});

describe('base64', () => {
  const base64 = { 'Upstash-Encoding': 'base64' };
  const encoded = (text: string) => Buffer.from(text).toString('base64');

  test('encodes every string except a bare OK, including strings in arrays', async () => {
    expect((await post('/', ['SET', 'k', 'v'], base64)).json).toEqual({ result: 'OK' });
    expect((await post('/', ['PING'], base64)).json).toEqual({ result: encoded('PONG') });
    expect((await post('/', ['MGET', 'k', 'none'], base64)).json).toEqual({ result: [encoded('v'), null] });
    const nested = await post('/', ['EVAL', "return {'a', {'OK', 7}}", 0], base64);
    expect(nested.json).toEqual({ result: [encoded('a'), [encoded('OK'), 7]] });
  });

  test('leaves errors and numbers alone', async () => {
    await harness.send('SET', 'k', 'v');
    expect((await post('/', ['INCR', 'k'], base64)).json).toEqual({
      error: 'ERR value is not an integer or out of range',
    });
    expect((await post('/', ['STRLEN', 'k'], base64)).json).toEqual({ result: 1 });
  });

  test('works in pipelines and transactions', async () => {
    const commands = [
      ['SET', 'k', 'ü'],
      ['GET', 'k'],
    ];
    const expected = [{ result: 'OK' }, { result: encoded('ü') }];
    expect((await post('/pipeline', commands, base64)).json).toEqual(expected);
    expect((await post('/multi-exec', commands, base64)).json).toEqual(expected);
  });

  test('is needed for bytes that are not UTF-8: without it they become replacement characters', async () => {
    await harness.request('/set/bytes', { method: 'POST', body: Buffer.from([0x61, 0xff]) });
    expect((await harness.send('GET', 'bytes')).json.result).toBe('a\ufffd');
  });

  test('comes in JSON only: another response format is refused', async () => {
    expect((await post('/', ['PING'], { 'Upstash-Response-Format': 'resp2' })).status).toBe(400);
    expect((await post('/', ['PING'], { 'Upstash-Response-Format': 'json' })).status).toBe(200);
  });
});

describe('with commands that make no sense over REST, the gateway', () => {
  const refused = [
    ['SUBSCRIBE', 'c'],
    ['psubscribe', '*'],
    ['MONITOR'],
    ['BLPOP', 'k', 0],
    ['BZPOPMIN', 'k', 0],
    ['BLMOVE', 'a', 'b', 'LEFT', 'LEFT', 0],
    ['XREAD', 'BLOCK', 0, 'STREAMS', 's', '$'],
    ['XREADGROUP', 'GROUP', 'g', 'c', 'block', 0, 'STREAMS', 's', '>'],
    ['WAIT', 1, 0],
    ['SELECT', 1],
    ['CLIENT', 'KILL', 'ID', 1],
    ['CLIENT', 'REPLY', 'OFF'],
    ['CONFIG', 'SET', 'maxmemory', 1],
    ['SHUTDOWN', 'NOSAVE'],
    ['MULTI'],
    ['EXEC'],
    ['QUIT'],
    ['HELLO', 3],
    ['RESET'],
    ['AUTH', 'x'],
    ['SCRIPT', 'DEBUG', 'YES'],
    ['DEBUG', 'SLEEP', 10],
  ];
  test.each(refused)('refuses %s and goes on working', async (...command) => {
    const { status, json } = await harness.send(...command);
    expect(status).toBe(400);
    expect(json.error).toMatch(/^ERR Command is not available: '/);
    expect((await harness.send('ECHO', 'still here')).json.result).toBe('still here');
  });

  test('accepts a stream named block', async () => {
    await harness.send('XADD', 'block', '1-1', 'f', 'v');
    const read = await harness.send('XREAD', 'COUNT', 1, 'STREAMS', 'block', 0);
    expect(read.json.result).toEqual([['block', [['1-1', ['f', 'v']]]]]);
  });
});
