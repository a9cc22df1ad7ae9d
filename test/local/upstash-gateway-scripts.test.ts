// Scripts through the gateway: the flag that only Upstash knows, SHAs of the original text, keys that must be declared.
import { createHash } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { startRedisServer } from '../../local/redis-server.ts';
import { rewriteScript } from '../../local/upstash-gateway/scripts.ts';
import { eventually, FLAG, type Harness, startHarness } from './upstash-gateway-harness.ts';

let harness: Harness;
beforeAll(async () => {
  harness = await startHarness();
});
afterAll(() => harness.stop());
beforeEach(async () => {
  await harness.send('FLUSHALL');
  await harness.send('SCRIPT', 'FLUSH');
});

const sha1 = (text: string) => createHash('sha1').update(text).digest('hex');
const evaluate = (script: string, keys: string[] = [], ...args: unknown[]) =>
  harness.send('EVAL', script, keys.length, ...keys, ...args);

describe('rewriting', () => {
  const prelude = () => 'PRELUDE';

  test('leaves scripts without the flag alone', () => {
    for (const script of [
      'return 1',
      '#!lua\nreturn 1',
      '#!lua flags=no-writes\nreturn 1',
      `\n${FLAG}`,
      '',
    ]) {
      expect(rewriteScript(script, prelude)).toBeUndefined();
    }
  });

  test('removes the flag, keeps the other flags, and moves no line', () => {
    expect(rewriteScript('#!lua flags=allow-key-locking\na\nb', prelude)).toBe('PRELUDE\na\nb');
    expect(rewriteScript('#!lua flags=allow-key-locking\r\na', prelude)).toBe('PRELUDE\na');
    expect(rewriteScript('#!lua flags=allow-key-locking', prelude)).toBe('PRELUDE\n');
    expect(rewriteScript('#!lua  flags=allow-key-locking,no-writes\na\nb', prelude)).toBe(
      '#!lua flags=no-writes\nPRELUDE a\nb',
    );
    expect(rewriteScript('#!lua flags=no-writes,allow-key-locking,allow-oom\na', prelude)).toBe(
      '#!lua flags=no-writes,allow-oom\nPRELUDE a',
    );
  });
});

describe('the SHA of a script', () => {
  const flagged = `${FLAG}return redis.call('INCR', KEYS[1])`;
  const plain = "return redis.call('INCR', KEYS[1])";

  test.each([
    ['with the flag', flagged],
    ['without the flag', plain],
    [
      'with another flag besides',
      "#!lua flags=allow-key-locking,allow-oom\nreturn redis.call('INCR', KEYS[1])",
    ],
  ])('%s is the SHA of its own text', async (_name, script) => {
    const sha = sha1(script);
    const run = () => harness.send('EVALSHA', sha, 1, 'n');
    const noScript = { status: 400, json: { error: 'NOSCRIPT No matching script. Please use EVAL.' } };
    expect(await run()).toEqual(noScript);
    expect((await evaluate(script, ['n'])).json).toEqual({ result: 1 });
    expect((await run()).json).toEqual({ result: 2 });
    expect((await harness.send('EVALSHA', sha.toUpperCase(), 1, 'n')).json).toEqual({ result: 3 });
    await harness.send('SCRIPT', 'FLUSH');
    expect(await run()).toEqual(noScript);
    expect((await harness.send('SCRIPT', 'EXISTS', sha)).json).toEqual({ result: [0] });
    expect((await harness.send('SCRIPT', 'LOAD', script)).json).toEqual({ result: sha });
    expect((await harness.send('SCRIPT', 'EXISTS', sha, 'f'.repeat(40))).json).toEqual({ result: [1, 0] });
    expect((await run()).json).toEqual({ result: 4 });
    await harness.gateway.faults.flushScripts();
    expect(await run()).toEqual(noScript);
  });

  test('works in pipelines, transactions and base64 as well', async () => {
    const body = JSON.stringify([
      ['SCRIPT', 'LOAD', flagged],
      ['EVALSHA', sha1(flagged), 1, 'n'],
      ['EVAL', flagged, 1, 'n'],
      ['SCRIPT', 'EXISTS', sha1(flagged)],
    ]);
    const expected = [{ result: sha1(flagged) }, { result: 1 }, { result: 2 }, { result: [1] }];
    expect((await harness.request('/pipeline', { method: 'POST', body })).json).toEqual(expected);
    await harness.send('FLUSHALL');
    expect((await harness.request('/multi-exec', { method: 'POST', body })).json).toEqual(expected);
    const headers = { 'Upstash-Encoding': 'base64' };
    const loaded = await harness.request('/script/load', { method: 'POST', body: flagged, headers });
    expect(Buffer.from(loaded.json.result, 'base64').toString()).toBe(sha1(flagged));
  });

  test('is forgotten when Redis restarts, until EVAL brings it back', async () => {
    const own = await startHarness();
    await own.send('EVAL', flagged, 1, 'n');
    await own.redis.stop();
    const redis = await startRedisServer({ port: own.redis.port, name: 'again' });
    const answer = await eventually(async () => {
      const answered = await own.send('EVALSHA', sha1(flagged), 1, 'n');
      if (answered.status === 503) throw new Error(answered.json.error);
      return answered;
    });
    expect(answer.json.error).toMatch(/^NOSCRIPT /);
    expect((await own.send('EVAL', flagged, 1, 'n')).json).toEqual({ result: 1 });
    expect((await own.send('EVALSHA', sha1(flagged), 1, 'n')).json).toEqual({ result: 2 });
    await own.gateway.stop();
    await redis.stop();
  });
});

