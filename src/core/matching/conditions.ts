// What a rule asks of a request beyond its method and tier: that it is in force at this moment, and that the caller is
// among the percent of subjects that it applies to.
import { hash } from '../regions/shares.ts';
import { type Caller, subjectOf } from './caller.ts';
import type { Rule } from './rule.ts';

export interface Asker {
  readonly caller: Caller;
  readonly nowMs: number;
}

export type Condition = (asker: Asker) => boolean;

/** Undefined: it applies to everybody, at any time. */
export function conditionOf(rule: Rule): Condition | undefined {
  if (rule.validFromMs === null && rule.validUntilMs === null && rule.percent === 100) return undefined;
  return ({ caller, nowMs }) => isValidAt(rule, nowMs) && isAmong(rule, caller);
}

/** Whether the rule is in force at that moment. */
export const isValidAt = ({ validFromMs, validUntilMs }: Rule, nowMs: number): boolean =>
  (validFromMs === null || validFromMs <= nowMs) && (validUntilMs === null || nowMs < validUntilMs);

/** By who is counted. A higher percent adds subjects and takes none away; each rule draws its own. */
export function isAmong({ id, scope, percent }: Rule, caller: Caller): boolean {
  if (percent >= 100) return true;
  const subject = subjectOf(scope, caller);
  return hash(`${id} ${subject.scope}:${subject.id}`) * 100 < percent * 2 ** 32;
}
