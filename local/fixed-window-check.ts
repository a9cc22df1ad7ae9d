// A check of one unit under a fixed window, as a rule with only a limit makes it. For benches and models.
import type { RuleCheck } from '../src/core/matching/plan.ts';
import { RULE_DEFAULTS } from '../src/core/matching/rule.ts';

export function fixedWindowCheck(limit: number, windowSeconds: number): RuleCheck {
  const whole = { limit, extra: undefined };
  const names = {
    id: 'rule',
    name: 'rule',
    resource: '/*',
    scope: 'ip',
    ordinal: 0,
    counterId: 'rule',
  } as const;
  return {
    ...whole,
    key: 'subject',
    id: 'rule',
    algorithm: 'fixed-window',
    windowMs: windowSeconds * 1_000,
    cost: 1,
    full: whole,
    rule: { ...RULE_DEFAULTS, ...names, algorithm: 'fixed-window', limit, windowSeconds },
  };
}
