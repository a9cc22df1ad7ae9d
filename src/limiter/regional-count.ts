// Counts the checks of a request where they are to be counted: most of them in one region, with one call. What that
// region has used up it may borrow; what is counted centrally goes to the region that has it. All or nothing: what was
// charged is given back if another region denies.
import type { AfterResponse } from '../core/caller.ts';
import type { Answer } from '../core/check.ts';
import { type CounterStore, CounterStoreError } from '../core/counter-store.ts';
import { type CheckResult, type DegradedReason, denyingResults } from '../core/decision.ts';
import type { RuleCheck } from '../core/plan.ts';
import type { Borrowing, Denied } from './borrowing.ts';
import { asCharged } from './charges.ts';
import type { Deadline } from './deadline.ts';
import { canBorrow, checkAt, type PlacedCheck, regionOf } from './placed-checks.ts';
import { type Asked, askRegions, type LimiterRegion, type Regions } from './region-ladder.ts';
import type { Heard } from './rules-in-force.ts';

export interface CountRequest {
  readonly placed: readonly PlacedCheck[];
  readonly regions: Regions;
  readonly operation: 'take' | 'peek';
  /** Ask the first region that counts what it announces, too. */
  readonly withAnnouncement: boolean;
  readonly deadline: Deadline;
  readonly afterResponse: AfterResponse;
  /** See known-denials.ts. */
  readonly era: string;
}

export interface RegionalResult extends CheckResult<RuleCheck> {
  readonly store: CounterStore;
  /** If it denies: whether that will hold until its retry time, or somebody may lend something before. */
  readonly isFinal: boolean;
}

export interface Counted {
  readonly results: readonly RegionalResult[];
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
}

export interface RegionalCountOptions {
  readonly now: () => number;
  readonly borrowing: Borrowing;
  readonly onError: (error: unknown) => void;
}

/** What one call to one region came to. */
interface Part {
  readonly answer: Answer;
  readonly results: readonly RegionalResult[];
}

/** Nobody waits for it any more. */
const REFUND_MS = 5_000;
/** Of one request in a crowd that borrows all the time. */
const MOST_TRIES = 10;
const UNREACHABLE = { kind: 'unanswered', reason: 'unavailable', unanswered: [] } as const;

export function createRegionalCount({ now, borrowing, onError }: RegionalCountOptions) {
  const run = async (
    region: LimiterRegion,
    call: Pick<CountRequest, 'operation' | 'withAnnouncement'> & { readonly checks: readonly RuleCheck[] },
    signal: AbortSignal,
  ): Promise<Part> => {
    const { checks } = call;
    const answer = await region.store.run(call, signal);
    if (answer.outcomes.length !== checks.length)
      throw new CounterStoreError('bad-reply', 'the store answered for fewer checks than it was given');
    const results = checks.flatMap((check, i) => {
      const outcome = answer.outcomes[i];
      return outcome ? [{ check, outcome, store: region.store, isFinal: true }] : [];
    });
    return { answer, results };
  };

  /** Asks again as long as nothing but used-up parts denies, and somebody lends. */
  const runWithLoans = async (region: LimiterRegion, request: CountRequest, signal: AbortSignal) => {
    const { operation, withAnnouncement, regions, deadline, era } = request;
    const here = distinct(countedAt(region, request), region);
    const checks = here.flatMap((placed) => checkAt(placed, region.name) ?? []);
    const lenders = regions.filter((other) => other !== region);
    let mark = borrowing.mark();
    let loans = 0;
    let part = await run(region, { operation, checks, withAnnouncement }, signal);
    const { announced } = part.answer;
    for (let tries = 0; tries < MOST_TRIES && loans <= lenders.length; tries += 1) {
      if (operation === 'peek') return part;
      const denied = deniedOf(part, here);
      const canAllBorrow = denied.every(({ placed }) => canBorrow(placed));
      if (denied.length === 0 || !canAllBorrow) return notFinal(part, here);
      const deniedAtMs = part.answer.nowMs;
      const isolates = region.census.told() ?? 1;
      const borrowed = await borrowing.borrow({ denied, lenders, deadline, deniedAtMs, mark, isolates, era });
      if (borrowed.kind === 'none') {
        const told = withEarlierRetry(part, borrowed.retryMs);
        return borrowed.isCertain && denied.length === 1 ? told : notFinal(told, here);
      }
      const relieved = borrowed.kind === 'lent' ? borrowed.checks : [];
      const again = checks.map(
        (check) => relieved.find(({ id, key }) => id === check.id && key === check.key) ?? check,
      );
      mark = borrowing.mark();
      if (borrowed.kind === 'lent') loans += 1;
      // It has been denied: that nobody answers any more does not let it pass.
      const call = { operation, checks: again, withAnnouncement: false };
      const next = await run(region, call, deadline.signal()).catch(() => undefined);
      if (borrowed.kind === 'lent') borrowed.end();
      if (!next) break;
      part = { ...next, answer: { ...next.answer, announced } };
      // One's own loan is no reason to take again.
      if (borrowed.kind === 'lent') mark = borrowing.mark();
    }
    // Others were faster, again and again: nobody knows whether there is room.
    return notFinal(part, here);
  };

  /** In the regions that alone can count them, all at once. */
  const countElsewhere = (request: CountRequest, withAnnouncement: boolean) => {
    const { placed, regions, operation, deadline } = request;
    const elsewhere = placed.filter(({ parts }) => !parts.has(regions[0].name));
    const groups = Map.groupBy(elsewhere, (one) => regionOf(one, regions));
    return Promise.all(
      [...groups].map(async ([region, group]) => {
        // The region that has it is not among those this isolate knows.
        if (!region) return { checks: group.map(({ check }) => check), asked: UNREACHABLE };
        const checks = distinct(group, region).flatMap((one) => checkAt(one, region.name) ?? []);
        const ask = (_: LimiterRegion, signal: AbortSignal) =>
          run(region, { operation, checks, withAnnouncement }, signal);
        return { checks, asked: await askRegions({ regions: [region], deadline, now, ask }) };
      }),
    );
  };

  return async (request: CountRequest): Promise<Counted> => {
    const { regions, placed, deadline, operation, afterResponse, withAnnouncement } = request;
    const results: RegionalResult[] = [];
    const charged: RegionalResult[] = [];
    const answered: LimiterRegion[] = [];
    const unanswered: CounterStore[] = [];
    const missing: RuleCheck[] = [];
    let failure: DegradedReason | undefined;
    const heard: Heard[] = [];

    const own = placed.filter(({ parts }) => parts.has(regions[0].name));
    // What is charged here may be given back, if it is denied elsewhere: so a denial here is not sure to last.
    const isOwnFinal = own.length === placed.length;

    const add = (asked: Asked<Part>, checks: readonly RuleCheck[], isFinal = true) => {
      unanswered.push(...asked.unanswered);
      failure ??= asked.reason;
      if (asked.kind === 'unanswered') return void missing.push(...checks);
      const { answer } = asked.answer;
      const { announced } = answer;
      if (announced !== undefined) heard.push({ announced, board: asked.region.board });
      const counted = asked.answer.results.map((result) => ({
        ...inTimeOf(answer.nowMs, result),
        isFinal: result.isFinal && isFinal,
      }));
      results.push(...counted);
      if (denyingResults(counted).length === 0)
        charged.push(...counted.filter(({ outcome }) => outcome.allowed));
      answered.push(asked.region);
    };

    if (own.length > 0) {
      const actors = regions.filter((region) => countedAt(region, request).length > 0);
      const ask = (region: LimiterRegion, signal: AbortSignal) => runWithLoans(region, request, signal);
      const asked = await askRegions({ regions: actors, deadline, now, ask });
      add(
        asked,
        own.flatMap((one) => checkAt(one, regions[0].name) ?? []),
        isOwnFinal,
      );
      if (asked.kind === 'answered') missing.push(...lostBy(asked.region, request));
    }
    const goesOn = operation === 'peek' || denyingResults(results).length === 0;
    if (own.length < placed.length && goesOn) {
      const elsewhere = await countElsewhere(request, withAnnouncement && own.length === 0);
      for (const { checks, asked } of elsewhere) add(asked, checks);
    }
    const isDenied = denyingResults(results).length > 0;
    if (isDenied && charged.length > 0 && operation === 'take') afterResponse(giveBack(charged, onError));
    return { results, charged, regions: answered, unanswered, missing, failure, heard };
  };
}

