// A check of one unit under a fixed window, as a rule with only a limit makes it. For benches and models.
import type { RuleCheck } from '../src/core/matching/plan.ts';
import { createCounter } from './rules.ts';

export function fixedWindowCheck(limit: number, windowSeconds: number): RuleCheck {
  const whole = { limit, extra: undefined };
  return {
    ...whole,
    key: 'subject',
    id: 'rule',
    algorithm: 'fixed-window',
    windowMs: windowSeconds * 1_000,
    cost: 1,
    full: whole,
    rule: createCounter({ ordinal: 0, limit, windowSeconds }),
  };
}
