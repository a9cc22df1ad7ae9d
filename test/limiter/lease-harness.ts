// Isolates that lease from one region in memory, in fake time.
import { vi } from 'vitest';
import type { RuleCheck } from '../../src/core/matching/plan.ts';
import type { RequestPlan } from '../../src/limiter/limiter.ts';
import { createSource, openIsolate, snapshotOf } from './limiter-harness.ts';
import { createMinute, createModelRegion, type DelayMs, type ModelRegion } from './model-regions.ts';

export const hot = createMinute({ id: 'hot', limit: 1_000 });
export const other = createMinute({ id: 'other', limit: 1_000 });
export const scarce = createMinute({ id: 'scarce', limit: 20, rule: { id: 'scarce', name: 'scarce' } });

/** Longer than twice the time for which a pace is measured. */
export const WARM = 120;

export const open = (checks: readonly RuleCheck[] = [hot], delayMs: DelayMs = () => 0) =>
  openAt(createModelRegion('us', delayMs), checks);

/** Another isolate of that region. */
export function openAt(region: ModelRegion, checks: readonly RuleCheck[] = [hot]) {
  const source = createSource({ current: () => snapshotOf('old') });
  const { limiter, decide, settle } = openIsolate([region], { source });
  const sendPlan = async (plan: RequestPlan) => {
    const { decision, ledger } = await decide({ plan: async () => plan });
    return { decision, ledger };
  };
  const send = (sent = checks) => sendPlan({ kind: 'checks', checks: sent });
  /** One request every 5 ms. */
  const sendMany = async (count: number, sent = checks) => {
    const decisions = [];
    for (let i = 0; i < count; i += 1) {
      decisions.push((await send(sent)).decision);
      await vi.advanceTimersByTimeAsync(5);
    }
    return decisions;
  };
  const takes = () => region.calls.filter(({ operation }) => operation === 'take').length;
  const used = (check: RuleCheck) => check.limit - (region.peek(check)?.remaining ?? 0);
  return { region, source, limiter, settle, send, sendPlan, sendMany, takes, used };
}
