// The input of a check: how much of it Weir takes, and which errors it names.
import { describe, expect, it } from 'vitest';
import { readCall, readKeyHeader } from '../../src/checks/call.ts';
import { LARGEST_COST } from '../../src/core/matching/rule.ts';
import type { FieldError } from '../../src/core/shape.ts';
import { ProblemError, render } from '../../src/http/internal-requests.ts';
import type { Problem } from '../../src/http/problem.ts';

const checks = (count: number) =>
  Array.from({ length: count }, (_, i) => ({ rule: 'jobs', subject: `subject ${i}` }));
const errorsOf = async (work: () => unknown): Promise<readonly FieldError[]> => {
  try {
    work();
  } catch (error) {
    if (error instanceof ProblemError) return ((await render(error.problem).json()) as Problem).errors ?? [];
    throw error;
  }
  return [];
};

describe('a call', () => {
  it('can have twenty checks, and not one more', async () => {
    expect(readCall({ checks: checks(20) }).checks).toHaveLength(20);
    expect(await errorsOf(() => readCall({ checks: checks(21) }))).toEqual([
      { pointer: '#/checks', detail: 'can be 20 at most' },
    ]);
  });

  it('has no holes in its list, which a Worker can send by RPC', async () => {
    const holey = checks(2);
    delete holey[0];
    expect(await errorsOf(() => readCall({ checks: holey }))).toEqual([
      expect.objectContaining({ pointer: '#/checks/0' }),
    ]);
  });

  it.each([1, LARGEST_COST])('can cost %d', (cost) =>
    expect(readCall({ rule: 'jobs', cost }).checks).toEqual([{ rule: 'jobs', cost }]),
  );

  it.each([0, LARGEST_COST + 1])('cannot cost %d', async (cost) =>
    expect(await errorsOf(() => readCall({ rule: 'jobs', cost }))).toEqual([
      { pointer: '#/cost', detail: `must be from 1 to ${LARGEST_COST}` },
    ]),
  );

  it.each([{ rule: 'jobs' }, { checks: checks(2) }])('has its key, with one check or several', (call) =>
    expect(readCall({ ...call, idempotencyKey: 'order 7' }).idempotencyKey).toBe('order 7'),
  );

  it('can have texts of 256 characters, and not one more', async () => {
    const subject = 's'.repeat(256);
    expect(readCall({ rule: 'jobs', subject }).checks).toEqual([{ rule: 'jobs', subject }]);
    expect(await errorsOf(() => readCall({ rule: 'jobs', subject: `${subject}s` }))).toEqual([
      { pointer: '#/subject', detail: 'must have at most 256 characters' },
    ]);
  });

  it('is told of the first hundred errors, and how many more there are', async () => {
    const bad = (fields: object) => errorsOf(() => readCall({ checks: Array(20).fill(fields) }));
    expect(await bad({})).toHaveLength(20);
    expect((await bad({})).at(-1)).toEqual({
      pointer: '#/checks/19',
      detail: 'must have either rule or policy',
    });
    const errors = await bad({ cost: 0, rule: '', policy: '', subject: '', tier: '', peek: '' });
    expect(errors).toHaveLength(101);
    expect(errors.at(-1)).toEqual({ pointer: '#', detail: 'has 20 more errors' });
  });

  it('is told of the names of ten unknown fields, and of no more than the beginning of each', async () => {
    const names = Array.from({ length: 11 }, (_, i) => `${i}${'x'.repeat(300)}`);
    const call = Object.fromEntries(names.map((name) => [name, 1]));
    const errors = await errorsOf(() => readCall({ rule: 'jobs', ...call }));
    expect(errors).toHaveLength(10);
    expect(errors[0]).toEqual({ pointer: `#/0${'x'.repeat(98)}…`, detail: 'is not a field' });
  });
});

describe('the key in a header', () => {
  it('is none without the header', () => expect(readKeyHeader(null)).toBeUndefined());

  it('is the text of the header', () => expect(readKeyHeader('order 7')).toBe('order 7'));

  it('must not be empty: all calls without a key would share it', async () =>
    expect(await errorsOf(() => readKeyHeader(''))).toEqual([
      { pointer: 'Idempotency-Key', detail: 'must not be empty' },
    ]));
});
