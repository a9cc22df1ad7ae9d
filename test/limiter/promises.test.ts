// Of all that Weir itself does for a request, promises cost the most processor time. So they have a budget.
import { createHook } from 'node:async_hooks';
import { expect, it } from 'vitest';
import type { Decision } from '../../src/core/decision.ts';
import type { CounterStore } from '../../src/core/ports/region.ts';
import { createLedger } from '../../src/limiter/ledger.ts';
import type { RequestPlan } from '../../src/limiter/limiter.ts';
import type { LimiterRegion, Regions } from '../../src/limiter/region.ts';
import { createRegion, createRegions, denies, START_MS } from './fake-regions.ts';
import { createCheck, openIsolate } from './limiter-harness.ts';

/** Answers at once, with one promise and no `await`, so that nothing but the decision runs meanwhile. */
function createQuickRegion(name: string): LimiterRegion {
  const outcome = { allowed: true, remaining: 9, resetAtMs: 1, retryAfterMs: 0, granted: 0, delayMs: 0 };
  const take: CounterStore['take'] = ({ checks }) =>
    Promise.resolve({ nowMs: START_MS, outcomes: checks.map(() => outcome) });
  const region = createRegion(name, {});
  return { ...region, store: { ...region.store, take } };
}

/** With a hook, V8 makes a promise for each `await`, too. So this counts both. */
async function promisesOf(work: () => Promise<unknown>): Promise<number> {
  let made = 0;
  const hook = createHook({
    init(_, type) {
      if (type === 'PROMISE') made += 1;
    },
  });
  hook.enable();
  await work();
  hook.disable();
  return made;
}

it('a decision that memory makes is no promise', async () => {
  const { regions } = createRegions({ run: denies(5_000) });
  const { limiter } = openIsolate(regions);
  const decide = (plan: RequestPlan) => {
    const ledger = createLedger(() => {});
    return limiter.decide({ regions, operation: 'take', ledger, afterResponse: () => {} }, () => plan);
  };
  const denied: RequestPlan = { kind: 'checks', checks: [createCheck()] };
  expect(await decide(denied)).toMatchObject({ kind: 'counted', allowed: false });
  expect(decide(denied)).toMatchObject({ kind: 'counted', allowed: false });
  expect(decide({ kind: 'listed', list: 'deny' })).toMatchObject({ kind: 'listed', allowed: false });
  expect(decide({ kind: 'checks', checks: [] })).toMatchObject({ kind: 'unlimited' });
});

it.each<[string, Regions]>([
  ['one region', [createQuickRegion('us')]],
  ['three regions', [createQuickRegion('us'), createQuickRegion('eu'), createQuickRegion('ap')]],
])('a decision that Redis makes takes at most 5 promises and awaits with %s', async (_, regions) => {
  const { limiter } = openIsolate(regions);
  let decided: Decision | undefined;
  const decide = async () => {
    const ledger = createLedger(() => {});
    const request = { regions, operation: 'take', ledger, afterResponse: () => {} } as const;
    decided = await limiter.decide(request, () => ({
      kind: 'checks',
      checks: [createCheck({ lease: false })],
    }));
  };
  // The first decision also does the one-time work of the isolate.
  await decide();
  const ready = Promise.resolve();
  const ofCaller = await promisesOf(async () => await ready);
  expect((await promisesOf(decide)) - ofCaller).toBeLessThanOrEqual(5);
  expect(decided).toMatchObject({ kind: 'counted', allowed: true });
});
