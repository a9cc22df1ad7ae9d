// Checks that know their rule, and answers to them. A test names only the fields that matter.
import { createCounter, type RuleFields } from '../../local/rules.ts';
import type { Check, Outcome } from '../../src/core/counting/check.ts';
import type { RuleCheck } from '../../src/core/matching/plan.ts';

export const START_MS = 1_800_000_000_000;

export type RuleCheckShape = Partial<Check> & {
  readonly rule?: RuleFields;
  readonly full?: RuleCheck['full'];
};

/** One unit of 10 in a fixed second, by default. */
export function createRuleCheck({ rule, ...shape }: RuleCheckShape = {}): RuleCheck {
  const algorithm = shape.algorithm ?? 'fixed-window';
  const check = { key: '{test}:subject', id: 'rule', algorithm, limit: 10, windowMs: 1_000, cost: 1 };
  const seat = algorithm === 'concurrency' ? { seatId: 'seat-00000000000' } : {};
  return {
    ...check,
    ...seat,
    full: { limit: shape.limit ?? check.limit, extra: shape.extra },
    ...shape,
    rule: createCounter({
      algorithm,
      windowSeconds: 1,
      cost: shape.cost ?? check.cost,
      action: shape.isShadow ? 'log' : 'reject',
      ...rule,
    }),
  };
}

export const admitted: Outcome = {
  allowed: true,
  remaining: 5,
  resetAtMs: START_MS + 1_000,
  retryAfterMs: 0,
  granted: 0,
  delayMs: 0,
};

/** Undefined means that no wait will ever help. */
export const deniedFor = (retryAfterMs: number | undefined): Outcome => ({
  ...admitted,
  allowed: false,
  remaining: 0,
  retryAfterMs,
});
