// If rules turn out to be outdated after a request was charged by them, the new rules decide the request once more. In
// the end only the new rules have charged it, and once.

import { describe, expect, it, vi } from 'vitest';
import type { RuleCheck } from '../../src/core/matching/plan.ts';
import { START_MS } from './fake-regions.ts';
import { type TestRequest, useFakeTime } from './limiter-harness.ts';
import { added, kept, open, overdue, removed, used, wider } from './outdated-rules-harness.ts';
import { aloneIn, checkOf } from './regional-isolate.ts';

useFakeTime();

describe('a request that was charged by outdated rules', () => {
  it('is charged by the new rules alone, and once', async () => {
    const { us, decide, settle, operations } = open({ before: [kept, removed], after: [wider, added] });
    expect(await decide()).toMatchObject({ kind: 'counted', allowed: true, rulesVersion: 'new' });
    await settle();
    expect([kept, removed, added].map((check) => used(check, us))).toEqual([1, 0, 1]);
    expect(operations()).toEqual(['take', 'refund', 'take']);
    expect(us.calls[1]?.checks).toMatchObject([
      { id: 'kept', chargedAtMs: START_MS },
      { id: 'removed', chargedAtMs: START_MS },
    ]);
  });

  it('is not denied by its own first charge', async () => {
    const last = checkOf('kept', { limit: 1 });
    const { us, decide, settle } = open({ before: [last], after: [last, added] });
    expect(await decide()).toMatchObject({ allowed: true, rulesVersion: 'new' });
    await settle();
    expect([last, added].map((check) => used(check, us))).toEqual([1, 1]);
  });

  it('holds one seat of a concurrency rule, that of the second round', async () => {
    const places = checkOf('places', { algorithm: 'concurrency', limit: 1, windowMs: 300_000 });
    const { us, decide, settle } = open({ before: [places], after: [places, added] });
    expect(await decide()).toMatchObject({
      allowed: true,
      results: [{ check: { seatId: 'seat-00000000002' } }, {}],
    });
    await settle();
    expect(used(places, us)).toBe(1);
  });

  it('is charged nothing if the new rules deny it', async () => {
    const closed = checkOf('closed', { limit: 1, cost: 2 });
    const { us, decide, settle } = open({ before: [kept, removed], after: [kept, closed] });
    expect(await decide()).toMatchObject({ allowed: false, rulesVersion: 'new' });
    await settle();
    expect([kept, removed, closed].map((check) => used(check, us))).toEqual([0, 0, 0]);
  });

  it('is counted once by a shadow rule that stays', async () => {
    const shadow = { ...checkOf('shadow'), isShadow: true };
    const told: string[] = [];
    const { regions, decide, settle } = open({
      before: [kept, shadow],
      after: [kept, shadow],
      regions: ['us', 'eu'],
    });
    const onShadow: TestRequest['onShadow'] = (results) =>
      void told.push(...results.map(({ check }) => check.id));
    await decide({ onShadow });
    await settle();
    expect([told, used(shadow, ...regions)]).toEqual([['shadow'], 1]);
  });

  it('is counted by the shadow rules of the new rules, and not by those of the old rules', async () => {
    const [before, after] = ['before', 'after'].map((id) => ({ ...checkOf(id), isShadow: true })) as [
      RuleCheck,
      RuleCheck,
    ];
    const told: string[] = [];
    const onShadow: TestRequest['onShadow'] = (results) =>
      void told.push(...results.map(({ check }) => check.id));
    for (const regions of [['us'], ['us', 'eu']]) {
      told.length = 0;
      const world = open({ before: [kept, before], after: [kept, after], regions });
      expect(await world.decide({ onShadow })).toMatchObject({ allowed: true, rulesVersion: 'new' });
      await world.settle();
      expect(told).toEqual(regions.length > 1 ? ['after'] : []);
      expect([before, after].map((check) => used(check, ...world.regions))).toEqual([0, 1]);
    }
  });

  it('gets its charge back in every region that charged it', async () => {
    const far = aloneIn('eu', 'far');
    const { us, eu, decide, settle } = open({ before: [kept, far], after: [kept], regions: ['us', 'eu'] });
    expect(await decide()).toMatchObject({ allowed: true, rulesVersion: 'new' });
    await settle();
    expect([used(kept, us), used(far, eu)]).toEqual([1, 0]);
  });

  it('stays charged as it was, once, if the new rules cannot be loaded', async () => {
    const { us, source, decide, settle, operations } = open({ before: [kept, removed], after: [added] });
    source.load = async () => false;
    expect(await decide()).toMatchObject({ allowed: true, rulesVersion: 'old' });
    await settle();
    expect([kept, removed, added].map((check) => used(check, us))).toEqual([1, 1, 0]);
    expect(operations()).toEqual(['take']);
  });

  it('is decided by new rules that are not confirmed yet, and no failure is noted', async () => {
    const { source, decide, settle } = open({ before: [kept], after: [wider] });
    const failed = vi.spyOn(source, 'fail');
    vi.spyOn(source, 'isConfirmed').mockReturnValue(false);
    expect(await decide()).toMatchObject({ allowed: true, rulesVersion: 'new' });
    await settle();
    expect(failed).not.toHaveBeenCalled();
  });

  it('stays charged as it was, once, if the region only missed the last publication', async () => {
    const { us, source, decide, settle, operations } = open({ before: [kept], after: [added] });
    source.load = async () => true;
    expect(await decide()).toMatchObject({ allowed: true, rulesVersion: 'old' });
    await settle();
    expect([used(kept, us), operations()]).toEqual([1, ['take']]);
  });

  it('stays charged as it was, once, if the rules had been confirmed a moment ago', async () => {
    const { us, source, decide, settle, operations } = open({ before: [kept, removed], after: [added] });
    source.asks = { ...overdue, isOverdue: false };
    expect(await decide()).toMatchObject({ allowed: true, rulesVersion: 'old' });
    await settle();
    expect(source.announced()).toBe('that');
    expect([kept, removed, added].map((check) => used(check, us))).toEqual([1, 1, 0]);
    expect(operations()).toEqual(['take']);
  });
});