describe('keys outside KEYS', () => {
  const DENIED = /ERR Dynamic keys are not allowed/;

  test.each([
    ["redis.call('SET', 'other', 1)", ['key']],
    ["redis.call('set', KEYS[1] .. ':x', 1)", ['key']],
    ["redis.call('GET', ARGV[1])", ['key']],
    ["redis.call('MSET', KEYS[1], 1, 'other', 2)", ['key']],
    ["redis.call('DEL', KEYS[1], 'other')", ['key']],
    ["redis.call('RENAME', KEYS[1], 'other')", ['key']],
    ["redis.call('ZUNIONSTORE', KEYS[1], 2, KEYS[2], 'other')", ['key', 'two']],
    ["redis.call('SORT', KEYS[1], 'STORE', 'other')", ['key']],
    ["redis.call('XGROUP', 'CREATE', 'other', 'g', '$', 'MKSTREAM')", ['key']],
    ["redis.call('OBJECT', 'ENCODING', 'other')", ['key']],
    ["redis.call('S' .. 'ET', 'other', 1)", ['key']],
    ["local f = redis.call f('SET', 'other', 1)", ['key']],
    ["redis.call('INCR', 5)", ['6']],
    ["local r = redis.pcall('SET', 'other', 1) return r", ['key']],
    ["redis.call('SET', 'other', 1)", []],
  ])('are refused before anything runs: %s', async (body, keys) => {
    const { status, json } = await evaluate(FLAG + body, keys, 'other');
    expect(status).toBe(400);
    expect(json.error).toMatch(DENIED);
    expect((await harness.send('DBSIZE')).json.result).toBe(0);
  });

  test.each([
    ["return redis.call('SET', KEYS[1], 1).ok", ['key'], 'OK'],
    ["return redis.call('mset', KEYS[1], 'other', KEYS[2], 'other').ok", ['a', 'b'], 'OK'],
    ["return redis.call('ZUNIONSTORE', KEYS[1], 2, KEYS[2], KEYS[3])", ['a', 'b', 'c'], 0],
    ["return redis.call('XGROUP', 'CREATE', KEYS[1], 'g', '$', 'MKSTREAM').ok", ['s'], 'OK'],
    ["return redis.call('INCR', 5)", ['5'], 1],
    ["return redis.call('HSET', KEYS[1], 'field', 'other')", ['h'], 1],
    ["return #redis.call('TIME')", [], 2],
    ["return redis.call('PING').ok", [], 'PONG'],
    ["return redis.call('E' .. 'CHO', 'other')", [], 'other'],
    ["return redis.call('PUBLISH', 'channel', 'x')", [], 0],
  ])('are not used by this script, which runs: %s', async (body, keys, result) => {
    expect(await evaluate(FLAG + body, keys)).toEqual({ status: 200, json: { result } });
  });

  test.each(['FLUSHDB', 'flushall', 'KEYS', 'SCAN', 'RANDOMKEY'])('cannot be reached by %s', async (name) => {
    await harness.send('SET', 'other', 1);
    const { json } = await evaluate(`${FLAG}return redis.call('${name}')`, ['key']);
    expect(json.error).toMatch(/: ERR Database-wide commands are not allowed/);
    expect((await harness.send('DBSIZE')).json.result).toBe(1);
  });

  test('are allowed without the flag', async () => {
    expect((await evaluate("return redis.call('SET', 'other', 1)", ['key'])).json.result).toBe('OK');
  });

  test('give an error that a script can catch and go on', async () => {
    const script = `${FLAG}local t = redis.pcall('GET', 'other')
      local ok, message = pcall(redis.call, 'GET', 'other')
      return {type(t), t.err, tostring(ok), message, redis.call('INCR', KEYS[1])}`;
    const { json } = await evaluate(script, ['n']);
    const denied = expect.stringMatching(DENIED);
    expect(json.result).toEqual(['table', denied, 'false', denied, 1]);
  });

  test('are not checked when the check is off, and the flag is still accepted', async () => {
    const unchecked = await startHarness({ checkKeys: false });
    const script = `${FLAG}return redis.call('SET', 'other', 1)`;
    expect((await unchecked.send('EVAL', script, 0)).json.result).toBe('OK');
    expect((await unchecked.send('EVALSHA', sha1(script), 0)).json.result).toBe('OK');
    await unchecked.stop();
  });
});

