// Regions on counters in memory, in fake time. Each call takes a while to get there and to come back. Tests can read
// every charge.
import type { Check, Outcome } from '../../src/core/counting/check.ts';
import { createMemoryCounters, runChecks } from '../../src/core/counting/counters.ts';
import type { RuleCheck } from '../../src/core/matching/plan.ts';
import type { Regions } from '../../src/limiter/region.ts';
import { type AnyCall, runAny } from '../shared/any-call.ts';
import { createRegion, type FakeRegion, hangs } from './fake-regions.ts';
import { createRuleCheck, type RuleCheckShape } from './rule-checks.ts';

export interface ModelRegion extends FakeRegion {
  readonly calls: AnyCall[];
  /** The outcome of a check, by the counters as they are. */
  peek(check: Check): Outcome | undefined;
}

/** The time of the next one-way trip. */
export type DelayMs = () => number;

const passes = (ms: number) =>
  ms === 0 ? Promise.resolve() : new Promise<void>((resolve) => setTimeout(resolve, ms));

export function createModelRegion(
  name: string,
  delayMs: DelayMs = () => 0,
  tell?: (line: string) => void,
): ModelRegion {
  const counters = createMemoryCounters();
  const calls: AnyCall[] = [];
  const region = createRegion(name, {
    ...(tell && { tell }),
    async run(call, signal) {
      calls.push(call);
      // A call in flight arrives even if its caller has given up.
      const answered = passes(delayMs()).then(async () => {
        const answer = runAny(call, Date.now(), counters);
        await passes(delayMs());
        return answer;
      });
      return Promise.race([answered, hangs(signal)]);
    },
  });
  const peek = (check: Check) => runChecks('peek', [check], Date.now(), counters).outcomes[0];
  return { ...region, calls, peek };
}

/** The regions as seen from one: it is the nearest, and the others follow in their order. */
export const seenFrom = (regions: readonly ModelRegion[], nearest: number): Regions => {
  const place = nearest % regions.length;
  return [...regions.slice(place), ...regions.slice(0, place)] as unknown as Regions;
};

/** A minute aligned to the clock. The shape gives the whole limit. */
export const createMinute = ({ rule, ...shape }: RuleCheckShape = {}): RuleCheck =>
  createRuleCheck({ windowMs: 60_000, ...shape, rule: { windowSeconds: 60, ...rule } });
