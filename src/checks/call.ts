// A call of checks: its input and its answer, how the input is read, and how the rules and subjects that it names become
// checks for the limiter.
import { type Caller, subjectOf, UNKNOWN_CALLER } from '../core/matching/caller.ts';
import { countedIp } from '../core/matching/ip.ts';
import { planMatches, type RuleCheck } from '../core/matching/plan.ts';
import { EVERY_SCOPE, LARGEST_COST, type RuleScope } from '../core/matching/rule.ts';
import type { CompiledRule, Match, Snapshot } from '../core/matching/snapshot.ts';
import {
  type FieldError,
  flag,
  listOf,
  optional,
  refine,
  refuse,
  type Shape,
  type Shaped,
  strictObject,
  text,
  transform,
  wholeNumber,
} from '../core/shape.ts';
import { invalidBody } from '../http/internal-requests.ts';

/** Each check needs at least one counter, and one call to Redis covers all of them. */
const MAX_CHECKS = 20;
const MAX_CHARACTERS = 256;

/** One rule for one subject. */
export interface CheckInput {
  /** The id or the name of a rule. */
  readonly rule?: string | undefined;
  /** Instead of `rule`: the name that clients read. */
  readonly policy?: string | undefined;
  /**
   * Who is counted: an IP, or the id of a user, tenant or API key, by the scope of the rule. Leave the subject out if
   * the scope is global, or in a handler, to count the caller of the request as the rule counts it.
   */
  readonly subject?: string | undefined;
  /** If left out, the rule's own cost. */
  readonly cost?: number | undefined;
  /** Only looks and charges nothing. All checks of a call must have the same value. */
  readonly peek?: boolean | undefined;
  /** The tier of the subject. If left out, the default tier. */
  readonly tier?: string | undefined;
}

/** Weir charges all checks of a call, or none of them. */
export type CheckCall = (
  | CheckInput
  | { readonly checks: readonly CheckInput[]; readonly peek?: boolean | undefined }
) & {
  /** For a day, Weir charges calls with the same key once and gives all of them the same answer. */
  readonly idempotencyKey?: string | undefined;
};

export interface CheckOutcome {
  /** The name that clients read. */
  readonly policy: string;
  readonly subject: string | null;
  readonly allowed: boolean;
  readonly limit: number;
  readonly remaining: number;
  readonly cost: number;
  /** When the whole limit is free again. */
  readonly resetAt: string;
  /** Null if the check is allowed, or if no wait helps. */
  readonly retryAfterMs: number | null;
}

export interface CheckAnswer {
  readonly allowed: boolean;
  /** The id to give back or settle the charges with; null if nothing was charged. */
  readonly id: string | null;
  /** The longest of all waits; null if the call is allowed, or if no wait helps. */
  readonly retryAfterMs: number | null;
  /** Wait this long before you go on: a rule throttles. */
  readonly delayMs: number;
  /** Why nothing was counted; each rule's `onUnavailable` has decided. Null if the call was counted. */
  readonly degraded: string | null;
  readonly results: readonly CheckOutcome[];
}

export interface SettleAnswer {
  /** Units of the real cost that a limit could not take: a debt can be as large as the limit, and no larger. */
  readonly uncharged: number;
}

const NAME_CONDITIONS: readonly (readonly [isMet: (name: string) => boolean, problem: string])[] = [
  [({ length }) => length > 0, 'must not be empty'],
  [({ length }) => length <= MAX_CHARACTERS, `must have at most ${MAX_CHARACTERS} characters`],
  // No store could tell such a text from others.
  [(name) => name.isWellFormed(), 'has half of a surrogate pair, which is not a character'],
  // Postgres would refuse the whole batch of records, and with it the records of others.
  [(name) => !name.includes('\0'), 'has a NUL character, which Postgres cannot store'],
];
const name = NAME_CONDITIONS.reduce((shape, [isMet, problem]) => refine(shape, isMet, problem), text);
const unitsFrom = (least: number) =>
  refine(
    wholeNumber,
    (units) => units >= least && units <= LARGEST_COST,
    `must be from ${least} to ${LARGEST_COST}`,
  );