describe('the check of keys', () => {
  const bodies = [
    'return 1',
    "return redis.call('GET', KEYS[1])",
    "return redis.call('GET', KEYS[1]) == false",
    "return {redis.call('GET', KEYS[1]), 1, nil, 2}",
    "return redis.call('SET', KEYS[1], 'v')",
    "return redis.call('SET', KEYS[1], 'v')['ok']",
    "return redis.status_reply('FINE')",
    "return redis.error_reply('MY own')",
    "return {err = 'MY own'}",
    "redis.call('SET', KEYS[1], 'v') return redis.pcall('INCR', KEYS[1])",
    "redis.call('SET', KEYS[1], 'v') return redis.pcall('INCR', KEYS[1]).err",
    "redis.call('SET', KEYS[1], 'v')\n\nreturn redis.call('INCR', KEYS[1])",
    "redis.call('SET', KEYS[1], 'v')\nlocal x =\n  redis.call('INCR', KEYS[1])\nreturn x",
    "redis.call('SET', KEYS[1], 'v')\nlocal function f()\n local y = redis.call('INCR', KEYS[1])\n return y\nend\nlocal z = f()\nreturn z",
    "redis.call('SET', KEYS[1], 'v') return {pcall(redis.call, 'INCR', KEYS[1])}",
    "redis.call('SET', KEYS[1], 'v') return {select(2, pcall(redis.call, 'INCR', KEYS[1]))}",
    "\nreturn redis.call('NOSUCH', KEYS[1])",
    "\nreturn redis.call('GET')",
    '\nlocal x = redis.call()',
    '\nlocal x = redis.call({})',
    "return redis.pcall('GET')",
    'return redis.pcall(nil)',
    '\n\nlocal x = nil + 1',
    "\n\nerror('mine')",
    "\n\nerror({err = 'MY table'})",
    'return undefined_global',
    'this is not Lua',
    '\n\nreturn (',
    "return redis.sha1hex('a')",
    'return redis.LOG_WARNING',
    'return redis.nothing',
    "return redis.log(redis.LOG_DEBUG, 'x')",
    "redis.setresp(3) redis.call('HSET', KEYS[1], 'a', 1) return redis.call('HGETALL', KEYS[1])",
    "redis.setresp(3) return {type(redis.call('GET', KEYS[1]))}",
    "redis.call('RPUSH', KEYS[1], 1, '2', 'x') return redis.call('LRANGE', KEYS[1], 0, -1)",
    'return {ARGV[1], ARGV[2], #KEYS, #ARGV, cjson.encode({1}), math.floor(2.7)}',
    "redis.call('SET', KEYS[1], 3.0) return redis.call('GET', KEYS[1])",
    "for i = 1, 50 do redis.call('RPUSH', KEYS[1], unpack({1, 2, 3})) end return redis.call('LLEN', KEYS[1])",
    "local redis = redis local call = redis.call call('SET', KEYS[1], 'x') return call('GET', KEYS[1])",
    "redis.replicate_commands() return redis.call('STRLEN', KEYS[1])",
  ];

  test.each(bodies)('does not change the answer to %j', async (body) => {
    const run = async (script: string) => {
      await harness.send('FLUSHALL');
      const { status, json } = await evaluate(script, ['key'], 'ü', 2);
      return { status, text: JSON.stringify(json).replaceAll(sha1(script), '<sha>') };
    };
    expect(await run(FLAG + body)).toEqual(await run(`-- a line in place of the flag\n${body}`));
  });

  test('reports the line of the original script for a refused key', async () => {
    const script = `${FLAG}local a = 1\n\nredis.call('GET', 'other')\nreturn 1`;
    const { json } = await evaluate(script, ['key']);
    expect(json.error).toMatch(/^ERR Error running script: @user_script:4: ERR Dynamic keys/);
    await harness.send('SCRIPT', 'LOAD', script);
    expect((await harness.send('EVALSHA', sha1(script), 0)).json).toEqual(json);
  });

  test('keeps other flags in force', async () => {
    const script =
      "#!lua flags=no-writes,allow-key-locking\nlocal a = 1\nlocal x = redis.call('SET', KEYS[1], 1)";
    const { json } = await evaluate(script, ['key']);
    expect(json.error).toMatch(/@user_script:3: ERR Write commands are not allowed from read-only scripts/);
    expect((await evaluate('#!lua flags=no-such,allow-key-locking\nreturn 1')).json.error).toMatch(/flag/);
  });
});
