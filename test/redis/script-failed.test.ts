// Weir distinguishes a failed script from a failed Redis: only a failed Redis counts against the region.
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { UpstashGateway } from '../../local/upstash-gateway/server.ts';
import { CounterStoreError } from '../../src/core/ports/region.ts';
import { type Client, createClient, ScriptMissing } from '../../src/redis/client.ts';
import { startUpstash, type Upstash } from './lua-engine.ts';

let upstash: Upstash;
let gateway: UpstashGateway;
let client: Client;
let admin: Redis;
beforeAll(async () => {
  upstash = await startUpstash('script-failed');
  gateway = upstash.gateway;
  client = createClient({ url: gateway.url, token: 'token' });
  admin = new Redis(upstash.server.url);
});
afterAll(async () => {
  admin.disconnect();
  await upstash.stop();
});
afterEach(async () => {
  await admin.config('SET', 'maxmemory', '0');
  await admin.replicaof('NO', 'ONE');
});

const send = (command: Parameters<Client['send']>[1], signal = AbortSignal.timeout(5_000)) =>
  client.send(signal, command).then(
    () => undefined,
    (error: unknown) => error,
  );
const run = (script: string) => send((redis) => redis.eval(script, ['{secret}'], ['secret']));
const WRITE = `return redis.call('SET', KEYS[1], ARGV[1])`;

describe('a script fails', () => {
  it.each([
    ['by an error', `error('ouch')`, /ouch/],
    ['by an error of several lines', `error('two\\nlines of secret')`, /two/],
    [
      'by an error in a function',
      `local function f() return nil + 1 end return f()`,
      /arithmetic on a nil|add operation between nil/,
    ],
    [
      'by arithmetic on text that is not a number',
      `return ARGV[1] + 1`,
      /arithmetic on|add operation between/,
    ],
    ['because it does not compile', `return return`, /near 'return'/],
    ['by a flag that the server does not know', `#!lua flags=unheard-of\nreturn 1`, /flag in script/],
    [
      'by a key that was not declared',
      `#!lua flags=allow-key-locking\nredis.call('GET', 'x')`,
      /Dynamic keys/,
    ],
  ])('%s, and the error has the words of the server', async (_, script, said) => {
    const error = await run(script);
    expect(error).toBeInstanceOf(CounterStoreError);
    expect(error).toMatchObject({ failure: 'script-failed', message: expect.stringMatching(said) });
  });

  it.each([
    "ERR Error running script: @user_script:2: attempt to call a nil value stack traceback: [G]: in function 'call'",
    "ERR @user_script line:2(column:7) near 'local': syntax error",
    'ERR Error compiling script',
    "ERR unknown command 'EVALSHA', with args beginning with: '0123' '1' 'secret'",
    'WEIR_BAD_ARGUMENT check 1: unknown algorithm',
  ])('if the server says: %s', async (words) => {
    const error = await run(`return redis.error_reply("${words}")`);
    expect(error).toMatchObject({
      failure: 'script-failed',
      message: expect.not.stringMatching(/\[G\]|secret/),
    });
  });

  it.each([
    'ERR Error running script: @user_script:12: cannot perform add operation between nil and number',
    'ERR Error running script: @user_script:2: ERR Dynamic keys are not allowed',
    "ERR Error running script: @user_script line:2(column:7) near 'local': syntax error",
    'ERR Unexpected flag in script shebang: allow-key-locking',
  ])('with the words %s', async (words) => {
    expect(await run(`return redis.error_reply([[${words}]])`)).toMatchObject({ failure: 'script-failed' });
  });

  it('and its input stays secret', async () => {
    const error = await run(`error(KEYS[1] .. ARGV[1])`);
    expect(error).toMatchObject({ failure: 'script-failed' });
    expect(`${(error as Error).message} ${(error as Error).stack}`).not.toContain('secret');
  });
});

describe('Redis itself fails', () => {
  const unavailable = new CounterStoreError('unavailable', 'the command failed');

  it('when its memory is full', async () => {
    await admin.config('SET', 'maxmemory', '1');
    expect(await run(WRITE)).toEqual(unavailable);
  });

  it('when it is read-only', async () => {
    await admin.replicaof('127.0.0.1', '1');
    expect(await run(WRITE)).toEqual(unavailable);
  });

  it.each([
    'ERR max number of clients reached',
    'LOADING Redis is loading the dataset in memory',
    'BUSY Redis is busy running a script',
    'MISCONF Redis is configured to save RDB snapshots',
    'CLUSTERDOWN The cluster is down',
    'ERR Error running script: @user_script:2: OOM command not allowed',
    'ERR Error running script: @user_script:12: READONLY You cannot write against a read only replica.',
    // In the words of Redis 6, and of a wrapper around errors of commands.
    'ERR Error running script (call to f_0): @user_script:1: OOM command not allowed',
    "ERR Error running script: @user_script:2: READONLY You can't write against a read only replica",
  ])('with the words %s', async (words) => {
    expect(await run(`return redis.error_reply("${words}")`)).toEqual(unavailable);
  });

  it('even if a key or an argument reads like an error of a script', async () => {
    await admin.config('SET', 'maxmemory', '1');
    const words = 'ERR user_script:1: script';
    expect(await send((redis) => redis.eval(WRITE, [words], [words]))).toEqual(unavailable);
    expect(await send((redis) => redis.exec(['NO_SUCH_COMMAND', words]))).toEqual(unavailable);
  });

  it('when it does not know a command', async () => {
    expect(await send((redis) => redis.exec(['NO_SUCH_COMMAND']))).toEqual(unavailable);
  });

  it('when it has lost the script', async () => {
    const error = await send((redis) => redis.evalsha('0'.repeat(40), [], []));
    expect(error).toBeInstanceOf(ScriptMissing);
    expect(error).toMatchObject({ failure: 'unavailable' });
  });

  it('by taking too long', async () => {
    const error = await send((redis) => redis.ping(), AbortSignal.abort());
    expect(error).toMatchObject({ failure: 'timeout' });
  });
});