const fields = {
  rule: optional(name),
  policy: optional(name),
  subject: optional(name),
  cost: optional(unitsFrom(1)),
  peek: optional(flag),
  tier: optional(name),
};
const idempotencyKey = optional(name);
const one = strictObject(fields);
const several = strictObject({
  checks: refine(listOf(one, 1), ({ length }) => length <= MAX_CHECKS, `can be ${MAX_CHECKS} at most`),
  peek: optional(flag),
  idempotencyKey,
});
const single: typeof several = transform(
  strictObject({ ...fields, idempotencyKey }),
  ({ idempotencyKey, ...check }) => ({ checks: [check], peek: check.peek, idempotencyKey }),
);

export interface ReadCall {
  /** Where the body has this check. A body with a single check has no list. */
  readonly pointerTo: (place: number) => string;
  readonly checks: readonly Omit<Shaped<typeof one>, 'peek'>[];
  readonly isPeek: boolean;
  readonly idempotencyKey: string | undefined;
}

/** Throws a ProblemError that names each field that is wrong. */
export function readCall(body: unknown): ReadCall {
  const isSeveral = typeof body === 'object' && body !== null && 'checks' in body;
  const pointerTo = (place: number) => (isSeveral ? `#/checks/${place}` : '#');
  const errors: FieldError[] = [];
  const call = (isSeveral ? several : single)(body, '#', errors);
  const checks = call?.checks ?? [];
  const peeks = checks.map(({ peek }) => peek ?? call?.peek ?? false);
  checks.forEach(({ rule, policy }, i) => {
    if ((rule === undefined) === (policy === undefined))
      refuse(pointerTo(i), 'must have either rule or policy', errors);
  });
  if (new Set(peeks).size > 1) refuse('#/checks', 'must all peek, or none of them', errors);
  if (errors.length > 0) throw invalidBody(errors);
  return {
    pointerTo,
    checks: checks.map(({ peek: _, ...check }) => check),
    isPeek: peeks[0] === true,
    idempotencyKey: call?.idempotencyKey,
  };
}

/** What the runtime puts in place of bytes that are not UTF-8, such as those of an `ü` in Latin-1. */
const REPLACED = '\ufffd';
const keyHeader = refine(
  name,
  (given) => !given.includes(REPLACED),
  'must be UTF-8; fetch() sends it as Latin-1, so a key with other characters than those of ASCII belongs into the body',
);

/**
 * The key in a header. It must be like one in the body: an empty key would be the same for all calls without one, and
 * keys that differ only in replaced characters would be the same.
 */
export const readKeyHeader = (value: string | null): string | undefined =>
  value === null ? undefined : readOrThrow(keyHeader, value, 'Idempotency-Key');

const settlement = strictObject({ id: text, cost: unitsFrom(0) });
const refund = strictObject({ id: text });

export const readSettlement = (body: unknown) => readOrThrow(settlement, body);
export const readRefund = (body: unknown) => readOrThrow(refund, body);

function readOrThrow<T>(shape: Shape<T>, value: unknown, at = '#'): T {
  const errors: FieldError[] = [];
  const found = shape(value, at, errors);
  if (found === undefined || errors.length > 0) throw invalidBody(errors);
  return found;
}

/** Checks in code: the same calls and answers as by HTTP, without HTTP and without a token. */
export interface CodeChecks {
  /** Throws if the call is invalid; the message says why. A denial is an answer, not an error. */
  check(call: CheckCall): Promise<CheckAnswer>;
  /** Gives back all charges of a check, once. */
  refund(id: string): Promise<void>;
  /** Brings all charges of a check to the real cost, once. */
  settle(id: string, cost: number): Promise<SettleAnswer>;
}

/** What a handler gets. A check without a subject counts the caller of its request. */
export interface RequestWeir extends CodeChecks {
  /** The caller, as far as Weir could verify it, or as the app has named it. */
  readonly caller: Caller | undefined;
}

