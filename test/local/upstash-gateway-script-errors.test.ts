// Errors of failed scripts: the texts of Redis 6, 7 and later become those of Upstash.
import { describe, expect, test } from 'vitest';
import { asUpstashSays } from '../../local/upstash-gateway/script-errors.ts';
import { FLAG, startHarness } from './upstash-gateway-harness.ts';

const SHA = 'a'.repeat(40);
const CALL = "\t[G]: in function 'call'\n";
const traced = (line: number, words: string, within = '') =>
  `ERR Error running script: @user_script:${line}: ${words}\nstack traceback:\n${within}\t@user_script:${line}: in main chunk\n\t[G]: ?`;

describe('the error text of a script', () => {
  test.each([
    [`ERR user_script:3: nil value script: ${SHA}, on @user_script:3.`, traced(3, 'nil value')],
    [`OOM no memory. script: ${SHA}, on @user_script:2.`, traced(2, 'OOM no memory.', CALL)],
    [`ERR two\nlines script: ${SHA}, on @user_script:2.`, traced(2, 'ERR two\nlines', CALL)],
    [
      `ERR Error running script (call to f_${SHA}): @user_script:7: user_script:7: nil value`,
      traced(7, 'nil value'),
    ],
    [
      `ERR Error running script (call to f_${SHA}): @user_script:7: @user_script: 7: WRONGTYPE no`,
      traced(7, 'WRONGTYPE no', CALL),
    ],
    [
      "ERR Error compiling script (new function): user_script:2: unexpected symbol near 'local'",
      "ERR Error running script: @user_script line:2(column:1) near 'local': syntax error",
    ],
    [
      "ERR Error compiling script (new function): user_script:1: unexpected symbol near '<eof>'",
      'ERR Error running script: @user_script at EOF: syntax error',
    ],
  ])('becomes the text of Upstash: %j', (byRedis, byUpstash) => {
    expect(asUpstashSays(byRedis)).toBe(byUpstash);
  });

  test.each([
    'NOSCRIPT No matching script. Please use EVAL.',
    'WEIR_BAD_ARGUMENT check 1: unknown algorithm',
    'ERR value is not an integer or out of range',
    'OOM command not allowed',
  ])('stays the same: %j', (message) => {
    expect(asUpstashSays(message)).toBe(message);
  });
});

test('the gateway translates the errors of EVAL, EVALSHA and SCRIPT LOAD, with the flag and without', async () => {
  const harness = await startHarness();
  const said = async (...command: unknown[]) => (await harness.send(...command)).json.error;
  for (const flag of [FLAG, '\n']) {
    const script = `${flag}redis.call('SET', KEYS[1], 'v')\nredis.call('INCR', KEYS[1])`;
    const expected = traced(3, 'ERR value is not an integer or out of range', CALL);
    expect(await said('EVAL', script, 1, 'k')).toBe(expected);
    const { json } = await harness.send('SCRIPT', 'LOAD', script);
    expect(await said('EVALSHA', json.result, 1, 'k')).toBe(expected);
    expect(await said('SCRIPT', 'LOAD', `${flag}local local`)).toMatch(
      /^ERR Error running script: @user_script line:2/,
    );
    expect(await said('EVALSHA', 'f'.repeat(40), 0)).toBe('NOSCRIPT No matching script. Please use EVAL.');
  }
  await harness.stop();
});
