// Problems of a rule whose single fields are valid: fields that do not go together, and limits that cannot be counted.

import type * as z from 'zod';
import { type AlgorithmId, idsWith, traitsOf } from '../core/counting/algorithms/registry.ts';
import { CALENDAR_SECONDS } from '../core/counting/calendar.ts';
import { LONGEST_MS, problemOf } from '../core/counting/check.ts';
import { hasBound } from '../core/matching/compiled-rule.ts';
import { isPattern } from '../core/matching/conditions.ts';
import { isChosenByClient, parametersOf, parseSubjectField } from '../core/matching/counted-by.ts';
import { algorithmOf } from '../core/matching/flat-rule.ts';
import { slotOf } from '../core/matching/resource.ts';
import {
  EVERY_SCOPE,
  isUncounted,
  SHORTEST_SEAT_SECONDS,
  type SharesByRegion,
} from '../core/matching/rule.ts';
import type { RuleFields } from './rule-schema.ts';

// Problems of a rule's shares: fields that do not go together, and regions that do not exist.

export function* shareProblems(rule: RuleFields): Iterable<['shares', string]> {
  const { shares, central, spill } = rule;
  if (shares == null) return;
  if (central)
    yield [
      'shares',
      'cannot go with central: each subject is counted in one region, which has the whole limit',
    ];
  if (!Object.values(shares).some((share) => share > 0))
    yield ['shares', 'must name at least one region with a share above 0'];
  const reason = central || spill === false ? undefined : reasonNotToShare(rule);
  if (reason)
    yield [
      'shares',
      `cannot be split over regions that help each other out: ${reason}. Set spill to false, and each region keeps to its own share; ` +
        'or leave shares out, and each subject is counted in one region',
    ];
}

/** The same conditions as in `isCentral`. */
function reasonNotToShare(rule: RuleFields): string | undefined {
  const { algorithm, action, countDenied, blockSeconds, costFromOrigin } = rule;
  if (algorithm && traitsOf(algorithm).holdsSeats)
    return 'connections are held where they were opened (concurrency)';
  if (action === 'throttle') return 'a queue cannot be split (throttle)';
  if (costFromOrigin)
    return 'a cost that is known only afterwards may be more than a share can owe (costFromOrigin)';
  const field = countDenied ? 'countDenied' : blockSeconds == null ? undefined : 'blockSeconds';
  return field && `a denial is not one before all regions have said no (${field})`;
}

export interface UnknownRegion {
  /** Points into the rule: `shares/mars`. */
  readonly pointer: string;
  readonly detail: string;
}

/** Shares for regions that do not exist. Each problem names the regions that exist. */
export function unknownRegions(
  shares: SharesByRegion | null | undefined,
  regions: readonly string[],
): UnknownRegion[] {
  return Object.keys(shares ?? {})
    .filter((name) => !regions.includes(name))
    .map((name) => ({
      pointer: `shares/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`,
      detail: `is not a region; there are ${regions.join(', ')}`,
    }));
}

const SOME_ID = 'x';
const SOME_SEAT = SOME_ID.repeat(16);

/** Refuses rules that could never match or that the counters would refuse, long before a request comes. */
export function checkRule(rule: RuleFields, context: z.core.$RefinementCtx<unknown>): void {
  for (const [path, message] of problemsOf(rule))
    context.addIssue({ code: 'custom', path: [...path], message, input: rule });
}

type Problem = readonly [path: readonly (string | number)[], message: string];

function* problemsOf(rule: RuleFields): Iterable<Problem> {
  for (const [field, message] of shareProblems(rule)) yield [[field], message];
  yield* resourceProblems(rule);
  yield* partProblems(rule);
  yield* scopeProblems(rule);
  if (rule.scope === 'ip' && rule.subjects?.some(isPattern))
    yield [['subjects'], 'can be patterns of names only: IPs are single addresses, or IPv6 prefixes'];
  if (rule.validFrom && rule.validUntil && rule.validFrom >= rule.validUntil)
    yield [['validUntil'], 'must be after validFrom'];
  if (rule.maxDelayMs != null && rule.action !== 'throttle')
    yield [['maxDelayMs'], 'belongs to the action throttle'];
  if (rule.action === 'throttle') yield* throttleProblems(rule);
  yield* multiplyProblems(rule);
  if (rule.algorithm == null && !isUncounted(rule)) yield [['algorithm'], 'is needed'];
  if (rule.limits?.length) yield* severalProblems(rule, rule.limits);
  else yield* limitProblems(rule, rule, []);
}

