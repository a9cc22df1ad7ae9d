// Scripts on gopher-lua, over the protocol of Redis: replies, errors, keys, SHAs, and what a script leaves behind.
import { createHash } from 'node:crypto';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { type ScriptServer, startScriptServer } from '../../local/script-server.ts';

const FLAG = '#!lua flags=allow-key-locking\n';
const NOSCRIPT = 'NOSCRIPT No matching script. Please use EVAL.';

let server: ScriptServer;
let redis: Redis;
/** Directly to the redis-server, past the program that runs the scripts. */
let direct: Redis;
beforeAll(async () => {
  server = await startScriptServer({ port: 0, name: 'scripts', lua: 'gopher' });
  redis = new Redis(server.port);
  direct = new Redis(server.redis.port);
  // One test kills the server while these clients are connected.
  for (const client of [redis, direct]) client.on('error', () => {});
});
afterAll(async () => {
  redis.disconnect();
  direct.disconnect();
  await server.stop();
});
beforeEach(async () => {
  await redis.flushall();
  await redis.script('FLUSH');
});

const run = (script: string, ...keys: string[]) => redis.eval(script, keys.length, ...keys, 'a', '2');
const failure = (script: string, ...keys: string[]) =>
  run(script, ...keys).then(
    () => 'no error',
    (error: Error) => error.message,
  );
const sha1 = (text: string) => createHash('sha1').update(text).digest('hex');

describe('a reply', () => {
  it.each([
    ['return 1', 1],
    ['return 1.9', 1],
    ['return -1.9', -1],
    ['return 2^52', 2 ** 52],
    ["return 'text'", 'text'],
    ['return true', 1],
    ['return false', null],
    ['return nil', null],
    ['return', null],
    ['return {1, 2.7, {3}, true, false, "x"}', [1, 2, [3], 1, null, 'x']],
    ['return {1, nil, 3}', [1]],
    ['return {}', []],
    ["return {ok = 'FINE'}", 'FINE'],
    ["return redis.status_reply('FINE')", 'FINE'],
    ["return redis.sha1hex('')", 'da39a3ee5e6b4b0d3255bfef95601890afd80709'],
    ['return {#KEYS, KEYS[1], #ARGV, ARGV[1], ARGV[2]}', [1, 'key', 2, 'a', '2']],
    ["return redis.call('SET', KEYS[1], 'v')", 'OK'],
    ["return redis.call('SET', KEYS[1], 'v').ok", 'OK'],
    ["return redis.call('GET', KEYS[1])", null],
    ["return redis.call('GET', KEYS[1]) == false", 1],
    ["redis.call('RPUSH', KEYS[1], 1, 'x') return redis.call('LRANGE', KEYS[1], 0, -1)", ['1', 'x']],
    ["return redis.call('INCRBY', KEYS[1], 2^40)", 2 ** 40],
    [
      "redis.call('SET', KEYS[1], 'v') return redis.pcall('INCR', KEYS[1]).err",
      expect.stringMatching(/^ERR /),
    ],
  ])('of %j is %j, as from Redis', async (script, reply) => {
    expect(await run(script, 'key')).toEqual(reply);
    await direct.flushall();
    const byRedis = await direct.eval(script, 1, 'key', 'a', '2');
    expect(byRedis).toEqual(reply);
  });

  it('has all bytes of its argument', async () => {
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
    const script = "redis.call('SET', KEYS[1], ARGV[1]) return ARGV[1]";
    expect(await redis.callBuffer('EVAL', script, 1, 'b', bytes)).toEqual(bytes);
    expect(await direct.getBuffer('b')).toEqual(bytes);
  });
});