/** A check, and the subject as the service wrote it and as rules count it. */
export interface PlannedCheck {
  readonly check: RuleCheck;
  readonly subject: string | undefined;
  readonly caller: Caller;
}

export interface CheckPlanOptions {
  /** Whom a check without a subject counts. Undefined: such a check needs a rule of scope global. */
  readonly caller?: Caller | undefined;
  readonly ipv6Prefix: number;
  readonly nowMs: number;
  readonly seatId: () => string;
}

type CheckOfCall = ReadCall['checks'][number];

/** `errors`: why the call does not fit these rules. A rule is unknown, or a subject does not fit the scope of its rule. */
export async function planChecks(
  snapshot: Snapshot,
  { checks, pointerTo }: Pick<ReadCall, 'checks' | 'pointerTo'>,
  options: CheckPlanOptions,
): Promise<{ readonly checks: readonly PlannedCheck[]; readonly errors: readonly FieldError[] }> {
  const errors: FieldError[] = [];
  const plans = checks.map((one, i) =>
    planOne(snapshot, one, options, (field, detail) => void refuse(pointerTo(i) + field, detail, errors)),
  );
  const planned = (await Promise.all(plans)).flat();
  const names = new Set(planned.map(({ check }) => `${check.key} ${check.id}`));
  if (errors.length === 0 && names.size < planned.length) refuse('#/checks', SAME_COUNTER, errors);
  return { checks: planned, errors };
}

const SAME_COUNTER =
  'has two entries that name the same rule and subject; send one entry with the sum of their costs';

async function planOne(
  snapshot: Snapshot,
  { cost, subject, ...one }: CheckOfCall,
  options: CheckPlanOptions,
  refuseField: (field: string, detail: string) => void,
): Promise<readonly PlannedCheck[]> {
  const { ipv6Prefix, nowMs } = options;
  const field = one.rule === undefined ? 'policy' : 'rule';
  const [named, ...others] = snapshot.rulesNamed(one);
  if (!named && snapshot.isOff(one)) return [];
  const problem = !named
    ? `there is no such ${field} in force`
    : others.length > 0
      ? 'names several rules; use the id of one of them'
      : named.rule.by.length > 0 || named.rule.per.length > 0
        ? 'counts by parts of a request (`by`, `per`), which a check does not have'
        : undefined;
  if (problem !== undefined) refuseField(`/${field}`, problem);
  if (!named || problem !== undefined) return [];
  const { scope, validFromMs, validUntilMs } = named.rule;
  const ofRequest = subject === undefined ? options.caller : undefined;
  const caller = ofRequest
    ? { ...ofRequest, tier: one.tier ?? ofRequest.tier }
    : callerOf(scope, { subject, tier: one.tier }, ipv6Prefix);
  if (typeof caller === 'string') refuseField('/subject', caller);
  const isInForce = (validFromMs ?? nowMs) <= nowMs && (validUntilMs === null || nowMs < validUntilMs);
  if (typeof caller === 'string' || !isInForce) return [];
  const matches = named.counters.flatMap((counter): Match[] => {
    const limit = snapshot.limitOf(counter, caller, nowMs);
    return limit === null ? [] : [{ rule: checkedRule(counter), ...limit, cost: cost ?? counter.cost }];
  });
  const checks = await planMatches(snapshot, matches, { ...options, caller, matchPath: '/', method: 'GET' });
  const counted = ofRequest && scope !== 'global' ? subjectOf(scope, caller).id : subject;
  return checks.map((check) => ({ check, subject: counted, caller }));
}

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
function callerOf(
  scope: RuleScope,
  { subject, tier }: Pick<CheckOfCall, 'subject' | 'tier'>,
  ipv6Prefix: number,
): Caller | string {
  const nobody = { ...UNKNOWN_CALLER, tier };
  if (scope === EVERY_SCOPE) return nobody;
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
