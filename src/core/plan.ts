// What a request is up against under one snapshot: the lists, or the checks of the rules that apply.
import { type Caller, subjectOf } from './caller.ts';
import type { Check } from './check.ts';
import { groupOf, subjectKey } from './keys.ts';
import type { ListEntry } from './rule.ts';
import type { CompiledRule, Match, Snapshot } from './snapshot.ts';

/** A check that knows the rule it comes from. */
export interface RuleCheck extends Check {
  readonly rule: CompiledRule;
}

export type Plan =
  | { readonly kind: 'listed'; readonly list: ListEntry['list'] }
  | { readonly kind: 'checks'; readonly checks: readonly RuleCheck[] };

export interface PlannedRequest {
  readonly matchPath: string;
  readonly method: string;
  readonly caller: Caller;
  readonly nowMs: number;
}

export async function planRequest(snapshot: Snapshot, request: PlannedRequest): Promise<Plan> {
  const list = snapshot.listed(request.caller, request.nowMs);
  if (list) return { kind: 'listed', list };
  const matches = snapshot.match(request);
  return {
    kind: 'checks',
    checks: await Promise.all(matches.map((match) => toCheck(match, request.caller))),
  };
}

async function toCheck({ rule, limit }: Match, caller: Caller): Promise<RuleCheck> {
  const { scope, id } = subjectOf(rule.scope, caller);
  return {
    rule,
    key: await subjectKey(scope, id, groupOf(rule.algorithm, rule.counterId, rule.ordinal)),
    id: rule.counterId,
    algorithm: rule.algorithm,
    limit,
    windowMs: rule.windowSeconds * 1000,
    cost: rule.cost,
    extra: rule.burst ?? rule.buckets ?? undefined,
    countDenied: rule.countDenied,
    blockMs: rule.blockSeconds === null ? undefined : rule.blockSeconds * 1000,
    log: rule.action === 'log',
  };
}
