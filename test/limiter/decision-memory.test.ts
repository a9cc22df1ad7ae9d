// What memory knows about a request before any call: its leases come first, and then denials.
import { expect, it } from 'vitest';
import type { CheckResult } from '../../src/core/decision.ts';
import type { RuleCheck } from '../../src/core/matching/plan.ts';
import type { PlacedCheck } from '../../src/core/regions/placement.ts';
import type { DecisionRequest } from '../../src/limiter/limiter.ts';
import { createDecisionMemory } from '../../src/limiter/memory.ts';
import { snapshotOf } from './limiter-harness.ts';
import { createRuleCheck, deniedFor } from './rule-checks.ts';

const REQUEST = { operation: 'take', regions: [] } as unknown as DecisionRequest;
const check = createRuleCheck();
const placed = [{ check }] as unknown as readonly PlacedCheck[];
const denial: CheckResult<RuleCheck>[] = [{ check, outcome: deniedFor(500) }];

/** Memory knows a denial of every check, and perhaps units that were leased before it. */
const memoryWith = (leased: readonly PlacedCheck[]) =>
  createDecisionMemory({
    place: () => placed,
    leasing: { find: () => leased, use: () => undefined },
    knownDenial: (asked) => (asked.placed.length > 0 ? denial : undefined),
    announcement: () => 'announcement',
  });

it.each([
  ['denied, if nothing is leased', [], true],
  ['not denied, if leased units pay for it', placed, false],
] as const)('a check with a known denial is %s', (_, leased, isDenied) => {
  const memory = memoryWith(leased);
  const snapshot = snapshotOf('v1');
  expect(memory.sort(REQUEST, snapshot, [check]).denial !== undefined).toBe(isDenied);
});
