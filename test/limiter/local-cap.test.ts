// The cap of an isolate that decides alone, and rules that only log or are closed.
import { describe, expect, it } from 'vitest';
import { checkFor, startLocal } from './local-limiter-harness.ts';
import { START_MS } from './rule-checks.ts';

describe('a rule that is closed', () => {
  const closed = checkFor('closed', { id: 'closed' });

  it.each([
    ['alone', [closed]],
    ['after an open one', [checkFor('open'), closed]],
    ['before a local one', [closed, checkFor('local')]],
  ])('refuses %s, and nothing is counted', (_, checks) => {
    const decision = startLocal({ capPerSecond: 1 }).decide(...checks);
    expect(decision).toEqual({
      kind: 'degraded',
      allowed: false,
      fallback: 'closed',
      reason: 'timeout',
    });
  });

  it('refuses before the cap does, and does not use up the cap', () => {
    const local = startLocal({ capPerSecond: 1 });
    for (let i = 0; i < 5; i++) expect(local.decide(closed).fallback).toBe('closed');
    expect(local.decide(checkFor('open'))).toMatchObject({ allowed: true, fallback: 'open' });
    expect(local.decide(closed).fallback).toBe('closed');
  });

  it('refuses no request if it only logs', () => {
    const decision = startLocal().decide(
      checkFor('closed', { isShadow: true }),
      checkFor('open', { id: 'other' }),
    );
    expect(decision).toMatchObject({ allowed: true, fallback: 'open' });
  });
});

it('a rule that only logs denies no request, and does not make the decision a local one', () => {
  const local = startLocal({ isolates: 10 });
  const logging = checkFor('local', { isShadow: true });
  for (const allowed of [true, false]) {
    const decision = local.decide(logging);
    expect(decision).toMatchObject({ allowed: true, fallback: 'open' });
    expect(decision.local?.results[0]?.outcome.allowed).toBe(allowed);
  }
});

describe('the cap', () => {
  it('does not hold back a request whose rules only log', () => {
    const local = startLocal({ capPerSecond: 1 });
    const decide = () => local.decide({ ...checkFor('open'), isShadow: true }).allowed;
    expect([decide(), decide(), decide()]).toEqual([true, true, true]);
  });

  const subject = (i: number) => checkFor('open', { key: `{test}:${i}`, limit: 1, windowMs: 60_000 });
  const fallbacks = (local: ReturnType<typeof startLocal>, subjects: readonly number[]) =>
    subjects.map((i) => local.decide(subject(i)).fallback);

  it('lets exactly its number through in each second', () => {
    const local = startLocal({ capPerSecond: 2 });
    expect(fallbacks(local, [1, 2, 3])).toEqual(['open', 'open', 'cap']);
    expect(fallbacks(local.at(START_MS + 999), [4])).toEqual(['cap']);
    expect(fallbacks(local.at(START_MS + 1_000), [5, 6, 7])).toEqual(['open', 'open', 'cap']);
  });

  it('refuses without counting', () => {
    const local = startLocal({ capPerSecond: 1 });
    expect(fallbacks(local, [1, 2])).toEqual(['open', 'cap']);
    const decision = local.decide(subject(2));
    expect([decision.allowed, decision.local]).toEqual([false, undefined]);
    expect(fallbacks(local.at(START_MS + 1_000), [2])).toEqual(['open']);
  });

  it('is not used up by denied requests', () => {
    const local = startLocal({ capPerSecond: 2 });
    const decisions = [1, 1, 1, 1, 2, 3].map((i) => local.decide(subject(i)));
    expect(decisions.map(({ allowed, fallback }) => [allowed, fallback])).toEqual([
      [true, 'open'],
      ...Array(3).fill([false, 'open']),
      [true, 'open'],
      [false, 'cap'],
    ]);
  });

  it('holds without rules, too, and lets requests within it pass as open', () => {
    const local = startLocal({ capPerSecond: 2 });
    const decisions = Array.from({ length: 3 }, () => local.decideWithoutRules());
    expect(decisions.map(({ allowed, fallback }) => [allowed, fallback])).toEqual([
      [true, 'open'],
      [true, 'open'],
      [false, 'cap'],
    ]);
  });

  it('of 0 lets every request through', () => {
    const local = startLocal({ capPerSecond: 0 });
    const passed = Array.from({ length: 20_000 }, () => local.decideWithoutRules().allowed);
    expect(passed.every(Boolean)).toBe(true);
  });
});
