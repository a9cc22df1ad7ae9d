import { describe, expect, it } from 'vitest';
import { counterId, groupOf, hashTagOf, subjectKey } from '../../src/core/counting/keys.ts';

const SUBJECTS = ['a', 'a}', '{a', '}{', 'a b', 'ä', '', '=a', '#a', 'a:', '\u0000', '💧'.repeat(9)].concat([
  '\ud800',
  '\udfff',
  '\ufffd',
  '"\\ud800"',
  'a\ud800',
  'a\ufffd',
  'x'.repeat(10_000),
  'x'.repeat(10_001),
]);

describe('subjectKey', () => {
  it('keeps a plain subject readable', async () => {
    expect(await subjectKey('ip', '2001:db8::1')).toBe('weir:{ip:=2001:db8::1}');
    expect(await subjectKey('ip', '2001:db8::1', 'log1')).toBe('weir:{ip:=2001:db8::1}:log1');
  });

  it('gives every subject a key of its own, short and with one hash tag', async () => {
    const keys = await Promise.all(SUBJECTS.map((subject) => subjectKey('user', subject)));
    expect(new Set(keys).size).toBe(SUBJECTS.length);
    for (const key of keys) expect(key).toMatch(/^weir:\{user:[^{}]{1,65}\}$/);
  });

  it('keeps scopes apart, even if a subject spells another scope', async () => {
    const keys = await Promise.all([
      subjectKey('ip', 'b'),
      subjectKey('user', 'b'),
      subjectKey('ip', 'user:b'),
    ]);
    expect(new Set(keys).size).toBe(3);
  });

  it('puts all keys of a subject into one slot', async () => {
    const key = await subjectKey('ip', 'x}{y');
    const group = await subjectKey('ip', 'x}{y', await counterId('r', 'sliding-window-log', 1000));
    expect(new Set([key, group].map(hashTagOf)).size).toBe(1);
  });
});

describe('counterId', () => {
  it('changes with rule, algorithm, window and number of buckets, and with nothing else', async () => {
    const ids = await Promise.all([
      counterId('r', 'gcra', 1000),
      counterId('s', 'gcra', 1000),
      counterId('r', 'fixed-window', 1000),
      counterId('r', 'gcra', 2000),
      counterId('r', 'sliding-window-buckets', 1000, 5),
      counterId('r', 'sliding-window-buckets', 1000, 6),
    ]);
    expect(new Set(ids).size).toBe(6);
    expect(await counterId('r', 'token-bucket', 1000, 5)).toBe(await counterId('r', 'token-bucket', 1000, 6));
  });

  it('is a group of its own for states that can grow large', () => {
    expect(groupOf({ algorithm: 'sliding-window-log', counterId: 'id' })).toBe('id');
    expect(groupOf({ algorithm: 'concurrency', counterId: 'id' })).toBe('id');
    expect(groupOf({ algorithm: 'gcra', counterId: 'id' })).toBe('');
  });

  it('shares its key with 63 neighbouring rules, and the first 64 rules share the key without a group', () => {
    const groups = Array.from({ length: 10_000 }, (_, ordinal) =>
      groupOf({ algorithm: 'gcra', counterId: 'id', ordinal }),
    );
    const sizes = Map.groupBy(groups, (group) => group);
    expect(Math.max(...[...sizes.values()].map(({ length }) => length))).toBe(64);
    expect(groups.slice(0, 64)).toEqual(Array(64).fill(''));
    expect(groups[64]).toBe('group1');
  });
});