/** Problems of `scope`, `subjects` and `tenants` together. */
function* scopeProblems(rule: RuleFields): Iterable<Problem> {
  const { scope, subjects = [], tenants = [], percent = 100 } = rule;
  if (scope === EVERY_SCOPE && !isUncounted(rule))
    yield [['scope'], 'can be all only for allow and multiply, which count nothing'];
  if (scope === 'global' && subjects.length > 0)
    yield [['subjects'], 'cannot be named when everybody is counted together'];
  if (scope === EVERY_SCOPE && subjects.length > 0)
    yield [['subjects'], 'have different ids in different scopes: name tenants or tiers'];
  if (scope === 'global' && percent !== 100)
    yield [['percent'], 'makes no sense when everybody is counted together'];
  if (scope === EVERY_SCOPE && percent !== 100)
    yield [['percent'], 'belongs to a rule of one scope, whose subjects it chooses from'];
  if (scope === 'tenant' && subjects.length > 0 && tenants.length > 0)
    yield [['tenants'], 'cannot go with subjects, which are tenants in this scope'];
  if (rule.action === 'multiply' && (scope === 'ip' || scope === 'global') && tenants.length > 0)
    yield [['tenants'], 'cannot go with multiply of this scope: callers of several tenants share a counter'];
}

function* resourceProblems({ resource, resources = [] }: RuleFields): Iterable<Problem> {
  if (resource == null && resources.length === 0) yield [['resource'], 'is needed, or else resources'];
  if (resource != null && resources.length > 0)
    yield [['resource'], 'cannot go with resources: a rule has either one resource or several'];
  const slots = resources.map(slotOf);
  for (const [i, slot] of slots.entries())
    if (slots.indexOf(slot) < i) yield [['resources', i], `is the same as ${resources[slots.indexOf(slot)]}`];
}

/** Problems of `per` and `by`. */
function* partProblems(rule: RuleFields): Iterable<Problem> {
  const { per = [], by = [], scope, action, resource, resources = [] } = rule;
  if (per.includes('route') && resources.length < 2)
    yield [['per'], 'route takes several resources: each of them has its own counter'];
  if (action === 'throttle' && by.length > 0)
    yield [['by'], 'cannot go with throttle: each subject of the scope has one queue'];
  if (scope === 'global' && by.some(isChosenByClient))
    yield [['scope'], 'must not be global: parts that clients choose need a bound for each subject'];
  const all = resources.length > 0 ? resources : [resource ?? ''];
  for (const [i, part] of by.entries()) {
    const { kind, name } = parseSubjectField(part);
    if (by.indexOf(part) < i) yield [['by', i], 'is there twice'];
    const without = all.find((one) => !parametersOf(one).has(name));
    if (kind === 'param' && without !== undefined) yield [['by', i], `is no parameter of ${without}`];
  }
}

const NOT_OF_MULTIPLY = ['methods', 'hosts', 'routes', 'by', 'per'] as const;

/** A counter must have the same limit in every request, so a factor may depend only on the caller. */
function* multiplyProblems(rule: RuleFields): Iterable<Problem> {
  if (rule.action !== 'multiply') {
    if (rule.times != null) yield [['times'], 'belongs to the action multiply'];
    return;
  }
  if (rule.times == null) yield [['times'], 'is needed: how many times as large limits are'];
  for (const field of NOT_OF_MULTIPLY)
    if (rule[field]?.length)
      yield [[field], 'cannot go with multiply, which looks at callers and resources alone'];
  if (rule.replaces)
    yield [['replaces'], 'cannot go with multiply, which changes limits and puts none aside'];
}

