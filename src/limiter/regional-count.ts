// Counts the checks of a request where they are to be counted: most of them in the nearest region, with one call. Checks
// that this region has ceded go to their home; checks that are denied are tried in the next region that has a part. All
// or nothing: what was charged is given back if the request is denied after all.
import { createBoundedCache } from '../core/bounded-cache.ts';
import type { Answer } from '../core/counting/check.ts';
import type { CheckResult, DegradedReason } from '../core/counting/decision.ts';
import type { AfterResponse } from '../core/matching/caller.ts';
import type { RuleCheck } from '../core/matching/plan.ts';
import { type CounterStore, CounterStoreError } from '../core/ports/counter-store.ts';
import { isUsable } from '../core/regions/shares.ts';
import type { Cessions } from './cessions.ts';
import { asCharged } from './charges.ts';
import type { Deadline } from './deadline.ts';
import { nameOf } from './known-cessions.ts';
import type { KnownDenials } from './known-denials.ts';
import {
  asWhole,
  chargeOf,
  denialOf,
  followTwin,
  isDenied,
  isMoved,
  isRefused,
  isUnanswered,
  type Pending,
  pendingOf,
  type RegionalResult,
  type Turn,
  useOf,
} from './pending-check.ts';
import type { PlacedCheck } from './placed-checks.ts';
import { askRegion, type LimiterRegion, type Regions } from './region-ladder.ts';
import type { Heard } from './rules-in-force.ts';

export interface CountRequest {
  readonly placed: readonly PlacedCheck[];
  readonly regions: Regions;
  readonly operation: 'take' | 'peek';
  /** Ask the first region that answers what it announces, too. */
  readonly withAnnouncement: boolean;
  /** What it must announce: if it is something else, no further region is asked, because the rules are outdated. */
  readonly expects?: string | undefined;
  readonly deadline: Deadline;
  readonly afterResponse: AfterResponse;
  /** See known-denials.ts. */
  readonly era: string;
}

export interface Counted {
  readonly results: readonly CheckResult<RuleCheck>[];
  /** Of those, what was charged. */
  readonly charged: readonly RegionalResult[];
  /** Those that answered. */
  readonly regions: readonly LimiterRegion[];
  readonly unanswered: readonly CounterStore[];
  /** What no region has counted that should have. */
  readonly missing: readonly RuleCheck[];
  /** The first one, if any region has failed. */
  readonly failure: DegradedReason | undefined;
  /** What the regions announce that were asked. */
  readonly heard: readonly Heard[];
  /** The rules are outdated, and not all has been counted that should have been. */
  readonly isStopped: boolean;
}

export interface RegionalCount {
  count(request: CountRequest): Promise<Counted>;
  /** What memory alone tells: the results of a denial; undefined if a region must be asked. */
  recall(request: Pick<CountRequest, 'placed' | 'regions' | 'era'>): CheckResult<RuleCheck>[] | undefined;
  /** These are about to be given back: a caller that they deny now may pass sooner than they say. */
  unsettle(checks: readonly RuleCheck[]): void;
}

export interface RegionalCountOptions {
  readonly now: () => number;
  readonly denials: KnownDenials;
  readonly cessions: Cessions;
  readonly onError: (error: unknown) => void;
}

/** Nobody waits for it any more. */
const REFUND_MS = 5_000;
const UNSETTLED_MS = 5_000;
const MOST_UNSETTLED = 10_000;
/** Of the deadline: a region that has had less cannot be blamed, as long as its distance is not known. */
const FAIR_PART = 0.25;
/** Of the way to a far one. */
const FAIR_TIMES = 2;
const AGAIN_MS = 50;
/** Each region may be asked for its part, and to count twice: a home may have got more meanwhile. */
const roundsFor = (regions: Regions) => 3 * regions.length + 1;

