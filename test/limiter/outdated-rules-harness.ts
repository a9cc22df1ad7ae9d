// An idle isolate whose rules turn out to be outdated. The counters are in memory, and tests read every unit.

import { vi } from 'vitest';
import type { Check } from '../../src/core/counting/check.ts';
import type { RuleCheck } from '../../src/core/matching/plan.ts';
import type { Probe } from '../../src/core/ports/snapshot-source.ts';
import type { MakePlan } from '../../src/limiter/limiter.ts';
import type { RunAny } from '../shared/any-call.ts';
import { hangs, START_MS } from './fake-regions.ts';
import { createSource, openIsolate, type TestRequest } from './limiter-harness.ts';
import { createModelRegion, type ModelRegion, seenFrom } from './model-regions.ts';
import { checkOf } from './regional-isolate.ts';

export const overdue: Probe = { expected: 'this', isOverdue: true, isLapsed: false, askedAtMs: START_MS };

interface World {
  readonly before: readonly RuleCheck[];
  readonly after: readonly RuleCheck[];
  readonly regions?: readonly string[];
}

/** An idle isolate with the rules `before`, while its regions already announce the rules `after`. */
export function open({ before, after, regions: names = ['us'] }: World) {
  const regions = names.map((name) => createModelRegion(name));
  for (const region of regions) region.does.announces = 'that';
  const source = createSource();
  source.asks = overdue;
  const isolate = openIsolate(seenFrom(regions, 0), { source });
  let seats = 0;
  const plan: MakePlan = async ({ snapshot: { version } }) => ({
    kind: 'checks',
    // Each round has its own seats.
    checks: (version === 'old' ? before : after).map((check) =>
      check.algorithm === 'concurrency'
        ? { ...check, seatId: `seat-${String(++seats).padStart(11, '0')}` }
        : check,
    ),
  });
  const decide = async (request: TestRequest = {}) => {
    const { decision, tookMs } = await isolate.decide({ plan, ...request });
    return { ...decision, tookMs };
  };
  const settle = async () => {
    const settled = isolate.settle();
    await vi.advanceTimersByTimeAsync(20_000);
    await settled;
  };
  const [us, eu] = regions as [ModelRegion, ModelRegion];
  const operations = () => us.calls.map(({ operation }) => operation);
  return { us, eu, regions, source, errors: isolate.errors, decide, settle, operations };
}

/** Units charged to a check, in all of these regions. */
export const used = (check: Check, ...regions: ModelRegion[]) =>
  regions.reduce((sum, region) => sum + ROOMY - (region.peek({ ...check, limit: ROOMY })?.remaining ?? 0), 0);
const ROOMY = 1_000;

/** From now on the region treats refunds in this way. */
export const refundsWith = (region: ModelRegion, how: (run: RunAny) => RunAny) => {
  const { run } = region.does;
  const refund = how(run);
  region.does.run = (call, signal) => (call.operation === 'refund' ? refund : run)(call, signal);
};
const wait = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
/** The call arrives after this time, although its caller may have given up. */
export const arrivesAfter =
  (ms: number) =>
  (run: RunAny): RunAny =>
  (call, signal) =>
    Promise.race([wait(ms).then(() => run(call, new AbortController().signal)), hangs(signal)]);

export const kept = checkOf('kept', { limit: 10 });
export const wider = { ...kept, limit: 20, full: { limit: 20, extra: undefined } };
export const removed = checkOf('removed');
export const added = checkOf('added');
