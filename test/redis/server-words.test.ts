// Which words of a server Weir repeats: where and how a script failed, and none of its input.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { wordsOf } from '../../src/redis/redact-error.ts';

const command = ', command was: ["evalsha","0123","1","weir:{user:=alice@example.com}","take","gcra"]';
const sha = '5332031c6b470dc5a0dd9b4bf2030dea6d65de91';

describe('an error of the server stays readable', () => {
  it.each([
    // Upstash, which runs scripts on gopher-lua.
    [
      "ERR Error running script: @user_script:12: attempt to call a nil value\nstack traceback:\n\t[G]: in function 'call'",
      'ERR Error running script: @user_script:12: attempt to call a nil value',
    ],
    [
      `ERR Error running script: @user_script:2: bad argument #1 to tonumber (value expected) stack traceback: [G]: in function 'tonumber'`,
      'ERR Error running script: @user_script:2: bad argument #1 to tonumber (value expected)',
    ],
    [
      "ERR Error compiling script @user_script line:2(column:7) near 'local': syntax error",
      "ERR Error compiling script @user_script line:2(column:7) near 'local': syntax error",
    ],
    [
      'ERR Error running script: @user_script:7: attempt to call a non-function object',
      'ERR Error running script: @user_script:7: attempt to call a non-function object',
    ],
    [
      "ERR Error running script: @user_script:9: attempt to index a non-table object(nil) with key 'call'",
      "ERR Error running script: @user_script:9: attempt to index a non-table object(nil) with key 'call'",
    ],
    [
      'ERR Error running script: @user_script:3: cannot perform add operation between string and number',
      'ERR Error running script: @user_script:3: cannot perform add operation between string and number',
    ],
    // Redis, old and new.
    [
      `ERR Error running script (call to f_${sha}): @user_script:1: user_script:1: attempt to perform arithmetic on a nil value`,
      'ERR Error running script (call to … @user_script:1: user_script:1: attempt to perform arithmetic on a nil value',
    ],
    [
      "ERR user_script:1: Script attempted to access nonexistent global variable 'cmsgpack' script: " +
        `${sha}, on @user_script:1.`,
      "ERR user_script:1: Script attempted to access nonexistent global variable 'cmsgpack' script: … on @user_script:1.",
    ],
    [
      "ERR Error compiling script (new function): user_script:1: unexpected symbol near 'return'",
      "ERR Error compiling script (new function): user_script:1: unexpected symbol near 'return'",
    ],
    [
      "ERR Error compiling script (new function): user_script:4: 'end' expected near '<eof>'",
      "ERR Error compiling script (new function): user_script:4: 'end' expected near '<eof>'",
    ],
    [
      'ERR Unexpected flag in script shebang: allow-key-locking',
      'ERR Unexpected flag in script shebang: allow-key-locking',
    ],
    [
      "ERR Dynamic keys are not allowed in Lua scripts when the 'allow-key-locking' flag is set",
      "ERR Dynamic keys are not allowed in Lua scripts when the 'allow-key-locking' flag is set",
    ],
    ["ERR unknown command 'EVALSHA', with args beginning with: '0123' '1'", "ERR unknown command 'EVALSHA'"],
    // An error of Weir's own script.
    [
      'WEIR_BAD_ARGUMENT check 3: cost must be a whole number above 0',
      'WEIR_BAD_ARGUMENT check … cost must be a whole number above …',
    ],
    ['', '…'],
  ])('%j', (said, expected) => {
    expect(wordsOf(said)).toBe(expected);
    expect(wordsOf(said + command)).toBe(expected);
  });
});

const SECRETS = [
  'weir:{user:=alice@example.com}',
  'weir:{ip:=203.0.113.7}:group1',
  'weir:{apiKey:#3q2-7w_b3q2-7wb3q2}',
  '203.0.113.7',
  '2001:db8::/64',
  'alice@example.com',
  'user_1234',
  'weir_live_0123456789abcdef',
  'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9.c2ln',
  'AX9sASQgODM5ZmQ4ZmQtMTRjZi00YjU4',
  'https://eu1-sharp-cat-12345.upstash.io',
  'correcthorsebatterystaple',
  'CORRECTHORSEBATTERYSTAPLE',
  'seat=4fRq9vX_2mTz-8Kd',
  'announced=2:17.0123456789abcdef.fedcba9876543210',
  'cost=31337',
  '31337',
  '1800000000000',
];

describe('no secret comes through', () => {
  it.each(SECRETS)('%s', (secret) => {
    for (const said of [
      `ERR Error running script: @user_script:2: ${secret}`,
      `ERR Error running script: @user_script:2: bad key '${secret}' here`,
      `ERR Error running script: @user_script:2: "${secret}", (${secret}): ${secret}`,
      `ERR ${secret} script`,
      `ERR Error running script: @user_script:2: x${command.replace('gcra', secret)}`,
      `ERR Error running script: @user_script:2: x\n${secret}`,
      `ERR unknown command 'eval', with args beginning with: '${secret}'`,
      `ERR Error running script: @user_script:2: x stack traceback: ${secret}`,
    ])
      expect(wordsOf(said)).not.toContain(secret);
  });

  it('in any message: only short words, quoted names and places in the script are kept', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 500 }), (said) => {
        for (const word of wordsOf(said).split(' ')) expect(word).toMatch(/^[A-Za-z_'().,:;@#<>\d…-]{1,60}$/);
      }),
    );
  });

  it('and a long message is cut to 200 characters', () => {
    const said = wordsOf(`ERR script ${'word '.repeat(100_000)}`);
    expect(said).toHaveLength(200);
    expect(said.endsWith('…')).toBe(true);
  });
});
