// Which denials the isolate remembers, for how long, and when it still asks Redis.
import { describe, expect, it } from 'vitest';
import type { Outcome } from '../../src/core/counting/check.ts';
import type { RuleCheck } from '../../src/core/matching/plan.ts';
import { createKnownDenials } from '../../src/limiter/memory.ts';
import {
  START_MS as ASKED_AT_MS,
  admitted,
  createRuleCheck,
  deniedFor,
  type RuleCheckShape,
} from './rule-checks.ts';

/** The clock of Redis is 7 ms ahead, or the call took that long to arrive. */
const ANSWERED_AT_MS = ASKED_AT_MS + 7;
const MOMENT = { askedAtMs: ASKED_AT_MS, answeredAtMs: ANSWERED_AT_MS, announcement: 'announcement' };

/** Remembers one answer, and returns what memory says in this region and announcement. */
function rememberedAs(given: readonly (readonly [RuleCheck, Outcome])[], maxEntries?: number) {
  const denials = createKnownDenials(maxEntries);
  for (const [check, outcome] of given) denials.remember('owner', check, outcome, MOMENT);
  const find = (
    check: RuleCheck,
    afterMs: number,
    { region = 'owner', announcement = 'announcement' } = {},
  ) => denials.find(region, check, ASKED_AT_MS + afterMs, announcement);
  return { denials, find };
}

const check = createRuleCheck();
const other = createRuleCheck({ id: 'other' });

describe('a denial is known', () => {
  it('for exactly its retry time, from the moment that Redis was asked', () => {
    const { find } = rememberedAs([[check, deniedFor(500)]]);
    expect(find(check, 0)).toBeDefined();
    expect(find(check, 499)).toBeDefined();
    expect(find(check, 500)).toBeUndefined();
    expect(find(check, 499)).toBeUndefined();
  });

  it('with a retry time that shrinks as the clock advances', () => {
    const { find } = rememberedAs([[check, deniedFor(500)]]);
    for (const afterMs of [0, 1, 250, 499])
      expect(find(check, afterMs)).toEqual({ ...deniedFor(500 - afterMs), nowMs: ANSWERED_AT_MS + afterMs });
  });

  it('for a minute if no wait will ever help', () => {
    const { find } = rememberedAs([[check, deniedFor(undefined)]]);
    expect(find(check, 59_999)).toMatchObject(deniedFor(undefined));
    expect(find(check, 60_000)).toBeUndefined();
  });

  it('for the retry time of the last answer', () => {
    const { denials, find } = rememberedAs([[check, deniedFor(500)]]);
    denials.remember('owner', check, deniedFor(900), { ...MOMENT, askedAtMs: ASKED_AT_MS + 100 });
    expect(find(check, 999)?.retryAfterMs).toBe(1);
    expect(find(check, 1_000)).toBeUndefined();
  });

  it('for each check separately', () => {
    const { find } = rememberedAs([
      [check, deniedFor(500)],
      [other, deniedFor(300)],
    ]);
    expect([find(check, 299), find(other, 299)]).toMatchObject([{}, {}]);
    expect(find(check, 300)).toBeDefined();
    expect(find(other, 300)).toBeUndefined();
  });
});

describe('Redis is asked', () => {
  it.each<[string, RuleCheckShape]>([
    ['a seat, which may be released', { algorithm: 'concurrency' }],
    ['a rule that counts denied requests', { countDenied: true }],
    ['a rule that only logs', { isShadow: true }],
    ['a rule that throttles', { algorithm: 'leaky-bucket', rule: { action: 'throttle' } }],
    ['a rule that refunds errors', { rule: { refundOnError: true } }],
    ['a rule that takes its cost from the origin', { rule: { costFromOrigin: true } }],
  ])('about %s', (_, shape) => {
    const denied = createRuleCheck(shape);
    const { find } = rememberedAs([[denied, deniedFor(500)]]);
    expect(find(denied, 1)).toBeUndefined();
    expect(find({ ...check, id: denied.id }, 1)).toBeUndefined();
  });

  it.each<[string, RuleCheckShape]>([
    ['limit', { limit: 11 }],
    ['burst or number of buckets', { extra: 3 }],
    ['cost', { cost: 2 }],
    ['rule', { id: 'other' }],
    ['subject', { key: '{test}:other' }],
  ])('about another %s', (_, shape) => {
    const { find } = rememberedAs([[check, deniedFor(500)]]);
    expect(find(createRuleCheck(shape), 1)).toBeUndefined();
    expect(find(check, 1)).toBeDefined();
  });

  it('if the clock was put back, until it has caught up', () => {
    const { find } = rememberedAs([[check, deniedFor(500)]]);
    expect(find(check, -1)).toBeUndefined();
    expect(find(check, 0)).toBeDefined();
  });

  it('after a new announcement, and the isolate forgets all earlier denials', () => {
    const { find } = rememberedAs([[check, deniedFor(500)]]);
    expect(find(check, 1, { announcement: 'next' })).toBeUndefined();
    expect(find(check, 1)).toBeUndefined();
  });

  it('if a later answer belongs to another announcement', () => {
    const { denials, find } = rememberedAs([[check, deniedFor(500)]]);
    denials.remember('owner', other, deniedFor(500), { ...MOMENT, announcement: 'next' });
    expect(find(other, 1, { announcement: 'next' })).toBeDefined();
    expect(find(check, 1, { announcement: 'next' })).toBeUndefined();
  });

  it('if another region has denied', () => {
    const { find } = rememberedAs([[check, deniedFor(500)]]);
    expect(find(check, 1, { region: 'next' })).toBeUndefined();
    expect(find(check, 1)).toBeDefined();
  });

  it('about a check without a known denial', () => {
    expect(createKnownDenials().find('owner', check, ASKED_AT_MS, 'announcement')).toBeUndefined();
  });
});

it('memory forgets the denial that was used longest ago when there are too many', () => {
  const checks = ['a', 'b', 'c'].map((id) => createRuleCheck({ id })) as [RuleCheck, RuleCheck, RuleCheck];
  const [a, b, c] = checks;
  const { denials, find } = rememberedAs(
    [
      [a, deniedFor(500)],
      [b, deniedFor(500)],
    ],
    2,
  );
  expect(find(a, 1)).toBeDefined();
  denials.remember('owner', c, deniedFor(500), MOMENT);
  expect(checks.map((one) => find(one, 2) !== undefined)).toEqual([true, false, true]);
});

it('memory keeps no allowed outcome', () => {
  const { find } = rememberedAs(
    [
      [check, deniedFor(500)],
      [other, admitted],
    ],
    1,
  );
  expect(find(check, 1)).toBeDefined();
});

it('memory keeps no more than 10,000 denials', () => {
  const checks = Array.from({ length: 10_001 }, (_, i) => createRuleCheck({ key: `{test}:${i}` }));
  const { find } = rememberedAs(checks.map((one) => [one, deniedFor(500)]));
  const known = checks.map((one) => find(one, 1) !== undefined);
  expect(known.filter(Boolean)).toHaveLength(10_000);
  expect(known[0]).toBe(false);
});
