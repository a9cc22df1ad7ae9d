// The limiter with several regions: what it remembers, reports and counts later. With one region, none of this shows.
import { describe, expect, it, vi } from 'vitest';
import type { RuleFields } from '../../local/rules.ts';
import type { Decision } from '../../src/core/decision.ts';
import type { RuleCheck } from '../../src/core/matching/plan.ts';
import { setDecisionHeaders } from '../../src/gateway/headers.ts';
import { denies, fails, START_MS } from './fake-regions.ts';
import { useFakeTime } from './limiter-harness.ts';
import { seenFrom } from './model-regions.ts';
import { aloneIn, checkOf, near, openRegions } from './regional-isolate.ts';

useFakeTime();
const never = new AbortController().signal;
const takes = (lines: readonly string[]) => lines.filter((line) => line.endsWith('take'));
const passMs = (ms: number) => vi.setSystemTime(Date.now() + ms);

describe('a denial that is remembered', () => {
  it('may come from a rule that another region counts', async () => {
    const { decide, asked, settle, lines, eu } = openRegions();
    const checks = [near(), aloneIn('eu', 'far')];
    eu.does.run = denies(5_000);
    expect(await decide(checks)).toMatchObject({ kind: 'counted', allowed: false });
    await settle();
    lines.length = 0;
    vi.setSystemTime(START_MS + 4_999);
    expect(await decide(checks)).toMatchObject({
      kind: 'counted',
      allowed: false,
      results: [{ check: { id: 'far', region: 'eu' }, outcome: { retryAfterMs: 1 } }],
    });
    expect(asked()).toEqual([]);
    passMs(1);
    await decide(checks);
    expect(asked()).toEqual(['us take', 'eu take', 'us refund']);
  });

  it('names all rules that denied, in any region', async () => {
    const { decide, settle, eu, ap } = openRegions();
    const checks = [near(), aloneIn('eu', 'far'), aloneIn('ap', 'farther')];
    eu.does.run = denies(5_000);
    ap.does.run = denies(3_000);
    await decide(checks);
    await settle();
    const known = await decide(checks);
    expect(known.kind === 'counted' && known.results.map(({ check }) => check.id)).toEqual([
      'far',
      'farther',
    ]);
    passMs(3_000);
    expect(await decide(checks)).toMatchObject({ results: [{ check: { id: 'far' } }] });
  });

  it('of a rule that one region counts holds, whichever region is nearest', async () => {
    const { decide, asked, settle, lines, eu, regions } = openRegions();
    const far = aloneIn('eu', 'far');
    eu.does.run = denies(5_000);
    await decide([far]);
    await settle();
    lines.length = 0;
    for (const nearest of [0, 1, 2])
      expect(await decide([far], { regions: seenFrom(regions, nearest) })).toMatchObject({ allowed: false });
    expect(asked()).toEqual([]);
  });

  it('of one part holds for that part only', async () => {
    const { decide, asked, settle, lines, us, regions } = openRegions();
    const check = near({ rule: { spill: false } });
    us.does.run = denies(5_000);
    await decide([check]);
    await settle();
    lines.length = 0;
    expect(await decide([check], { regions: seenFrom(regions, 1) })).toMatchObject({ allowed: true });
    expect(asked()).toEqual(['eu take']);
  });

  it('lasts until the first region has room', async () => {
    const { decide, asked, us, eu, ap, lines } = openRegions();
    us.does.run = denies(30_000);
    eu.does.run = denies(20_000);
    ap.does.run = denies(10_000);
    await decide([near()]);
    lines.length = 0;
    passMs(9_999);
    expect(await decide([near()])).toMatchObject({ results: [{ outcome: { retryAfterMs: 1 } }] });
    expect(asked()).toEqual([]);
    passMs(1);
    await decide([near()]);
    expect(takes(asked())).toEqual(['ap take']);
  });
});

describe('a denial is not remembered', () => {
  /** `us` has used up its six units. `eu` still has all of its units, and does not transfer them. */
  async function openUsedUp() {
    const opened = openRegions(['us', 'eu']);
    const { run } = opened.eu.does;
    opened.eu.does.run = (call, signal) =>
      call.operation === 'transfer' ? fails('unavailable')() : run(call, signal);
    for (let i = 0; i < 6; i += 1) await opened.decide([near()]);
    await opened.settle();
    opened.lines.length = 0;
    return opened;
  }

  it.each([
    ['does not answer', 100, ['us take', 'eu take']],
    ['has an open breaker', 1_000, ['us take']],
  ])(
    'if another region %s for a moment: the next request may pass there',
    async (_, openMs, askedAtFirst) => {
      const { decide, settle, asked, eu } = await openUsedUp();
      const { run } = eu.does;
      eu.does.run = fails('unavailable');
      if (openMs === 1_000) eu.trip();
      expect(await decide([near()])).toMatchObject({ kind: 'counted', allowed: false });
      eu.does.run = run;
      passMs(openMs);
      // A request that needs no counter is enough to find out that the region is back.
      await decide([]);
      await settle();
      expect(await decide([near()])).toMatchObject({ kind: 'counted', allowed: true });
      expect(takes(asked())).toEqual([...askedAtFirst, 'eu take']);
    },
  );

  it('if another rule of the request does not spill: a request without that rule may pass elsewhere', async () => {
    const { decide, asked, us } = await openUsedUp();
    const alone = checkOf('alone', { rule: { spill: false } });
    for (let i = 0; i < 6; i += 1) await us.store.take({ checks: [alone] }, never);
    expect((await decide([near(), { ...alone, limit: 12 }])).allowed).toBe(false);
    expect((await decide([near()])).allowed).toBe(true);
    expect((await decide([near(), alone])).allowed).toBe(false);
    expect(takes(asked()).slice(6)).toEqual(['us take', 'eu take']);
  });
});

