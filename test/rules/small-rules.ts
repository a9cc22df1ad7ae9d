// The smallest possible rule.
import { RULE_DEFAULTS } from '../../src/core/matching/rule.ts';
import type { CompiledRule } from '../../src/core/matching/snapshot.ts';

export const createRule = (id: string): CompiledRule => ({
  ...RULE_DEFAULTS,
  id,
  name: id,
  resource: '/*',
  scope: 'ip',
  algorithm: 'fixed-window',
  limit: 5,
  windowSeconds: 60,
  ordinal: 1,
  counterId: `counter-${id}`,
});
