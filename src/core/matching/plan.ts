// Plans a request under one snapshot: a list entry that decides, or the checks of the rules that apply.

import { traitsOf } from '../counting/algorithms/registry.ts';
import type { Borders, Calendars } from '../counting/calendar.ts';
import type { Check } from '../counting/check.ts';
import { groupOf, subjectKey } from '../counting/keys.ts';
import { mapStable } from '../map-stable.ts';
import { type Caller, subjectOf } from './caller.ts';
import type { CompiledRule } from './compiled-rule.ts';
import { type RequestFacts, subjectBy } from './counted-by.ts';
import type { ListEntry } from './rule.ts';
import { multiplied } from './slots.ts';
import type { Match, Snapshot } from './snapshot.ts';

/** The longest wait for a turn, unless a rule says otherwise. */
const DEFAULT_MAX_DELAY_MS = 5_000;

/** No scope has this name, so subjects of several parts share no key with others. */
export const BY = 'by';

/** A check that knows the rule it comes from. */
export interface RuleCheck extends Check {
  readonly rule: CompiledRule;
  /** The whole limit, which clients read; `limit` and `extra` may be only a part of it. */
  readonly full: { readonly limit: number; readonly extra: number | undefined };
  /** The region that counts it, if there is more than one. */
  readonly region?: string | undefined;
}

/** What a caller can identify itself with. */
export type Credential = 'api-key' | 'token';

/** A credential that decides: it is invalid, in a deployment that rejects those, or may not be looked up now. */
export type RefusedCredential =
  | { readonly kind: 'unverified'; readonly credential: Credential | 'several-keys' }
  | { readonly kind: 'over-allowance'; readonly credential: Credential; readonly retryAfterMs: number };

export type Plan =
  | { readonly kind: 'listed'; readonly list: ListEntry['list'] }
  | { readonly kind: 'checks'; readonly checks: readonly RuleCheck[] };

export interface PlannedRequest {
  readonly matchPath: string;
  readonly method: string;
  readonly caller: Caller;
  readonly nowMs: number;
  /** For rules that look at more than path, method and caller. */
  readonly facts?: RequestFacts | undefined;
  /** Rules only record what they would have done, whatever they and the settings say. */
  readonly isLogOnly?: boolean | undefined;
  /** Undefined: no rule has a calendar. */
  readonly calendars?: Calendars | undefined;
  /** Makes a random id of 16 characters for a seat. */
  readonly seatId: () => string;
}

/** Returns a promise only if the key of a subject needs a digest. */
export function planRequest(snapshot: Snapshot, request: PlannedRequest): Plan | Promise<Plan> {
  const list = snapshot.listed(request.caller, request.nowMs);
  if (list) return { kind: 'listed', list };
  const checks = toChecks(snapshot.match(request), withSettings(snapshot, request));
  return checks instanceof Promise
    ? checks.then((all): Plan => ({ kind: 'checks', checks: all }))
    : { kind: 'checks', checks };
}

/** The checks of rules that apply to every request from this address. */
export const planByIpOnly = (
  snapshot: Snapshot,
  request: PlannedRequest,
): readonly RuleCheck[] | Promise<readonly RuleCheck[]> =>
  toChecks(snapshot.matchByIpOnly(request), withSettings(snapshot, request));

/** Adds the settings of the snapshot. */
const withSettings = ({ isLogOnly, calendars }: Snapshot, request: PlannedRequest): PlannedRequest =>
  isLogOnly || calendars
    ? { ...request, isLogOnly: isLogOnly || request.isLogOnly === true, calendars }
    : request;

/** For plans that only look: nobody holds a seat with this id, because no random id looks like it. */
export const noSeat = () => '-'.repeat(16);

/** The checks of a request to which all limits of the caller apply, to look at them. */
export const planLimitsOf = (snapshot: Snapshot, caller: Caller, nowMs: number) =>
  planMatches(snapshot, snapshot.limitsOf(caller, nowMs), {
    matchPath: '/',
    method: 'GET',
    caller,
    nowMs,
    seatId: noSeat,
  });

/** The checks of limits that were not found by a path. */
export const planMatches = (
  snapshot: Snapshot,
  matches: readonly Match[],
  request: PlannedRequest,
): readonly RuleCheck[] | Promise<readonly RuleCheck[]> => toChecks(matches, withSettings(snapshot, request));

