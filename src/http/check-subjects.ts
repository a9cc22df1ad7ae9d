// Whose usage the charges of a call are. One call can have checks of several subjects, and several checks of one.
import type { Caller } from '../core/matching/caller.ts';
import { ownIdOf, type RuleCheck } from '../core/matching/plan.ts';
import type { RegionCharge } from './charge-id.ts';
import type { PlannedCheck } from './check-plan.ts';

/** A subject that a call names, in one or several of its checks. */
export interface Subject {
  readonly caller: Caller;
  has(check: RuleCheck): boolean;
}

export function subjectsOf(planned: readonly PlannedCheck[]): Subject[] {
  const groups = Map.groupBy(planned, ({ caller: { ip, tenantId, userId, apiKeyId } }) =>
    JSON.stringify([ip, tenantId, userId, apiKeyId]),
  );
  return [...groups.values()].flatMap((ofSubject) => {
    const names = new Set(ofSubject.map(({ check }) => counterOf(check)));
    return ofSubject
      .slice(0, 1)
      .map(({ caller }) => ({ caller, has: (check) => names.has(counterOf(check)) }));
  });
}

/** Regions count copies of a check, some as stand-ins, so a check is found by the rule's own counter. */
export const counterOf = (check: RuleCheck) => `${check.key} ${ownIdOf(check)}`;

/** Shadow rules leave no usage. */
export function usageOf(check: RuleCheck, subjects: readonly Subject[]): RegionCharge['usage'] {
  const subject = subjects.findIndex(({ has }) => has(check));
  const caller = subjects[subject]?.caller;
  if (!caller || check.isShadow) return undefined;
  const { tenantId = '', userId = '', apiKeyId = '' } = caller;
  return { ruleId: check.rule.id, tenantId, userId, apiKeyId, subject };
}