describe('an error', () => {
  const traced = (line: number, words: string, ...calls: string[]) =>
    [
      `ERR Error running script: @user_script:${line}: ${words}`,
      'stack traceback:',
      ...calls.map((name) => `\t[G]: in function '${name}'`),
      `\t@user_script:${line}: in main chunk`,
      '\t[G]: ?',
    ].join('\n');

  it('that a script returns has the words of the script', async () => {
    expect(await failure("return redis.error_reply('MY words')")).toBe('MY words');
    expect(await failure("return {err = 'MY words'}")).toBe('MY words');
    expect(await failure("return redis.error_reply('word')")).toBe('ERR word');
  });

  it('of a command has the words of upstash/redis-js, with line and stack', async () => {
    const [write, readOnly] = [
      "\nreturn redis.call('SET', KEYS[1], 1)",
      'READONLY Write commands are not allowed',
    ];
    const said = await redis.call('EVAL_RO', write, 1, 'k').then(String, (error: Error) => error.message);
    expect(said).toBe(traced(2, `${readOnly} from read-only scripts`, 'call'));
    expect(await failure("redis.call('SET', KEYS[1], 'v')\n\nredis.call('INCR', KEYS[1])", 'k')).toBe(
      traced(3, 'ERR value is not an integer or out of range', 'call'),
    );
  });

  it('of Lua has its line', async () => {
    expect(await failure(`${FLAG}local a = 1\nlocal b = a + nil`)).toMatch(
      /^ERR Error running script: @user_script:3: cannot perform add operation between number and nil\n/,
    );
    expect(await failure("error('mine')")).toBe(traced(1, 'mine', 'error'));
  });

  it('of syntax has line and column, and nothing is loaded', async () => {
    const words = "ERR Error running script: @user_script line:2(column:11) near 'local': syntax error";
    const script = '\nlocal local';
    expect(await failure(script)).toBe(words);
    await expect(redis.script('LOAD', script)).rejects.toThrow('syntax error');
    expect(await redis.script('EXISTS', sha1(script))).toEqual([0]);
  });

  it.each([
    ['registry', 'local t = {} for i = 1, 6000 do t[i] = i end return #{unpack(t)}'],
    ['call stack', 'local function f(n) return 1 + f(n + 1) end return f(1)'],
  ])('ends a script that fills the %s, and nothing else', async (_, script) => {
    expect(await failure(script)).toMatch(/^ERR Error running script: /);
    expect(await run('return 1')).toBe(1);
  });

  it('names the problem of a call', async () => {
    const call = (...args: string[]) =>
      redis.call(...(args as [string])).catch((error: Error) => error.message);
    expect(await call('EVAL', 'return 1', '-1')).toBe("ERR Number of keys can't be negative");
    expect(await call('EVAL', 'return 1', '2', 'a')).toBe(
      "ERR Number of keys can't be greater than number of args",
    );
    expect(await call('EVAL', 'return 1', 'x')).toBe('ERR value is not an integer or out of range');
    expect(await call('EVAL', '#!lua flags=no-such\nreturn 1', '0')).toMatch(/^ERR Unexpected flag/);
    expect(await call('EVALSHA', 'f'.repeat(40), '0')).toBe(NOSCRIPT);
  });
});

