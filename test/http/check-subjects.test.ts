// Whose usage the charges of a check are.
import { describe, expect, it } from 'vitest';
import { subjectsOf, usageOf } from '../../src/checks/checks.ts';
import { createRuleCheck } from '../limiter/rule-checks.ts';

const NOBODY = { ip: 'unknown', address: 'unknown' };
const planned = (key: string, caller: object, isShadow = false) => ({
  check: createRuleCheck({ key, isShadow }),
  subject: key,
  caller: { ...NOBODY, ...caller },
});

describe('the usage of a charge', () => {
  it.each(['tenantId', 'userId', 'apiKeyId'] as const)(
    'of a subject that is a %s names nobody else',
    (id) => {
      const one = planned('one', { [id]: 'ann' });
      expect(usageOf(one.check, subjectsOf([one]))).toEqual({
        ...{ ruleId: 'rule', tenantId: '', userId: '', apiKeyId: '', subject: 0 },
        [id]: 'ann',
      });
    },
  );

  it('belongs to the subject of its own check, and a subject of several checks is one', () => {
    const all = [
      planned('a', { userId: 'ann' }),
      planned('b', { userId: 'bob' }),
      planned('c', { userId: 'ann' }),
    ];
    const subjects = subjectsOf(all);
    expect(subjects).toHaveLength(2);
    const usages = all.map(({ check }) => usageOf(check, subjects));
    expect(usages).toMatchObject([
      { userId: 'ann', subject: 0 },
      { userId: 'bob', subject: 1 },
      { userId: 'ann', subject: 0 },
    ]);
  });

  it('is none for a shadow rule, and none for a check of nobody', () => {
    const shadow = planned('shadow', { userId: 'ann' }, true);
    expect(usageOf(shadow.check, subjectsOf([shadow]))).toBeUndefined();
    expect(usageOf(createRuleCheck({ key: 'other' }), subjectsOf([shadow]))).toBeUndefined();
  });
});