function toChecks(
  matches: readonly Match[],
  request: PlannedRequest,
): readonly RuleCheck[] | Promise<readonly RuleCheck[]> {
  const checks = mapStable(matches, (match) => {
    const key = keyOf(match, request);
    return typeof key === 'string'
      ? toCheck(match, key, request)
      : key.then((made) => toCheck(match, made, request));
  });
  return isReady(checks) ? checks : Promise.all(checks);
}

const isReady = (checks: readonly (RuleCheck | Promise<RuleCheck>)[]): checks is readonly RuleCheck[] =>
  checks.every((check) => !(check instanceof Promise));

function keyOf({ rule, parameters }: Match, request: PlannedRequest) {
  const { scope, by } = rule;
  const group = groupOf(rule);
  if (by.length > 0) return subjectKey(BY, subjectBy(by, request, parameters), group);
  const subject = subjectOf(scope, request.caller);
  return subjectKey(subject.scope, subject.id, group);
}

function toCheck(
  { rule, limit, cost, times }: Match,
  key: string,
  request: PlannedRequest,
): Required<RuleCheck> {
  const { seatId, isLogOnly = false } = request;
  const borders = bordersOf(rule, request);
  const holdsSeats = traitsOf(rule.algorithm).holdsSeats === true;
  const extra = holdsSeats ? undefined : extraOf(rule, limit, times);
  return {
    rule,
    key,
    id: rule.counterId,
    algorithm: rule.algorithm,
    limit,
    extra,
    region: undefined,
    full: { limit, extra },
    windowMs: borders ? borders[2] - borders[1] : rule.windowSeconds * 1000,
    borders,
    cost,
    seatId: holdsSeats ? seatId() : undefined,
    countDenied: rule.countDenied,
    blockMs: rule.blockSeconds === null ? undefined : rule.blockSeconds * 1000,
    isShadow: isLogOnly || rule.action === 'log',
  };
}

/** The check as a region counts it. Each field is written out: `outcomeWith` explains why. */
export const checkAt = (
  region: string,
  check: RuleCheck,
  { limit, extra }: RuleCheck['full'],
): Required<RuleCheck> => ({
  rule: check.rule,
  key: check.key,
  id: check.id,
  algorithm: check.algorithm,
  limit,
  extra,
  region,
  full: check.full,
  windowMs: check.windowMs,
  borders: check.borders,
  cost: check.cost,
  seatId: check.seatId,
  countDenied: check.countDenied,
  blockMs: check.blockMs,
  isShadow: check.isShadow,
});

/** A suffix that no rule's own counter has: those ids have a fixed length. */
const STAND_IN = '-stand-in';

/** The check as another region counts it in place of the owner: in a counter of its own, with the whole limit. */
export const standInAt = (region: string, check: RuleCheck): RuleCheck => ({
  ...checkAt(region, check, check.full),
  id: check.id + STAND_IN,
});

/** The id of the rule's own counter. */
export const ownIdOf = ({ id }: Pick<RuleCheck, 'id'>): string =>
  id.endsWith(STAND_IN) ? id.slice(0, -STAND_IN.length) : id;

export const isStandIn = ({ id }: Pick<RuleCheck, 'id'>): boolean => id.endsWith(STAND_IN);

function bordersOf(rule: CompiledRule, { calendars, caller, nowMs }: PlannedRequest): Borders | undefined {
  const { window, timeZone, anchorDay } = rule;
  if (window === null) return undefined;
  const counted = { rule, tenantId: caller.tenantId };
  return calendars?.bordersFor({ window, timeZone, anchorDay }, counted, nowMs);
}

export function extraOf(rule: CompiledRule, limit: number, times?: number): number | undefined {
  const burst = rule.burst !== null && times ? multiplied(rule.burst, times, rule) : rule.burst;
  return rule.action === 'throttle' ? queueOf(rule, burst, limit) : (burst ?? rule.buckets ?? undefined);
}

/** The longest queue whose wait stays within `maxDelayMs`. */
function queueOf(
  { cost, maxDelayMs, windowSeconds }: CompiledRule,
  burst: number | null,
  limit: number,
): number {
  const mostAhead = Math.floor(((maxDelayMs ?? DEFAULT_MAX_DELAY_MS) * limit) / (windowSeconds * 1000));
  return Math.min(burst ?? limit, mostAhead + cost);
}
