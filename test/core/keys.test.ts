import { describe, expect, it } from 'vitest';
import { counterKey } from '../../src/core/keys.ts';
import type { Rule } from '../../src/core/rule.ts';

const rule: Rule = {
  id: 'r1',
  name: 'r1',
  resource: '/*',
  scope: 'ip',
  algorithm: 'fixed-window',
  limit: 1,
  windowSeconds: 1,
  priority: 1,
};

describe('counterKey', () => {
  it('keeps a plain subject readable', async () => {
    expect(await counterKey(rule, '2001:db8::1')).toBe('weir:{ip:=2001:db8::1}:r1');
  });

  it('gives every subject a key of its own, short and with one hash tag', async () => {
    const subjects = [
      'a',
      'a}',
      '{a',
      'a b',
      'ä',
      '',
      '=a',
      '#a',
      'a:',
      'x'.repeat(10_000),
      'x'.repeat(10_001),
    ];
    const keys = await Promise.all(subjects.map((subject) => counterKey(rule, subject)));
    expect(new Set(keys).size).toBe(subjects.length);
    for (const key of keys) expect(key).toMatch(/^weir:\{[^{}]{1,100}\}:r1$/);
  });
});