describe('a script', () => {
  it('has string, math and table, and nothing that Upstash is not known to have', async () => {
    const names = 'cmsgpack cjson struct bit io os debug coroutine package require dofile loadfile print';
    const script = `local t = {} for name in string.gmatch('${names}', '%a+') do
      if _G[name] ~= nil then t[#t + 1] = name end end return t`;
    expect(await run(script)).toEqual([]);
    expect(await run("return string.format('%d %s', math.floor(2.5), table.concat({'a', 'b'}))")).toBe(
      '2 ab',
    );
  });

  it('finds nothing that an earlier script has left behind', async () => {
    await run("x = 1 string.rep = nil math.floor = 'spoilt' table.y = 2 redis.call = 3 KEYS = 4 _G.type = 5");
    expect(await run('return {tostring(x), type(string.rep), type(math.floor), tostring(table.y)}')).toEqual([
      'nil',
      'function',
      'function',
      'nil',
    ]);
    expect(await run("return {redis.call('PING').ok, #KEYS}")).toEqual(['PONG', 0]);
  });

  it.each([
    ['with the flag', `${FLAG}return redis.call('INCR', KEYS[1])`],
    ['without the flag', "return redis.call('INCR', KEYS[1])"],
  ])('%s is found by the SHA of its own text', async (_, script) => {
    const evaluate = () => redis.evalsha(sha1(script), 1, 'n');
    await expect(evaluate()).rejects.toThrow(NOSCRIPT);
    expect(await run(script, 'n')).toBe(1);
    expect(await evaluate()).toBe(2);
    expect(await redis.evalsha(sha1(script).toUpperCase(), 1, 'n')).toBe(3);
    await redis.script('FLUSH');
    await expect(evaluate()).rejects.toThrow(NOSCRIPT);
    expect(await redis.script('LOAD', script)).toBe(sha1(script));
    expect(await redis.script('EXISTS', sha1(script), sha1(''))).toEqual([1, 0]);
    expect(await evaluate()).toBe(4);
  });

  it('runs in its place in a pipeline and in a transaction', async () => {
    const script = `${FLAG}return redis.call('INCR', KEYS[1])`;
    const commands = () => [
      ['set', 'n', '5'],
      ['eval', script, 1, 'n'],
      ['evalsha', sha1(script), 1, 'n'],
      ['get', 'n'],
    ];
    const replies = [
      [null, 'OK'],
      [null, 6],
      [null, 7],
      [null, '7'],
    ];
    expect(await redis.pipeline(commands()).exec()).toEqual(replies);
    expect(await redis.multi(commands()).exec()).toEqual(replies);
    const refused = redis.multi().eval(script, 1, 'n').call('no-such').set('n', 9).exec();
    await expect(refused).rejects.toThrow('EXECABORT');
    expect(await redis.get('n')).toBe('7');
  });

  it('is counted with its commands, and forgotten when the redis-server restarts', async () => {
    const calls = async (name: string) => {
      const stats = await redis.info('commandstats');
      return Number(new RegExp(`cmdstat_${name}:calls=(\\d+)`).exec(stats)?.[1] ?? 0);
    };
    const script = "redis.call('ECHO', 'x') return redis.call('ECHO', 'y')";
    const sha = (await redis.script('LOAD', script)) as string;
    const before = [await calls('evalsha'), await calls('echo')] as const;
    await redis.evalsha(sha, 0);
    expect([await calls('evalsha'), await calls('echo')]).toEqual([before[0] + 1, before[1] + 2]);
    await server.redis.kill();
    await server.redis.start();
    await vi.waitFor(() => redis.ping(), { timeout: 10_000 });
    expect(await calls('evalsha')).toBe(0);
    await expect(redis.evalsha(sha, 0)).rejects.toThrow(NOSCRIPT);
  });
});

describe('keys outside KEYS', () => {
  const DENIED = "ERR Dynamic keys are not allowed in Lua scripts when the 'allow-key-locking' flag is set";

  it.each([
    ["redis.call('SET', 'other', 1)", ['key']],
    ["redis.call('set', KEYS[1] .. ':x', 1)", ['key']],
    ["redis.call('MSET', KEYS[1], 1, 'other', 2)", ['key']],
    ["redis.call('DEL', KEYS[1], 'other')", ['key']],
    ["redis.call('ZUNIONSTORE', KEYS[1], 2, KEYS[2], 'other')", ['key', 'two']],
    ["redis.call('SORT', KEYS[1], 'STORE', 'other')", ['key']],
    ["redis.call('XGROUP', 'CREATE', 'other', 'g', '$', 'MKSTREAM')", ['key']],
    ["redis.call('SET', 'other', 1)", []],
  ])('are refused before anything runs: %s', async (body, keys) => {
    expect(await failure(FLAG + body, ...keys)).toContain(`@user_script:2: ${DENIED}\n`);
    expect(await direct.dbsize()).toBe(0);
    expect(await run(`${FLAG}return redis.pcall('SET', 'other', 1).err`, 'key')).toBe(DENIED);
  });

  it.each(['FLUSHDB', 'flushall', 'KEYS', 'SCAN', 'RANDOMKEY'])('cannot be reached by %s', async (name) => {
    await direct.set('other', 1);
    expect(await failure(`${FLAG}redis.call('${name}')`, 'key')).toContain('ERR Database-wide commands');
    expect(await direct.dbsize()).toBe(1);
  });

  it('are allowed without the flag, and commands without keys are allowed with it', async () => {
    expect(await run("return redis.call('SET', 'other', 1)")).toBe('OK');
    expect(await run(`${FLAG}return {redis.call('ECHO', 'x'), #redis.call('TIME')}`)).toEqual(['x', 2]);
    expect(await run(`${FLAG}return redis.call('ZUNIONSTORE', KEYS[1], 1, KEYS[2])`, 'a', 'b')).toBe(0);
    expect(await failure("return redis.call('MULTI')")).toContain('not allowed from script');
  });
});
