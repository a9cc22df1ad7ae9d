// The limiter where there are several regions: what it remembers, tells and counts later; and that with one nothing of
// it is to be seen.
import { describe, expect, it, vi } from 'vitest';
import type { CheckResult } from '../../src/core/decision.ts';
import type { RuleCheck } from '../../src/core/plan.ts';
import type { Rule } from '../../src/core/rule.ts';
import { setDecisionHeaders } from '../../src/http/headers.ts';
import { createCharges } from '../../src/limiter/charges.ts';
import { answers, denies, fails, hangingRun, START_MS, timed, useFakeTime } from './limiter-harness.ts';
import { seenFrom } from './model-regions.ts';
import { aloneIn, checkOf, near, openRegions } from './regional-isolate.ts';
import type { RuleCheckShape } from './rule-checks.ts';

useFakeTime();
const never = new AbortController().signal;
const passMs = (ms: number) => vi.setSystemTime(Date.now() + ms);

describe('a denial that is remembered', () => {
  it('may be of a rule that another region counts', async () => {
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

  it('is of all rules that denied, wherever', async () => {
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

  it('is known whatever the nearest region is, if another one has told it', async () => {
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

  it('of a part counts for that part only', async () => {
    const { decide, asked, settle, lines, us, regions } = openRegions();
    const check = near({ rule: { spill: false } });
    us.does.run = denies(5_000);
    await decide([check]);
    await settle();
    lines.length = 0;
    expect(await decide([check], { regions: seenFrom(regions, 1) })).toMatchObject({ allowed: true });
    expect(asked()).toEqual(['eu take']);
  });

  it('is as long as until the first lender has room', async () => {
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
    expect(asked()).toEqual(['us take', 'ap take']);
  });
});

describe('a denial is not remembered', () => {
  /** `us` has used up its six, and `eu` has all of its own. */
  async function openUsedUp() {
    const opened = openRegions(['us', 'eu']);
    for (let i = 0; i < 6; i += 1) await opened.decide([near()]);
    await opened.settle();
    opened.lines.length = 0;
    return opened;
  }

  it.each([
    ['does not answer', 100, ['us take', 'eu take']],
    ['has an open breaker', 1_000, ['us take']],
  ])('if a lender %s for a moment: the next request may borrow', async (_, openMs, askedAtFirst) => {
    const { decide, settle, asked, eu } = await openUsedUp();
    const { run } = eu.does;
    eu.does.run = fails('unavailable');
    if (openMs === 1_000) eu.trip();
    expect(await decide([near()])).toMatchObject({ kind: 'counted', allowed: false });
    eu.does.run = run;
    passMs(openMs);
    // A request that needs no counter is enough to find out that it is back.
    await decide([]);
    await settle();
    expect(await decide([near()])).toMatchObject({ kind: 'counted', allowed: true });
    const takes = asked().filter((line) => line.endsWith('take'));
    expect(takes).toEqual([...askedAtFirst, 'us take', 'eu take', 'us take']);
  });

  it('if another rule of the request could not borrow: without that, it may', async () => {
    const { decide, asked, us } = await openUsedUp();
    const alone = checkOf('alone', { rule: { spill: false } });
    for (let i = 0; i < 6; i += 1) await us.store.run({ operation: 'take', checks: [alone] }, never);
    expect((await decide([near(), { ...alone, limit: 12 }])).allowed).toBe(false);
    expect((await decide([near()])).allowed).toBe(true);
    expect((await decide([near(), alone])).allowed).toBe(false);
    expect(asked().slice(6)).toEqual(['us take', 'us take', 'eu take', 'us take']);
  });

  it('if every loan was taken by somebody else', async () => {
    const { decide, us, eu } = await openUsedUp();
    const { run } = us.does;
    us.does.run = denies(30_000);
    eu.does.run = answers();
    expect((await decide([near()])).allowed).toBe(false);
    us.does.run = run;
    expect((await decide([near()])).allowed).toBe(true);
  });
});

it('tells clients the whole limit, and what is left of the part', async () => {
  const { decide } = openRegions();
  const headers = new Headers();
  setDecisionHeaders(headers, await decide([near({ limit: 30 })]), { isDevelopment: false });
  expect(Object.fromEntries(headers)).toMatchObject({
    'x-ratelimit-limit': '30',
    'x-ratelimit-remaining': '9',
    'ratelimit-policy': '"near";q=30;w=60',
    ratelimit: '"near";r=9;t=60',
  });
});

describe('shadow rules', () => {
  const shadow = (shape: RuleCheckShape = {}) =>
    checkOf('shadow', { log: true, ...shape, rule: { action: 'log', ...shape.rule } });
  const watch = () => {
    const told: (readonly [string, boolean])[][] = [];
    const onShadow = (results: readonly CheckResult<RuleCheck>[]) =>
      void told.push(results.map(({ check, outcome }) => [check.id, outcome.allowed]));
    return { told, onShadow };
  };

  it('are counted after the response, and then told', async () => {
    const { decide, settle, us } = openRegions();
    const { onShadow, told } = watch();
    const waiting: (() => void)[] = [];
    const { run } = us.does;
    us.does.run = async (call, signal) => {
      if (call.checks.some(({ log }) => log)) await new Promise<void>((resolve) => waiting.push(resolve));
      return run(call, signal);
    };
    const decision = await decide([near(), shadow()], { onShadow });
    expect(decision).toMatchObject({ allowed: true, results: [{ check: { id: 'near' } }] });
    expect([decision.kind === 'counted' && decision.results.length, told]).toEqual([1, []]);
    for (const go of waiting) go();
    await settle();
    expect(told).toEqual([[['shadow', true]]]);
  });

  it('keep nobody waiting if there are no others, and all regions hang', async () => {
    const { decide, asked, us, eu, ap } = openRegions();
    for (const region of [us, eu, ap]) region.does.run = hangingRun;
    const { onShadow, told } = watch();
    const decision = await decide([shadow()], { onShadow });
    expect(decision).toMatchObject({ kind: 'counted', allowed: true, results: [] });
    expect([Date.now() - START_MS, asked(), told]).toEqual([0, ['us take'], []]);
  });

  it('say what they would have denied, and borrow nothing', async () => {
    const { decide, settle, asked, us, left } = openRegions();
    const { onShadow, told } = watch();
    const check = shadow({ limit: 3 });
    for (let i = 0; i < 2; i += 1) await decide([near(), check], { onShadow });
    await settle();
    expect(told).toEqual([[['shadow', true]], [['shadow', false]]]);
    expect(asked()).toEqual(['us take', 'us take', 'us take', 'us take']);
    expect(left(us, check, 1)).toBe(0);
  });

  it('are not counted for a request that is denied', async () => {
    const { decide, settle, asked, us } = openRegions();
    const { onShadow, told } = watch();
    us.does.run = denies(30_000);
    await decide([near({ rule: { spill: false } }), shadow()], { onShadow });
    await settle();
    expect([asked(), told]).toEqual([['us take'], []]);
  });

  it('are looked at with the others by a peek', async () => {
    const { decide, asked } = openRegions();
    const { onShadow, told } = watch();
    const decision = await decide([near(), shadow()], { operation: 'peek', onShadow });
    expect(decision.kind === 'counted' && decision.results.map(({ check }) => check.id)).toEqual([
      'near',
      'shadow',
    ]);
    expect([asked(), told]).toEqual([['us peek'], []]);
  });

  it.each<[string, Partial<Rule>]>([
    ['takes its cost from the origin', { costFromOrigin: true }],
    ['gives back for errors', { refundOnError: true }],
    ['delays', { action: 'throttle', spill: false }],
  ])('are counted with the others if one %s: its charge is changed later', async (_, rule) => {
    const { decide, asked, settle } = openRegions();
    const { onShadow, told } = watch();
    const decision = await decide([near(), shadow({ rule })], { onShadow });
    await settle();
    expect(decision).toMatchObject({ results: [{ check: { id: 'near' } }, { check: { id: 'shadow' } }] });
    expect([asked(), told]).toEqual([['us take'], []]);
  });

  it('hold no connection longer than the request', async () => {
    const { decide, settle, us, left } = openRegions();
    const check = shadow({ algorithm: 'concurrency', rule: { spill: false } });
    const decision = await decide([near(), check]);
    await settle();
    await timed(() => createCharges({ decision, onError: () => {} }).release());
    expect(left(us, { ...check, leaseId: 'lease-9999999999' }, 4)).toBe(4);
  });
});

describe('with one region', () => {
  it.each<[string, Partial<Rule>]>([
    ['is split', {}],
    ['is central', { central: true }],
    ['has shares for others', { shares: { eu: 1 } }],
    [
      'was placed elsewhere',
      { placedBefore: [{ shares: { eu: 1 }, central: true, replacedAtMs: START_MS }] },
    ],
  ])('a rule that %s is counted there as a whole, with one call', async (_, rule) => {
    const { decide, asked } = openRegions(['us']);
    const decision = await decide([near({ rule })]);
    expect(decision).toMatchObject({ results: [{ check: { limit: 12 }, outcome: { remaining: 11 } }] });
    expect(asked()).toEqual(['us take']);
  });

  it('the rules may still be split over others: it is counted there as a whole', async () => {
    const { decide, asked } = openRegions(['us'], { shares: { us: 1, eu: 2 }, before: [] });
    expect(await decide([near()])).toMatchObject({ results: [{ outcome: { remaining: 11 } }] });
    expect(asked()).toEqual(['us take']);
  });

  it('shadow rules are counted with the others, and nothing is told later', async () => {
    const { decide, settle, asked } = openRegions(['us']);
    const log = checkOf('shadow', { log: true, rule: { action: 'log' } });
    const onShadow = vi.fn();
    const decision = await decide([near(), log], { onShadow });
    await settle();
    expect(decision.kind === 'counted' && decision.results.length).toBe(2);
    expect([asked(), onShadow.mock.calls]).toEqual([['us take'], []]);
  });

  it('a used-up limit is denied with one call, and known from then on', async () => {
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
