// Quota that follows the user: when a region has used up its part of a limit, another region takes over some of what was
// used, as far as it has room itself, and so makes room here. Every admitted request stays paid for by one charge in one
// region; what is lost on the way was charged and not used, never the other way round.
import { DEFAULT_BUCKETS } from '../core/algorithms/sliding-window-buckets.ts';
import { createBoundedCache } from '../core/bounded-cache.ts';
import type { CheckResult } from '../core/decision.ts';
import type { RuleCheck } from '../core/plan.ts';
import { hasBurst } from '../core/shares.ts';
import type { Deadline } from './deadline.ts';
import type { KnownDenials } from './known-denials.ts';
import { checkAt, type PlacedCheck } from './placed-checks.ts';
import { askRegions, type LimiterRegion } from './region-ladder.ts';

const MOST_BATCHES = 10_000;
/** Whoever needs more again within so much of a window gets twice as much. */
const SOON = 0.25;
/** Others of this isolate that need the same look so often whether it has come. */
const LOOK_AGAIN_MS = 5;
/** What a lender gives at least, as a part of what it has: a call for less is not worth it. */
const SMALLEST_OF_WINDOW = 1 / 100;
/** Its room grows all the time: what is left with it is not lost. */
const SMALLEST_OF_FADING = 1 / 20;
/**
 * What drains also drains on its way: so much at least that this is a hundredth of it, as far as a quarter of what the
 * lender has is that much: more at once would be less often, and nothing in between.
 */
const DRAINED_ON_THE_WAY = 1 / 100;
const SMALLEST_OF_BUCKET = 1 / 4;
const ASSUMED_WAY_MS = 100;
const MOST_SILENT = 100;
const SILENT_MS = 100;
/** Of the deadline: with less there is no time for another call. */
const LAST_PART = 0.1;
/** No call takes longer. */
const REMEMBERED_MS = 10_000;

export interface Denied {
  readonly placed: PlacedCheck;
  /** As the borrowing region counts it. */
  readonly result: CheckResult<RuleCheck>;
}

export interface BorrowRequest {
  readonly denied: readonly Denied[];
  /** Nearest first. */
  readonly lenders: readonly LimiterRegion[];
  readonly deadline: Deadline;
  /** By the clock of the borrower: when it denied. */
  readonly deniedAtMs: number;
  /** What `mark` said before the borrower was asked. */
  readonly mark: number;
  /** That may all borrow for the same counter at once: more than was used cannot be taken over, and would be lost. */
  readonly isolates: number;
  readonly era: string;
}

export interface NothingLent {
  readonly kind: 'none';
  /** Until one of the lenders will have something. */
  readonly retryMs: number;
  /** All of them have said so. */
  readonly isCertain: boolean;
}

export type Borrowed =
  /** The checks with what was taken over. `end`: once the borrower has been told. */
  | { readonly kind: 'lent'; readonly checks: readonly RuleCheck[]; end(): void }
  /** Somebody else of this isolate has just borrowed. */
  | { readonly kind: 'again' }
  | NothingLent;

export interface Borrowing {
  /** Grows whenever somebody of this isolate has borrowed. */
  mark(): number;
  borrow(request: BorrowRequest): Promise<Borrowed>;
}

export interface BorrowingOptions {
  readonly denials: KnownDenials;
  readonly now: () => number;
}

