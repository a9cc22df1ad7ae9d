// Which of two rules of a slot comes first.
import type { Rule } from './rule.ts';
import { isPattern } from './subjects.ts';

/** Which of two rules of a slot wins: the lower priority number, then the more specific rule, then the lower id. */
export function byRank(a: Rule, b: Rule): number {
  return a.priority - b.priority || specificity(b) - specificity(a) || (a.id < b.id ? -1 : 1);
}

/**
 * From most to least specific: subjects by name, subjects by pattern, tiers, methods, hosts or routes.
 */
export const specificity = ({ subjects, tiers, methods, hosts, routes }: Rule): number =>
  bySubjects(subjects) +
  (tiers.length > 0 ? 4 : 0) +
  (methods.length > 0 ? 2 : 0) +
  (hosts.length > 0 || routes.length > 0 ? 1 : 0);

const bySubjects = (subjects: readonly string[]): number =>
  subjects.length === 0 ? 0 : subjects.some(isPattern) ? 8 : 16;

/** The methods of the rule, with `HEAD` spelled out; empty means all. */
export const methodsOf = ({
  methods = [],
}: {
  readonly methods?: readonly string[] | undefined;
}): readonly string[] =>
  methods.includes('GET') && !methods.includes('HEAD') ? [...methods, 'HEAD'] : methods;

export const isShadowRule = ({ action }: Rule) => action === 'log';

/** An empty list names everything. */
export const names = (list: readonly string[], name: string | undefined): boolean =>
  list.length === 0 || (name !== undefined && list.includes(name));
