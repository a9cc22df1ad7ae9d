// The input of a check: how much of it Weir takes, and which problems it names.
import { describe, expect, it } from 'vitest';
import { CheckError, readCall, readKeyHeader } from '../../src/checks/messages.ts';
import { LARGEST_COST } from '../../src/core/matching/rule.ts';

const checks = (count: number) =>
  Array.from({ length: count }, (_, i) => ({ rule: 'jobs', subject: `subject ${i}` }));
const problemsOf = (work: () => unknown): readonly string[] => {
  try {
    work();
  } catch (error) {
    if (error instanceof CheckError) return error.problems;
    throw error;
  }
  return [];
};

describe('a call', () => {
  it('can have twenty checks, and not one more', () => {
    expect(readCall({ checks: checks(20) }).checks).toHaveLength(20);
    expect(problemsOf(() => readCall({ checks: checks(21) }))).toEqual(['checks: can be 20 at most']);
  });

  it.each([1, LARGEST_COST])('can cost %d', (cost) =>
    expect(readCall({ rule: 'jobs', cost }).checks).toEqual([{ rule: 'jobs', cost }]),
  );

  it.each([0, LARGEST_COST + 1])('cannot cost %d', (cost) =>
    expect(problemsOf(() => readCall({ rule: 'jobs', cost }))).toEqual([
      `cost: must be from 1 to ${LARGEST_COST}`,
    ]),
  );

  it.each([{ rule: 'jobs' }, { checks: checks(2) }])('has its key, with one check or several', (call) =>
    expect(readCall({ ...call, idempotencyKey: 'order 7' }).idempotencyKey).toBe('order 7'),
  );

  it('can have texts of 256 characters, and not one more', () => {
    const subject = 's'.repeat(256);
    expect(readCall({ rule: 'jobs', subject }).checks).toEqual([{ rule: 'jobs', subject }]);
    const [problem] = problemsOf(() => readCall({ rule: 'jobs', subject: `${subject}s` }));
    expect(problem).toBe('subject: must have at most 256 characters');
  });

  it('is told of the first twenty problems, and how many more there are', () => {
    const bad = (count: number) => problemsOf(() => readCall({ checks: Array(count).fill({}) }));
    expect(bad(20)).toHaveLength(20);
    expect(bad(20).at(-1)).toBe('checks[19]: must have either rule or policy');
    const more = Array.from({ length: 20 }, () => ({ cost: 0, rule: '' }));
    const problems = problemsOf(() => readCall({ checks: more }));
    expect(problems).toHaveLength(21);
    expect(problems.at(-1)).toBe('and 20 more');
  });
});

describe('the key in a header', () => {
  it('is none without the header', () => expect(readKeyHeader(null)).toBeUndefined());

  it('is the text of the header', () => expect(readKeyHeader('order 7')).toBe('order 7'));

  it('must not be empty: all calls without a key would share it', () =>
    expect(problemsOf(() => readKeyHeader(''))).toEqual(['Idempotency-Key: must not be empty']));
});