function* throttleProblems({ algorithm, costFromOrigin, limits, costs }: RuleFields): Iterable<Problem> {
  if (algorithm != null && !traitsOf(algorithm).hasQueue) {
    const [id] = idsWith(({ hasQueue }) => hasQueue === true);
    yield [['action'], `throttle belongs to ${id}, the algorithm that has a queue`];
  }
  if (costFromOrigin)
    yield [['costFromOrigin'], 'cannot go with throttle: a queue is paid for when it is entered'];
  if (limits?.length) yield [['limits'], 'cannot go with throttle: a queue has one limit'];
  if (costs?.length) yield [['costs'], 'cannot go with throttle: in a queue, every request takes one place'];
}

type Limits = NonNullable<RuleFields['limits']>;

const OF_ONE_LIMIT = [
  'limit',
  'limitName',
  'limitClaim',
  'limitMax',
  'windowSeconds',
  'window',
  'timeZone',
  'anchorDay',
  'burst',
  'buckets',
] as const;

function* severalProblems(rule: RuleFields, limits: Limits): Iterable<Problem> {
  for (const field of OF_ONE_LIMIT)
    if (rule[field] != null) yield [[field], 'cannot go with limits: a rule has either one limit or several'];
  for (const [i, limit] of limits.entries()) {
    const path = ['limits', i];
    if (limits.findIndex((other) => secondsOf(other) === secondsOf(limit)) < i)
      yield [[...path, limit.window ? 'window' : 'windowSeconds'], 'is that of another limit of this rule'];
    const algorithm = algorithmOf(limit, rule);
    if (algorithm != null && traitsOf(algorithm).holdsSeats)
      yield [[...path, 'algorithm'], 'cannot be one of several: connections take a rule of their own'];
    else yield* limitProblems(rule, { ...limit, algorithm }, path);
  }
}

type Said = Pick<RuleFields, (typeof OF_ONE_LIMIT)[number] | 'algorithm'>;

/** Problems of one limit, which is at this path of the rule. */
function* limitProblems(rule: RuleFields, said: Said, path: Problem[0]): Iterable<Problem> {
  const { algorithm, limit, limitName, burst, buckets } = said;
  const windowSeconds = secondsOf(said);
  // A rule that allows or multiplies counts nothing. A limit of its own is kept for later, and need not be complete.
  const isKept = isUncounted(rule) && path.length === 0;
  if (limit == null && limitName == null && !isKept)
    yield [[...path, 'limit'], 'is needed, or else a limitName'];
  if (windowSeconds == null && !isKept) yield [[...path, 'windowSeconds'], 'is needed, or else a window'];
  for (const [field, problem] of calendarProblems(said, isKept)) yield [[...path, field], problem];
  for (const field of ['burst', 'buckets'] as const)
    if (said[field] != null && algorithm != null && traitsOf(algorithm).extra !== field)
      yield [[...path, field], `belongs to ${idsWith(({ extra }) => extra === field).join(', ')}`];
  yield* claimProblems(rule, said, path);
  if (algorithm == null) return;
  if (traitsOf(algorithm).holdsSeats) yield* seatProblems(rule);
  if (windowSeconds == null || limit == null || isUncounted(rule)) return;
  yield* costProblems(rule, burst ?? limit);
  const counting = { algorithm, windowSeconds, burst, buckets };
  const problem = limitProblem(counting, limit);
  const problemOfMost = said.limitMax == null ? undefined : limitProblem(counting, said.limitMax);
  if (problem) yield [[...path, 'limit'], problem];
  else if (problemOfMost) yield [[...path, 'limitMax'], problemOfMost];
  else if (hasBound({ by: rule.by ?? [] })) yield* boundProblems(rule, counting, said.limitMax ?? limit);
}

/** A counter should have the same limit in every request, so its subject must be one that has claims of its own. */
function* claimProblems(
  { scope, by = [] }: RuleFields,
  { limit, limitClaim, limitMax, burst }: Said,
  path: Problem[0],
): Iterable<Problem> {
  if (limitClaim == null) {
    if (limitMax != null) yield [[...path, 'limitMax'], 'belongs to limitClaim'];
    return;
  }
  if (limit == null) yield [[...path, 'limit'], 'is needed, for callers without the claim'];
  if (limitMax == null) yield [[...path, 'limitMax'], 'is needed: the most that the claim can give'];
  if (limit != null && limitMax != null && limitMax < limit)
    yield [[...path, 'limitMax'], 'must be at least the limit'];
  // Its parts by region would differ with the limit, and together exceed the burst.
  if (burst != null)
    yield [[...path, 'burst'], 'cannot go with limitClaim: the burst is the limit of the claim'];
  const isShared = (part: string | undefined) => !/^(user|apiKey|tenant$|claim:)/.test(part ?? '');
  if (by.length === 0 || hasBound({ by }) ? isShared(scope) : by.every(isShared))
    yield [
      [...path, 'limitClaim'],
      'needs a counter of the caller’s own: scope user, apiKey or tenant, or one of them, or a claim, among by',
    ];
}