/** All or nothing: what one region has charged is given back if another denies. */
export async function giveBack(charged: readonly RegionalResult[], onError: (error: unknown) => void) {
  for (const [store, results] of Map.groupBy(charged, (result) => result.store)) {
    const checks = results.map(({ check, outcome }) => asCharged(check, outcome.nowMs));
    await store.run({ operation: 'refund', checks }, AbortSignal.timeout(REFUND_MS)).catch(onError);
  }
}

/** What that region can count of what belongs to the nearest one: all of it there, and elsewhere what has parts. */
const countedAt = (region: LimiterRegion, { placed, regions: [home] }: CountRequest): PlacedCheck[] =>
  placed.filter(({ parts }) => parts.has(home.name) && parts.has(region.name));

/** While a rule is counted in several ways, a region may count it in two of them: once is enough, by the smaller part. */
function distinct(placed: readonly PlacedCheck[], { name }: LimiterRegion): PlacedCheck[] {
  const partOf = ({ parts }: PlacedCheck) => parts.get(name)?.limit ?? 0;
  return placed.filter((one, i) =>
    placed.every((other, j) => {
      if (i === j || one.check.id !== other.check.id || one.check.key !== other.check.key) return true;
      return partOf(one) < partOf(other) || (partOf(one) === partOf(other) && i < j);
    }),
  );
}

/** What only the nearest region could have counted. */
const lostBy = (region: LimiterRegion, { placed, regions: [home] }: CountRequest): RuleCheck[] =>
  placed.flatMap((one) => {
    const isLost = one.parts.has(home.name) && !one.parts.has(region.name);
    return isLost ? (checkAt(one, home.name) ?? []) : [];
  });

function deniedOf({ results }: Part, here: readonly PlacedCheck[]): Denied[] {
  return results.flatMap((result, i) => {
    const placed = here[i];
    return placed && !result.outcome.allowed && !result.check.log ? [{ result, placed }] : [];
  });
}

/** A lender may have room again before the part here has. */
function withEarlierRetry({ answer, results }: Part, retryMs: number): Part {
  return {
    answer,
    results: results.map((result) => {
      const { allowed, retryAfterMs } = result.outcome;
      if (allowed || (retryAfterMs ?? Number.POSITIVE_INFINITY) <= retryMs) return result;
      return { ...result, outcome: { ...result.outcome, retryAfterMs: retryMs } };
    }),
  };
}

/** What others may still lend is not denied for good. */
const notFinal = ({ answer, results }: Part, here: readonly PlacedCheck[]): Part => ({
  answer,
  results: results.map((result, i) => {
    const placed = here[i];
    return placed && canBorrow(placed) ? { ...result, isFinal: false } : result;
  }),
});

/** Each region has a clock of its own; in a cluster, each slot. */
const inTimeOf = (nowMs: number, result: RegionalResult): RegionalResult => ({
  ...result,
  outcome: { nowMs, ...result.outcome },
});
