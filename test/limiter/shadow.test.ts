// Shadow rules with several regions: they are counted after the response, in the way in which they would be enforced.
import { describe, expect, it } from 'vitest';
import type { RuleFields } from '../../local/rules.ts';
import type { CheckResult } from '../../src/core/decision.ts';
import type { RuleCheck } from '../../src/core/matching/plan.ts';
import { createLedger } from '../../src/limiter/ledger.ts';
import { denies, fails, hangingRun, START_MS } from './fake-regions.ts';
import { timed, useFakeTime } from './limiter-harness.ts';
import { checkOf, near, openRegions } from './regional-isolate.ts';
import type { RuleCheckShape } from './rule-checks.ts';

useFakeTime();

describe('shadow rules', () => {
  const shadow = (shape: RuleCheckShape = {}) =>
    checkOf('shadow', { isShadow: true, ...shape, rule: { action: 'log', ...shape.rule } });
  const watch = () => {
    const told: (readonly [string, boolean])[][] = [];
    const onShadow = (results: readonly CheckResult<RuleCheck>[]) =>
      void told.push(results.map(({ check, outcome }) => [check.id, outcome.allowed]));
    return { told, onShadow };
  };

  it('are counted after the response, and then reported', async () => {
    const { decide, settle, us } = openRegions();
    const { onShadow, told } = watch();
    const waiting: (() => void)[] = [];
    const { run } = us.does;
    us.does.run = async (call, signal) => {
      if (call.checks.some(({ isShadow }) => isShadow))
        await new Promise<void>((resolve) => waiting.push(resolve));
      return run(call, signal);
    };
    const decision = await decide([near(), shadow()], { onShadow });
    expect(decision).toMatchObject({ allowed: true, results: [{ check: { id: 'near' } }] });
    expect([decision.kind === 'counted' && decision.results.length, told]).toEqual([1, []]);
    for (const go of waiting) go();
    await settle();
    expect(told).toEqual([[['shadow', true]]]);
  });

  it('do not delay a request that has no other rules, even if all regions hang', async () => {
    const { decide, asked, us, eu, ap } = openRegions();
    for (const region of [us, eu, ap]) region.does.run = hangingRun;
    const { onShadow, told } = watch();
    const decision = await decide([shadow()], { onShadow });
    expect(decision).toMatchObject({ kind: 'counted', allowed: true, results: [] });
    expect([Date.now() - START_MS, asked(), told]).toEqual([0, ['us take'], []]);
  });

  it('predict enforcement: with a limit of 30, the 31st request from one region would be denied', async () => {
    const { decide, settle, asked } = openRegions();
    const { onShadow, told } = watch();
    const check = shadow({ limit: 30 });
    for (let i = 0; i < 33; i += 1) {
      await decide([near({ limit: 300 }), check], { onShadow });
      await settle();
    }
    expect(told.map(([one]) => one?.[1])).toEqual([...Array(30).fill(true), false, false, false]);
    expect(asked().filter((line) => line.endsWith('transfer'))).toEqual(['eu transfer', 'ap transfer']);
  });

  it('are tried in regions that have room while no region has transferred its part', async () => {
    const { decide, settle, eu, ap } = openRegions();
    for (const { does } of [eu, ap]) {
      const { run } = does;
      does.run = (call, signal) => (call.operation === 'transfer' ? fails('timeout')() : run(call, signal));
    }
    const { onShadow, told } = watch();
    for (let i = 0; i < 13; i += 1) {
      await decide([near({ limit: 300 }), shadow()], { onShadow });
      await settle();
    }
    expect(told.map(([one]) => one?.[1])).toEqual([...Array(12).fill(true), false]);
  });

  it('are not counted for a request that is denied', async () => {
    const { decide, settle, asked, us } = openRegions();
    const { onShadow, told } = watch();
    us.does.run = denies(30_000);
    await decide([near({ rule: { spill: false } }), shadow()], { onShadow });
    await settle();
    expect([asked(), told]).toEqual([['us take'], []]);
  });

  it('are part of a peek, like the other rules', async () => {
    const { decide, asked } = openRegions();
    const { onShadow, told } = watch();
    const decision = await decide([near(), shadow()], { operation: 'peek', onShadow });
    expect(decision.kind === 'counted' && decision.results.map(({ check }) => check.id)).toEqual([
      'near',
      'shadow',
    ]);
    expect([asked(), told]).toEqual([['us peek'], []]);
  });

  it.each<[string, RuleFields]>([
    ['takes its cost from the origin', { costFromOrigin: true }],
    ['refunds errors', { refundOnError: true }],
    ['delays', { action: 'throttle', spill: false }],
  ])('are counted with the other rules if one %s, because its charge changes later', async (_, rule) => {
    const { decide, asked, settle } = openRegions();
    const { onShadow, told } = watch();
    const decision = await decide([near(), shadow({ rule })], { onShadow });
    await settle();
    expect(decision).toMatchObject({ results: [{ check: { id: 'near' } }, { check: { id: 'shadow' } }] });
    expect([asked(), told]).toEqual([['us take'], []]);
  });

  it('hold no seat longer than the request', async () => {
    const { decide, settle, us, left } = openRegions();
    const check = shadow({ algorithm: 'concurrency', rule: { spill: false } });
    const ledger = createLedger(() => {});
    await decide([near(), check], { ledger });
    await settle();
    await timed(() => ledger.release());
    expect(left(us, { ...check, seatId: 'seat-09999999999' }, 4)).toBe(4);
  });
});