type Windowed = Pick<RuleFields, 'algorithm' | 'windowSeconds' | 'window' | 'timeZone' | 'anchorDay'>;

/** For a calendar window: its approximate length. */
const secondsOf = ({ window, windowSeconds }: Windowed): number | null | undefined =>
  window == null ? windowSeconds : CALENDAR_SECONDS[window];

function* calendarProblems(said: Windowed, isKept: boolean): Iterable<[field: string, problem: string]> {
  const { algorithm, window, windowSeconds, timeZone, anchorDay } = said;
  if (window != null && windowSeconds != null && !isKept)
    yield ['window', 'cannot go with windowSeconds: a limit has one window'];
  if (window != null && algorithm != null && !traitsOf(algorithm).hasCalendar)
    yield ['window', `belongs to ${idsWith(({ hasCalendar }) => hasCalendar === true).join(', ')}`];
  if (window == null && timeZone != null) yield ['timeZone', 'belongs to a window: day, week or month'];
  if (window !== 'month' && anchorDay != null) yield ['anchorDay', 'belongs to the window month'];
}

/** The counters must be able to hold the bound, too. */
function* boundProblems(
  { boundTimes = 1 }: RuleFields,
  counting: CountingFields,
  limit: number,
): Iterable<Problem> {
  const burst = counting.burst == null ? counting.burst : counting.burst * boundTimes;
  const problem = limitProblem({ ...counting, burst }, limit * boundTimes);
  if (problem) yield [['boundTimes'], `makes a bound that ${problem}`];
}

const NEVER_PASSES = 'is more than the limit can ever hold: no request would pass';

function* costProblems({ cost = 1, costs = [] }: RuleFields, capacity: number): Iterable<Problem> {
  if (capacity < 1) return;
  if (cost > capacity) yield [['cost'], NEVER_PASSES];
  for (const [i, one] of costs.entries()) if (one.cost > capacity) yield [['costs', i, 'cost'], NEVER_PASSES];
}

/** Seats are held, not spent, so they cannot be settled or counted as denials. */
function* seatProblems({ costFromOrigin, countDenied, windowSeconds }: RuleFields): Iterable<Problem> {
  if (windowSeconds != null && windowSeconds < SHORTEST_SEAT_SECONDS)
    yield [['windowSeconds'], `must be at least ${SHORTEST_SEAT_SECONDS} for connections`];
  if (costFromOrigin) yield [['costFromOrigin'], 'makes no sense for connections'];
  if (countDenied) yield [['countDenied'], 'makes no sense for connections'];
}

export interface CountingFields {
  readonly algorithm: AlgorithmId;
  readonly windowSeconds: number;
  readonly burst?: number | null | undefined;
  readonly buckets?: number | null | undefined;
}

/** Why the counters would refuse this limit, or undefined. */
export function limitProblem({ algorithm, windowSeconds, burst, buckets }: CountingFields, limit: number) {
  const extra = burst ?? buckets ?? undefined;
  const windowMs = windowSeconds * 1000;
  const check = { key: '', id: SOME_ID, algorithm, limit, windowMs, extra, cost: 1, seatId: SOME_SEAT };
  // The counters accept 16 times as long, because a part of a limit in a region, or a multiplied one, is rounded and may
  // take a few times as long to fill.
  if (burst != null && burst * windowMs > LONGEST_MS * limit)
    return 'is too small for so large a burst: an empty bucket would take more than 34 years to fill';
  // People write windows in seconds, so the message must not name milliseconds.
  return problemOf(check, 'take')?.replace(/limit times windowMs.*/, 'is too large for so long a window');
}