describe('a request that outdated rules have denied', () => {
  it('passes if the new rules admit it, and is charged once', async () => {
    const tight = checkOf('kept', { limit: 1, cost: 2 });
    const { us, decide, settle, operations } = open({
      before: [tight, removed],
      after: [{ ...wider, cost: 2 }],
    });
    expect(await decide()).toMatchObject({ allowed: true, rulesVersion: 'new' });
    await settle();
    expect([used(kept, us), used(removed, us), operations()]).toEqual([2, 0, ['take', 'take']]);
  });

  it('stays blocked by a rule that blocks, and counted by a rule that counts denied requests', async () => {
    const blocking = checkOf('kept', { limit: 1, blockMs: 600_000 });
    const counting = checkOf('counting', { limit: 1, countDenied: true });
    const { us, decide, settle } = open({ before: [blocking, counting], after: [blocking] });
    us.does.announces = 'this';
    for (let i = 0; i < 2; i += 1) await decide();
    us.does.announces = 'that';
    expect(await decide()).toMatchObject({ allowed: false, rulesVersion: 'new' });
    await settle();
    expect(us.peek(blocking)?.retryAfterMs).toBeGreaterThan(500_000);
    expect(us.peek(counting)?.retryAfterMs).toBeGreaterThan(0);
  });
});

describe('a request that its nearest region denies by outdated rules', () => {
  const openDenied = async () => {
    const split = checkOf('split', { limit: 4 });
    const world = open({ before: [split], after: [added], regions: ['us', 'eu'] });
    // While the old rules are in force everywhere, us uses up its part. eu is not idle, and transfers nothing.
    const signal = new AbortController().signal;
    await world.eu.does.run({ operation: 'take', checks: [{ ...split, limit: 2 }] }, signal);
    for (const region of world.regions) region.does.announces = 'this';
    for (let i = 0; i < 2; i += 1) await world.decide();
    await world.settle();
    for (const region of world.regions) region.does.announces = 'that';
    const farBefore = world.eu.calls.length;
    return { ...world, split, farCalls: () => world.eu.calls.slice(farBefore) };
  };

  it('is not tried in another region by the outdated rules: the new rules decide', async () => {
    const { split, us, eu, decide, settle, farCalls } = await openDenied();
    expect(await decide()).toMatchObject({ allowed: true, rulesVersion: 'new' });
    expect(farCalls()).toEqual([]);
    await settle();
    expect([used(split, us, eu), used(added, us)]).toEqual([3, 1]);
  });

  it('is decided by the outdated rules if the new rules cannot be loaded, and charged once', async () => {
    const { split, us, eu, source, decide, settle } = await openDenied();
    source.load = async () => false;
    expect(await decide()).toMatchObject({ allowed: true, rulesVersion: 'old' });
    await settle();
    expect([used(split, us, eu), used(added, us)]).toEqual([4, 0]);
  });
});

it('a request that has only shadow rules is decided by the new rules, too', async () => {
  const shadow = { ...checkOf('shadow'), isShadow: true };
  const { us, decide, settle } = open({ before: [shadow], after: [kept], regions: ['us', 'eu'] });
  expect(await decide()).toMatchObject({ allowed: true, rulesVersion: 'new' });
  await settle();
  expect([used(shadow, us), used(kept, us)]).toEqual([0, 1]);
});

it('a peek gives nothing back', async () => {
  const { us, decide, settle, operations } = open({ before: [kept], after: [wider] });
  expect(await decide({ operation: 'peek' })).toMatchObject({ allowed: true, rulesVersion: 'new' });
  await settle();
  expect([used(kept, us), operations()]).toEqual([0, ['peek', 'peek']]);
});
