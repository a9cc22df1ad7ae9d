// Rules for tests, benches and models, from their fields as people write them.
import { type CompiledRule, countersOf, type PublishedRule } from '../src/core/matching/compiled-rule.ts';
import { type FlatRule, parseFlatRule } from '../src/core/matching/flat-rule.ts';
import type { RuleLimit } from '../src/core/matching/rule.ts';

export type RuleFields = Partial<FlatRule>;

/** A rule with one limit, in the fields of the rule. */
export type LimitedRule = FlatRule & RuleLimit;

/** Ten requests a minute for each address and all paths, unless the fields say otherwise. */
export const createRule = (fields: RuleFields = {}): PublishedRule =>
  parseFlatRule({
    id: 'rule',
    name: fields.id ?? 'rule',
    resource: '/*',
    scope: 'ip',
    algorithm: 'fixed-window',
    limit: 10,
    windowSeconds: 60,
    ordinal: 1,
    counterId: fields.id ?? 'rule',
    ...fields,
  });

/** The counter of its one limit. */
export function createCounter(fields: RuleFields = {}): CompiledRule {
  const [counter] = countersOf(createRule(fields));
  if (!counter) throw new Error('a rule that counts nothing has no counter');
  return counter;
}
