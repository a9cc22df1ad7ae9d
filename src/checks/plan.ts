// Turns the rules and subjects that a call names into checks for the limiter.
import type { Caller } from '../core/matching/caller.ts';
import { countedIp } from '../core/matching/ip.ts';
import { planMatches, type RuleCheck } from '../core/matching/plan.ts';
import type { Scope } from '../core/matching/rule.ts';
import type { CompiledRule, Match, NamedRule, Snapshot } from '../core/matching/snapshot.ts';
import { type FieldError, refuse } from '../core/shape.ts';
import type { ReadCall } from './messages.ts';

export interface CheckPlanOptions {
  readonly ipv6Prefix: number;
  readonly nowMs: number;
  readonly seatId: () => string;
}

/** A check, and the subject as the service wrote it and as rules count it. */
export interface PlannedCheck {
  readonly check: RuleCheck;
  readonly subject: string | undefined;
  readonly caller: Caller;
}

type One = ReadCall['checks'][number];

export interface CheckPlan {
  readonly checks: readonly PlannedCheck[];
  /** Why the call does not fit these rules: a rule is unknown, or a subject does not fit the scope of its rule. */
  readonly errors: readonly FieldError[];
}

export async function planChecks(
  snapshot: Snapshot,
  { checks, pointerTo }: Pick<ReadCall, 'checks' | 'pointerTo'>,
  options: CheckPlanOptions,
): Promise<CheckPlan> {
  const errors: FieldError[] = [];
  const planned = await Promise.all(
    checks.map((one, i) => planOne(snapshot, { one, at: pointerTo(i), errors }, options)),
  );
  const all = planned.flat();
  const names = all.map(({ check }) => `${check.key} ${check.id}`);
  if (errors.length === 0 && new Set(names).size < names.length) refuse('#/checks', SAME_COUNTER, errors);
  return { checks: all, errors };
}

const SAME_COUNTER =
  'has two entries that name the same rule and subject; send one entry with the sum of their costs';

interface Place {
  readonly one: One;
  readonly at: string;
  readonly errors: FieldError[];
}

async function planOne(snapshot: Snapshot, { one, at, errors }: Place, options: CheckPlanOptions) {
  const [named, ...others] = snapshot.rulesNamed(one);
  const field = one.rule === undefined ? 'policy' : 'rule';
  if (!named) refuse(`${at}/${field}`, `there is no such ${field} in force`, errors);
  else if (others.length > 0)
    refuse(`${at}/${field}`, 'names several rules; use the id of one of them', errors);
  if (!named || others.length > 0) return [];
  if (named.rule.by.length > 0 || named.rule.per.length > 0) {
    refuse(
      `${at}/${field}`,
      'counts by parts of a request (`by`, `per`), which a check does not have',
      errors,
    );
    return [];
  }
  const caller = callerOf(named.rule.scope, one, options.ipv6Prefix);
  if (typeof caller === 'string') refuse(`${at}/subject`, caller, errors);
  if (typeof caller === 'string' || !isInForce(named, options.nowMs)) return [];
  const matches = limitsFor(snapshot, named, caller, { cost: one.cost, nowMs: options.nowMs });
  const request = { caller, matchPath: '/', method: 'GET', ...options };
  return (await planMatches(snapshot, matches, request)).map((check) => ({
    check,
    subject: one.subject,
    caller,
  }));
}

const isInForce = ({ rule: { validFromMs, validUntilMs } }: NamedRule, nowMs: number) =>
  (validFromMs === null || validFromMs <= nowMs) && (validUntilMs === null || nowMs < validUntilMs);

const limitsFor = (
  snapshot: Snapshot,
  { counters }: NamedRule,
  caller: Caller,
  { cost, nowMs }: { readonly cost: number | undefined; readonly nowMs: number },
) =>
  counters.flatMap((counter): Match[] => {
    const said = snapshot.limitOf(counter, caller, nowMs);
    return said === null ? [] : [{ rule: checkedRule(counter), ...said, cost: cost ?? counter.cost }];
  });

const checkedRules = new WeakMap<CompiledRule, CompiledRule>();

/**
 * The rule without leases, because another isolate could not give leased units back, and without remembered denials,
 * because a refund ends them early. Each rule has one copy, because the limiter caches placements by rule object.
 */
function checkedRule(counter: CompiledRule): CompiledRule {
  const made = checkedRules.get(counter) ?? { ...counter, lease: false, isReturnable: true };
  checkedRules.set(counter, made);
  return made;
}

/** A caller with only the subject's identity; or a message that says what is wrong with the subject. */
function callerOf(scope: Scope, { subject, tier }: One, ipv6Prefix: number): Caller | string {
  const nobody = { ip: 'unknown', address: 'unknown', tier };
  if (scope === 'global')
    return subject === undefined
      ? nobody
      : 'must be left out: a rule of scope global counts everybody together';
  if (subject === undefined) return `is missing: the rule counts by ${scope}`;
  if (scope === 'user') return { ...nobody, userId: subject };
  if (scope === 'tenant') return { ...nobody, tenantId: subject };
  if (scope === 'apiKey') return { ...nobody, apiKeyId: subject.toLowerCase() };
  const counted = countedIp(subject, ipv6Prefix);
  return counted ? { ...counted, tier } : 'is not an IP address';
}
