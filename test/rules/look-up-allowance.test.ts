// How the look-ups of unknown callers are shared: by address, and between addresses that made up keys and all others.
import { describe, expect, it } from 'vitest';
import { createLookUpAllowance, type LookUpAllowance } from '../../src/identity/directory.ts';

const clock = { ms: 1_700_000_000_000 };
const open = () => createLookUpAllowance(() => clock.ms);

let keys = 0;
/** Asks for a key that nobody has asked for before. */
const askFrom = (allowance: LookUpAllowance, ip: string) => {
  keys += 1;
  return allowance.permit({ kind: 'key', who: `key:${keys}`, ip });
};
/** Sends made-up keys, each after the answer to the one before. Returns how many were looked up. */
function makeUp(allowance: LookUpAllowance, ip: string, count: number): number {
  let asked = 0;
  for (let i = 0; i < count; i += 1) {
    const answer = askFrom(allowance, ip);
    answer?.(false);
    if (answer) asked += 1;
  }
  return asked;
}
/** Sends keys at once, before any answer. Returns how many are looked up. */
const atOnce = (allowance: LookUpAllowance, ip: string, count: number): number =>
  Array.from({ length: count }, () => askFrom(allowance, ip)).filter(Boolean).length;

const addresses = (count: number, start = 'a') => Array.from({ length: count }, (_, i) => `${start}-${i}`);

describe('an address that shows made-up keys', () => {
  it('has 5 of them looked up in each second', () => {
    const allowance = open();
    for (let second = 0; second < 3; second += 1) {
      expect(makeUp(allowance, 'a', 100)).toBe(5);
      clock.ms += 1_000;
    }
  });

  it('shares 20 look-ups a second with all such addresses, for a minute after its last made-up key', () => {
    const allowance = open();
    const bad = addresses(60);
    for (const ip of bad) makeUp(allowance, ip, 1);
    for (const waitMs of [1_000, 58_999]) {
      clock.ms += waitMs;
      const asked = bad.map((ip) => makeUp(allowance, ip, 5)).reduce((sum, one) => sum + one, 0);
      expect(asked).toBe(20);
    }
    clock.ms += 60_000;
    expect(bad.map((ip) => makeUp(allowance, ip, 1))).toEqual(bad.map(() => 1));
  });

  it('takes nothing from other addresses, however many such addresses there are', () => {
    const allowance = open();
    const bad = addresses(99);
    for (const ip of bad) makeUp(allowance, ip, 1);
    clock.ms += 1_000;
    for (const ip of bad) makeUp(allowance, ip, 100);
    expect(atOnce(allowance, 'good', 100)).toBe(50);
  });

  it('may use its few look-ups for any number of real keys, each of which gives its look-up back', () => {
    const allowance = open();
    makeUp(allowance, 'a', 4);
    for (let i = 0; i < 1_000; i += 1) {
      const answer = askFrom(allowance, 'a');
      expect(answer).toBeDefined();
      answer?.(true);
    }
    expect(makeUp(allowance, 'a', 100)).toBe(1);
  });
});

describe('addresses that have shown no made-up key', () => {
  it('share 100 look-ups a second: each gets one more while it has fewer than are left', () => {
    const allowance = open();
    const granted = addresses(8).map((ip) => atOnce(allowance, ip, 1_000));
    expect(granted).toEqual([50, 25, 13, 6, 3, 2, 1, 0]);
  });

  it('have all of it again in the next second', () => {
    const allowance = open();
    for (let second = 0; second < 3; second += 1) {
      expect(atOnce(allowance, 'a', 1_000)).toBe(50);
      clock.ms += 1_000;
    }
  });

  it('get back each look-up of a real key', () => {
    const allowance = open();
    for (let i = 0; i < 1_000; i += 1) {
      const answer = askFrom(allowance, 'a');
      expect(answer).toBeDefined();
      answer?.(true);
    }
  });

  it('get nothing back from an answer of an earlier second', () => {
    const allowance = open();
    const answers = Array.from({ length: 50 }, () => askFrom(allowance, 'a'));
    clock.ms += 1_000;
    expect(atOnce(allowance, 'b', 50)).toBe(50);
    for (const answer of answers) answer?.(true);
    expect(atOnce(allowance, 'c', 1_000)).toBe(25);
  });
});

it('a caller that was found within the hour is looked up, whatever its address and all others do', () => {
  const allowance = open();
  const known = { kind: 'key', who: 'key:known', ip: 'bad' } as const;
  allowance.found(known.who);
  makeUp(allowance, 'bad', 100);
  for (const ip of addresses(200)) makeUp(allowance, ip, 1);
  clock.ms += 3_599_999;
  expect(allowance.permit(known)).toBeDefined();
  makeUp(allowance, 'bad', 100);
  clock.ms += 1;
  for (const ip of addresses(200)) makeUp(allowance, ip, 1);
  expect(allowance.permit({ ...known, ip: 'other' })).toBeUndefined();
});

it('callers that were found share their own look-ups by caller: 100 behind one address are looked up at once', () => {
  const allowance = open();
  const known = Array.from(
    { length: 100 },
    (_, i) => ({ kind: 'key', who: `key:found-${i}`, ip: 'a' }) as const,
  );
  for (const { who } of known) allowance.found(who);
  for (const ip of ['a', ...addresses(8)]) atOnce(allowance, ip, 1_000);
  expect(known.filter((one) => allowance.permit(one))).toHaveLength(100);
});

describe('users, whose tokens are verified,', () => {
  it('give back each look-up, with a row or without one', () => {
    const allowance = open();
    for (let i = 0; i < 1_000; i += 1) {
      const answer = allowance.permit({ kind: 'user', who: `user:${i}`, ip: 'a' });
      expect(answer).toBeDefined();
      answer?.(i % 2 === 0);
    }
  });

  it('do not share the look-ups of keys', () => {
    const allowance = open();
    for (const ip of addresses(300)) makeUp(allowance, ip, 5);
    expect(allowance.permit({ kind: 'user', who: 'user:u', ip: 'a-0' })).toBeDefined();
  });
});