describe('clients read', () => {
  const headersOf = async (decision: Decision) => {
    const headers = new Headers();
    setDecisionHeaders(headers, decision, { isDevelopment: false });
    return Object.fromEntries(headers);
  };

  it('the whole limit, and what is left of it', async () => {
    const { decide } = openRegions();
    expect(await headersOf(await decide([near({ limit: 30 })]))).toMatchObject({
      'x-ratelimit-limit': '30',
      'x-ratelimit-remaining': '29',
      'ratelimit-policy': '"all-ip";q=30;w=60',
      ratelimit: '"all-ip";r=29;t=60',
    });
  });

  it('one unit less with each request, down to zero', async () => {
    const { decide, settle } = openRegions();
    const told: (string | undefined)[] = [];
    for (let i = 0; i < 30; i += 1) {
      told.push((await headersOf(await decide([near({ limit: 30 })])))['x-ratelimit-remaining']);
      await settle();
    }
    expect(told).toEqual(Array.from({ length: 30 }, (_, i) => String(29 - i)));
    expect((await decide([near({ limit: 30 })])).allowed).toBe(false);
  });

  it('the same number from a peek as from the last request', async () => {
    const { decide, settle } = openRegions();
    for (let i = 0; i < 17; i += 1) await decide([near({ limit: 30 })]).then(settle);
    const peeked = await decide([near({ limit: 30 })], { operation: 'peek' });
    expect((await headersOf(peeked))['x-ratelimit-remaining']).toBe('13');
  });
});

describe('a subject whose owner is down', () => {
  it.each(['open', 'closed'] as const)('follows the fallback of its rule: %s', async (onUnavailable) => {
    const { decide, settle, asked, us, eu, ap, regions } = openRegions();
    const check = near({ rule: { onUnavailable } });
    // All parts move to eu.
    const inEu = { regions: seenFrom(regions, 1) };
    for (let i = 0; i < 4; i += 1) await decide([check], inEu).then(settle);
    expect(left(us, check) ?? left(ap, check)).toBe(0);
    eu.does.run = fails('unavailable');
    asked();
    expect(await decide([check])).toMatchObject({
      kind: 'degraded',
      reason: 'unavailable',
      allowed: onUnavailable === 'open',
    });
  });
  const left = (region: ReturnType<typeof openRegions>['us'], check: RuleCheck) =>
    region.peek(check)?.remaining;
});

describe('with one region', () => {
  it.each<[string, RuleFields]>([
    ['is split', {}],
    ['is central', { central: true }],
    ['has shares for others', { shares: { eu: 1 } }],
  ])('a rule that %s is counted there as a whole, with one call', async (_, rule) => {
    const { decide, asked } = openRegions(['us']);
    const decision = await decide([near({ rule })]);
    expect(decision).toMatchObject({ results: [{ check: { limit: 12 }, outcome: { remaining: 11 } }] });
    expect(asked()).toEqual(['us take']);
  });

  it('a limit that the rules still split over other regions is counted there as a whole', async () => {
    const { decide, asked } = openRegions(['us'], { shares: { us: 1, eu: 2 }, before: [] });
    expect(await decide([near()])).toMatchObject({ results: [{ outcome: { remaining: 11 } }] });
    expect(asked()).toEqual(['us take']);
  });

  it('shadow rules are counted with the other rules, and nothing is reported later', async () => {
    const { decide, settle, asked } = openRegions(['us']);
    const log = checkOf('shadow', { isShadow: true, rule: { action: 'log' } });
    const onShadow = vi.fn();
    const decision = await decide([near(), log], { onShadow });
    await settle();
    expect(decision.kind === 'counted' && decision.results.length).toBe(2);
    expect([asked(), onShadow.mock.calls]).toEqual([['us take'], []]);
  });

  it('a request beyond the limit is denied with one call, and the denial is known from then on', async () => {
    const { decide, asked } = openRegions(['us']);
    for (let i = 0; i < 14; i += 1) expect((await decide([near()])).allowed).toBe(i < 12);
    expect(asked()).toEqual(Array(13).fill('us take'));
  });
});

describe('a region whose share is 0', () => {
  const split = { shares: { us: 0, eu: 1, ap: 1 }, before: [] };

  it('counts nothing: its requests are counted by the nearest region that has a part', async () => {
    const { decide, asked, left, us, eu } = openRegions(['us', 'eu', 'ap'], split);
    expect(await decide([near()])).toMatchObject({ kind: 'counted', allowed: true });
    expect(asked()).toEqual(['eu take']);
    expect([left(eu, near(), 6), left(us, near(), 6)]).toEqual([5, 6]);
  });

  it('counts no subject of a central rule', async () => {
    const { decide, asked } = openRegions(['us', 'eu', 'ap'], split);
    for (let i = 0; i < 20; i += 1) await decide([near({ key: `{k${i}}`, rule: { central: true } })]);
    expect(asked().some((line) => line.startsWith('us'))).toBe(false);
  });
});