export function createBorrowing({ denials, now }: BorrowingOptions): Borrowing {
  const batches = createBoundedCache<{ readonly units: number; readonly atMs: number }>(MOST_BATCHES);
  const busy = createBoundedCache<true>(MOST_BATCHES);
  /** Lenders that have just not answered. */
  const silent = createBoundedCache<true>(MOST_SILENT);
  let marks = 0;
  const lastMarks = createBoundedCache<number>(MOST_BATCHES);
  /** How long it took last to borrow from each region. */
  const waysMs = new Map<string, number>();

  const wayMs = (name: string) => waysMs.get(name) ?? ASSUMED_WAY_MS;

  const leastOf = (check: RuleCheck, lender: RuleCheck, name: string): number => {
    const whole = capacityOf(lender);
    const smallest = check.algorithm === 'sliding-window-counter' ? SMALLEST_OF_FADING : SMALLEST_OF_WINDOW;
    if (!isDraining(check)) return Math.max(check.cost, Math.floor(whole * smallest));
    const drained = (wayMs(name) * check.full.limit) / check.windowMs;
    return Math.max(
      check.cost + 1,
      Math.floor(Math.min(drained / DRAINED_ON_THE_WAY, whole * SMALLEST_OF_BUCKET)),
    );
  };

  /** What to move at least and at most. More than was used here cannot be taken over. */
  const sizeOf = (
    { result: { check, outcome } }: Denied,
    lender: RuleCheck,
    name: string,
    isolates: number,
  ) => {
    const used = Math.max(check.cost, capacityOf(check) - outcome.remaining);
    const least = Math.min(used, leastOf(check, lender, name));
    const last = batches.get(nameOf(check), now());
    const isSoon = last && now() - last.atMs < check.windowMs * SOON;
    const wanted = isSoon
      ? Math.min(last.units * 2, Math.max(used / 4, used / isolates))
      : used / 4 / isolates;
    return { least, most: Math.min(used, Math.max(least, Math.ceil(wanted))) };
  };

  const askOf = ({ denied, isolates }: BorrowRequest, lender: LimiterRegion): RuleCheck[] | undefined => {
    const checks = denied.flatMap((one) => {
      const there = checkAt(one.placed, lender.name);
      if (!there) return [];
      const { least, most } = sizeOf(one, there, lender.name, isolates);
      return [{ ...there, region: undefined, cost: least, want: most - least }];
    });
    return checks.length === denied.length ? checks : undefined;
  };

  const askLender = async (lender: LimiterRegion, request: BorrowRequest): Promise<Borrowed> => {
    const { denied, deadline, deniedAtMs, era } = request;
    const none = (retryMs: number, isCertain = true) => ({ kind: 'none', retryMs, isCertain }) as const;
    const tooLateMs = Math.min(
      ...denied.map(({ result }) => tooLateFor(result.check, wayMs(lender.name), deniedAtMs)),
    );
    if (tooLateMs !== Number.POSITIVE_INFINITY) return none(tooLateMs);
    const checks = askOf(request, lender);
    if (!checks) return none(Number.POSITIVE_INFINITY);
    if (lender.breaker.state(now()) !== 'closed' || silent.get(lender.name, now()))
      return none(Number.POSITIVE_INFINITY, false);
    const name = `lender ${lender.name}`;
    const known = denials.find(name, checks, now(), era);
    if (known) return none(longestWait(known.results));
    const askedAtMs = now();
    const ask = (_: LimiterRegion, signal: AbortSignal) =>
      lender.store.run({ operation: 'take', checks }, signal);
    const asked = await askRegions({ regions: [lender], deadline: half(deadline), now, ask });
    if (asked.kind === 'unanswered') {
      // A crowd need not find out one after the other.
      silent.set(lender.name, true, now() + SILENT_MS);
      return none(Number.POSITIVE_INFINITY, false);
    }
    // Roughly: what is asked for should not change with every millisecond.
    waysMs.set(lender.name, 2 ** Math.ceil(Math.log2(Math.max(1, now() - askedAtMs))));
    const { nowMs, outcomes } = asked.answer;
    const results = checks.flatMap((check, i) => {
      const outcome = outcomes[i];
      return outcome ? [{ check, outcome }] : [];
    });
    if (results.some(({ outcome }) => !outcome.allowed)) {
      if (!lender.isCluster) denials.remember(name, { nowMs, results }, askedAtMs, era);
      return none(longestWait(results));
    }
    // Its clock says another window than the borrower's: what it has charged is for that one, and lost here.
    if (
      denied.some(({ result: { check, outcome } }) => !staysAsLong(check, nowMs, outcome.nowMs ?? deniedAtMs))
    )
      return none(Number.POSITIVE_INFINITY, false);
    const relievedChecks = denied.map((one, i) => relieved(one, results[i], deniedAtMs));
    return { kind: 'lent', checks: relievedChecks, end: () => {} };
  };

  const relieved = (
    { result: { check, outcome } }: Denied,
    lent: CheckResult<RuleCheck> | undefined,
    deniedAtMs: number,
  ): RuleCheck => {
    if (!lent) return check;
    // In a cluster, each slot has a clock of its own.
    const sinceMs = outcome.nowMs ?? deniedAtMs;
    const units = lent.check.cost + lent.outcome.granted;
    batches.set(nameOf(check), { units, atMs: now() }, now() + check.windowMs);
    return { ...check, relief: { units, sinceMs, fullLimit: check.full.limit } };
  };

  const waitForOthers = async (name: string, deadline: Deadline) => {
    while (busy.get(name, now()) && deadline.remainingMs() > LOOK_AGAIN_MS)
      await new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS));
  };

  /** The first that has something. */
  const askLenders = async (request: BorrowRequest): Promise<Borrowed> => {
    let retryMs = Number.POSITIVE_INFINITY;
    let isCertain = true;
    for (const lender of request.lenders) {
      const borrowed = await askLender(lender, request);
      if (borrowed.kind !== 'none') return borrowed;
      retryMs = Math.min(retryMs, borrowed.retryMs);
      isCertain &&= borrowed.isCertain;
    }
    return { kind: 'none', retryMs, isCertain };
  };

  return {
    mark: () => marks,
    async borrow(request) {
      const { denied, deadline, mark } = request;
      const name = denied.map(({ result }) => nameOf(result.check)).join(' ');
      if (busy.get(name, now())) {
        await waitForOthers(name, deadline);
        // Too late to ask once more.
        const isLate = deadline.remainingMs() < deadline.totalMs * LAST_PART;
        return isLate
          ? { kind: 'none', retryMs: Number.POSITIVE_INFINITY, isCertain: false }
          : { kind: 'again' };
      }
      // It was denied before others of this isolate have made room.
      if ((lastMarks.get(name, now()) ?? 0) > mark) return { kind: 'again' };
      // Should this request be cancelled, the others do not wait for it for ever.
      busy.set(name, true, now() + deadline.remainingMs());
      const end = () => busy.delete(name);
      const borrowed = await askLenders(request).catch((error) => {
        end();
        throw error;
      });
      if (borrowed.kind !== 'lent') {
        end();
        return borrowed;
      }
      return {
        ...borrowed,
        end() {
          end();
          marks += 1;
          lastMarks.set(name, marks, now() + REMEMBERED_MS);
        },
      };
    },
  };
}