export function createRegionalCount(options: RegionalCountOptions): RegionalCount {
  const { now, denials, cessions, onError } = options;
  const unsettled = createBoundedCache<true>(MOST_UNSETTLED);

  const unsettle = (checks: readonly RuleCheck[]) => {
    for (const check of checks) unsettled.set(nameOf(check), true, now() + UNSETTLED_MS);
  };

  /** Where it is tried next; undefined if all that have a part have spoken. With an era, memory speaks for them. */
  const turnOf = (one: Pending, regions: Regions, era: string | undefined): Turn | undefined => {
    const { placed, verdicts } = one;
    for (const region of cessions.candidates(placed, regions)) {
      const check = cessions.checkAt(placed, region.name);
      if (!check) continue;
      const verdict = verdicts.get(region.name);
      const isAnother = verdict?.outcome !== undefined && verdict.check.limit < check.limit;
      if (!verdict || isAnother) {
        const outcome = era === undefined ? undefined : denials.find(region.name, check, now(), era);
        if (!outcome) return { one, region, check };
        verdicts.set(region.name, { check, outcome });
      }
      if (verdicts.get(region.name)?.outcome && !placed.check.rule.spill) return undefined;
    }
    return undefined;
  };

  /** Its home has denied it, or has no part: parts that idle regions cede are of more use than one charge there. */
  const wishOf = (one: Pending, regions: Regions): Turn | undefined => {
    const { placed, verdicts, asked } = one;
    const home = placed.at ?? regions[0].name;
    const part = placed.parts.get(home);
    const canCount = part !== undefined && isUsable(placed.check, part);
    const own = regions.find(({ name }) => name === home);
    // What is ceded to a region that does not answer is lost to all.
    const isThere = own?.distance.ms() !== undefined && isClosed(own);
    if (canCount ? !verdicts.get(home)?.outcome : !isThere) return undefined;
    const region = regions.find(
      (from) => !asked.has(from.name) && isClosed(from) && cessions.isWanted(placed, home, from),
    );
    return region && { one, region, check: placed.check, home };
  };

  const wish = async (region: LimiterRegion, home: string, turns: readonly Turn[], request: CountRequest) => {
    for (const { one } of turns) one.asked.add(region.name);
    const placed = turns.map(({ one }) => one.placed);
    const givenMs = region.distance.fitMs(request.deadline.remainingMs(), true);
    const signal = AbortSignal.timeout(Math.ceil(givenMs));
    // If that fails, the region is asked to count.
    await askRegion({
      region,
      signal,
      isFair: true,
      now,
      ask: () => cessions.ask({ from: region, home, placed }, signal),
    });
  };

  const hasOther = ({ placed, verdicts }: Pending, region: LimiterRegion, regions: Regions) =>
    regions.some(
      (other) =>
        other !== region &&
        !verdicts.has(other.name) &&
        isClosed(other) &&
        cessions.checkAt(placed, other.name) !== undefined,
    );

  /** A near region leaves time for the next one; a far one gets the time that its distance takes. */
  const ask = async (
    region: LimiterRegion,
    turns: readonly Turn[],
    { round, ...request }: CountRequest & { readonly round: number },
  ) => {
    const { regions, deadline, operation, withAnnouncement } = request;
    const remainingMs = deadline.remainingMs();
    const isNear = region === regions[0];
    const hasNext = isNear && turns.some(({ one }) => hasOther(one, region, regions));
    // Nobody waits long for a region that stands in for one that has failed.
    const isPatient = turns.every(({ one }) => !isUnanswered(one.verdicts.get(regions[0].name)));
    // A near region is asked although a far one has taken all the time.
    const isAgain = isNear && round > 0;
    const farMs = region.distance.fitMs(isAgain ? Math.max(AGAIN_MS, remainingMs) : remainingMs, isPatient);
    const givenMs = isNear && !isAgain ? remainingMs / (hasNext ? 2 : 1) : farMs;
    const knownMs = isNear ? undefined : region.distance.ms();
    const isFair = givenMs >= (knownMs === undefined ? deadline.totalMs * FAIR_PART : knownMs * FAIR_TIMES);
    if (givenMs <= 0) return TOO_LATE;
    const askedAtMs = now();
    const asked = await askRegion({
      region,
      signal: isNear && !isAgain ? deadline.signal(givenMs) : AbortSignal.timeout(Math.ceil(givenMs)),
      isFair,
      now,
      async ask(_, signal) {
        const checks = turns.map(({ check }) => check);
        const answer = await region.store.run({ operation, checks, withAnnouncement }, signal);
        if (answer.outcomes.length === checks.length) return { ...answer, askedAtMs };
        throw new CounterStoreError('bad-reply', 'the store answered for fewer checks than it was given');
      },
    });
    const isTooFar = !isNear && asked.kind === 'unanswered' && asked.reason === 'timeout';
    // All of them: else each is given up on by requests of its own.
    if (isTooFar) for (const { distance } of regions.slice(1)) distance.measure(request.afterResponse);
    return asked;
  };

  /** What the answer of a region means for the checks that it was asked about. */
  const hear = (
    turns: readonly Turn[],
    region: LimiterRegion,
    { nowMs, outcomes, askedAtMs }: Answered,
    { operation, era }: CountRequest,
  ) => {
    const passes = turns.every(
      ({ check }, i) => !isRefused(outcomes[i]) || (check.log && !isMoved(outcomes[i])),
    );
    for (const [i, { one, check }] of turns.entries()) {
      const outcome = outcomes[i] && { nowMs, ...outcomes[i] };
      if (!outcome) continue;
      if (outcome.allowed) {
        const result = { check, outcome: asWhole(one, check, outcome), store: region.store };
        if (passes || operation === 'peek') one.admitted = { region, result, outcome };
        else one.seen = result;
      } else if (isMoved(outcome)) {
        cessions.learn(one.placed, { region: region.name, outcome, askedAtMs, nowMs });
      } else {
        one.verdicts.set(region.name, { check, outcome });
        if (operation === 'take' && !region.isCluster && !unsettled.get(nameOf(check), now()))
          denials.remember(region.name, check, outcome, { askedAtMs, answeredAtMs: nowMs, era });
      }
    }
  };

  /** Where a rule is being moved, a request may be up against one counter in two ways: the stricter one is asked. */
  const strictest = (turns: readonly Turn[]) =>
    turns.filter(({ check }, i) =>
      turns.every((other, j) => {
        if (i === j || nameOf(other.check) !== nameOf(check)) return true;
        return check.limit < other.check.limit || (check.limit === other.check.limit && i < j);
      }),
    );

  const count = async (request: CountRequest): Promise<Counted> => {
    const { placed, regions, operation, afterResponse } = request;
    const pending = placed.map(pendingOf);
    const era = operation === 'take' && !placed.some(isTold) ? request.era : undefined;
    const heard: Heard[] = [];
    const answered = new Set<LimiterRegion>();
    const unanswered = new Set<CounterStore>();
    let failure: DegradedReason | undefined;
    let isStopped = false;
    let { withAnnouncement } = request;

    for (let round = 0; round < roundsFor(regions); round += 1) {
      const open = pending.filter(({ admitted }) => !admitted);
      const wishes = operation === 'take' ? open.flatMap((one) => wishOf(one, regions) ?? []) : [];
      const others = open.filter((one) => !wishes.some((turn) => turn.one === one));
      const turns = others.flatMap((one) => turnOf(one, regions, era) ?? []);
      const isOver = others.some((one) => isDenied(one) && !turns.some((turn) => turn.one === one));
      if (turns.length + wishes.length === 0 || isOver) break;
      isStopped = heard.some((one) => isNews(one, request.expects));
      if (isStopped) break;
      const wished = [...Map.groupBy(wishes, ({ region, home }) => `${region.name} ${home}`).values()].map(
        (some) =>
          some[0]?.home === undefined ? undefined : wish(some[0].region, some[0].home, some, request),
      );
      const groups = [...Map.groupBy(turns, ({ region }) => region)];
      const answers = await Promise.all(
        groups.map(async ([region, all], i) => {
          const some = strictest(all);
          const call = { ...request, withAnnouncement: withAnnouncement && i === 0, round };
          return { region, all, some, asked: await ask(region, some, call) };
        }),
      );
      await Promise.all(wished);
      withAnnouncement &&= answers[0]?.asked.kind !== 'answered';
      for (const { region, all, some, asked } of answers) {
        failure ??= asked.kind === 'unanswered' ? asked.reason : undefined;
        for (const store of asked.unanswered) unanswered.add(store);
        if (asked.kind === 'unanswered')
          for (const { one, check } of all)
            one.verdicts.set(region.name, { ...one.verdicts.get(region.name), check });
        else {
          answered.add(region);
          const { announced } = asked.answer;
          if (announced !== undefined) heard.push({ announced, board: region.board });
          hear(some, region, asked.answer, request);
          for (const turn of all) if (!some.includes(turn)) followTwin(turn, some);
        }
      }
    }

    // With no region out of reach, what nobody may count now is denied: to let it pass could exceed the limit.
    if (failure === undefined && !isStopped && regions.every(isClosed)) pending.forEach(denyLocked);
    const isRefusal = pending.some(isDenied);
    const charged = operation === 'take' ? pending.flatMap(chargeOf) : [];
    if (isRefusal && charged.length > 0) {
      unsettle(charged.map(({ check }) => check));
      afterResponse(giveBack(charged, onError));
    }
    if (operation === 'take' && !isStopped)
      cessions.follow(
        pending.flatMap((one) => useOf(one, regions)),
        regions,
        afterResponse,
      );
    return {
      results: pending.flatMap(
        (one) => one.admitted?.result ?? denialOf(one) ?? ((isRefusal && one.seen) || []),
      ),
      charged,
      regions: [...answered],
      unanswered: [...unanswered],
      missing: isStopped ? [] : pending.flatMap((one) => missedOf(one, isRefusal, regions)),
      failure,
      heard,
      isStopped,
    };
  };

  const isClosed = ({ breaker }: LimiterRegion) => breaker.state(now()) === 'closed';

  const denyLocked = ({ placed, admitted, verdicts }: Pending) => {
    const waitMs = admitted || verdicts.size > 0 ? undefined : cessions.lockedMs(placed);
    if (waitMs === undefined) return;
    const end = { resetAtMs: now() + waitMs, retryAfterMs: waitMs, nowMs: now() };
    const outcome = { allowed: false, remaining: 0, granted: 0, delayMs: 0, ...end };
    verdicts.set('', { check: placed.check, outcome });
  };

  /** What should have been counted and was not, as the nearest region that can counts it. */
  const missedOf = (one: Pending, isRefusal: boolean, regions: Regions): RuleCheck[] => {
    const { placed, admitted, verdicts } = one;
    if (admitted || denialOf(one) || (isRefusal && verdicts.size === 0)) return [];
    const at = regions.flatMap(({ name }) => cessions.checkAt(placed, name) ?? []);
    return [at[0] ?? placed.check];
  };

  return {
    count,
    unsettle,
    recall({ placed, regions, era }) {
      if (placed.some(({ check }) => check.countDenied)) return undefined;
      const all = placed.map(pendingOf);
      const known = all.filter((one) => turnOf(one, regions, era) === undefined && isDenied(one));
      // Whether it would block from now on, only Redis can tell.
      const isOpen = all.some((one) => one.placed.check.blockMs && !known.includes(one));
      return known.length > 0 && !isOpen ? known.flatMap((one) => denialOf(one) ?? []) : undefined;
    },
  };
}

type Answered = Answer & { readonly askedAtMs: number };

const isNews = ({ announced }: Heard, expects: string | undefined): boolean =>
  expects !== undefined && announced !== null && announced !== expects;

const TOO_LATE = { kind: 'unanswered', unanswered: [], reason: 'timeout' } as const;

/** Its counter must hear of every request, also of those that are denied. */
const isTold = ({ check }: PlacedCheck): boolean => check.countDenied === true || check.blockMs !== undefined;

/** All or nothing: what one region has charged is given back if another denies. */
export async function giveBack(charged: readonly RegionalResult[], onError: (error: unknown) => void) {
  for (const [store, results] of Map.groupBy(charged, (result) => result.store)) {
    const checks = results.map(({ check, outcome }) => asCharged(check, outcome.nowMs));
    await store.run({ operation: 'refund', checks }, AbortSignal.timeout(REFUND_MS)).catch(onError);
  }
}