const nameOf = ({ region, id, key }: RuleCheck) => `${region} ${id} ${key}`;
/** Those that have a burst are those that drain. */
const isDraining: (check: RuleCheck) => boolean = hasBurst;
const capacityOf = (check: RuleCheck) => (isDraining(check) ? (check.extra ?? check.limit) : check.limit);

/**
 * Until the window or bucket ends that it was charged in, if that is so soon that the lender might charge it to the next
 * one: then it would be lost. Infinite if there is time, which there is in three quarters of it at least.
 */
function tooLateFor(check: RuleCheck, wayMs: number, nowMs: number): number {
  const periodMs = periodOf(check);
  const leftMs = periodMs - (nowMs % periodMs);
  return leftMs <= Math.min(2 * wayMs, periodMs / 4) ? leftMs : Number.POSITIVE_INFINITY;
}

/** Whether what a lender charges at its time stays for as long as what is taken off here. */
function staysAsLong(check: RuleCheck, lenderMs: number, deniedAtMs: number): boolean {
  const periods = Math.floor(lenderMs / periodOf(check)) - Math.floor(deniedAtMs / periodOf(check));
  return check.algorithm === 'sliding-window-buckets' ? periods >= 0 : periods === 0;
}

function periodOf({ algorithm, windowMs, extra = DEFAULT_BUCKETS }: RuleCheck): number {
  switch (algorithm) {
    case 'fixed-window':
    case 'sliding-window-counter':
      return windowMs;
    case 'sliding-window-buckets':
      return Math.ceil(windowMs / extra);
    default:
      return Number.POSITIVE_INFINITY;
  }
}

/** Until all of them have room again; infinite if one never will. */
const longestWait = (results: readonly CheckResult<RuleCheck>[]) =>
  Math.max(
    ...results.map(({ outcome }) =>
      outcome.allowed ? 0 : (outcome.retryAfterMs ?? Number.POSITIVE_INFINITY),
    ),
  );

/** The other half is for the borrower, who must be told. */
const half = (deadline: Deadline): Deadline => {
  const leaveMs = deadline.remainingMs() / 2;
  return { ...deadline, remainingMs: () => Math.max(0, deadline.remainingMs() - leaveMs) };
};
