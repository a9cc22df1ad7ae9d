// Calls to one region for a request, each with the time that it may take.
import type { Answer } from '../core/counting/check.ts';
import type { RuleCheck } from '../core/matching/plan.ts';
import { CounterStoreError } from '../core/ports/counter-store.ts';
import type { Cessions } from './cessions.ts';
import type { LeaseBook } from './lease-book.ts';
import { isUnanswered, type Turn, type Wish } from './pending-check.ts';
import { type Asked, askRegion, type LimiterRegion, type Regions } from './region-ladder.ts';
import type { CountRequest } from './regional-count.ts';
import type { Turns } from './turns.ts';

export interface RegionCalls {
  /** Counts these checks there. */
  count(region: LimiterRegion, turns: readonly Turn[], call: Call): Promise<Asked<Answered>>;
  /** Asks a region for its parts. If that fails, the region is asked to count. */
  askFor(wishes: readonly [Wish, ...Wish[]], request: CountRequest): Promise<void>;
}

export interface Call {
  readonly request: CountRequest;
  /** How many calls the request has waited for. */
  readonly round: number;
  /** Ask what the region announces, too. */
  readonly withAnnouncement: boolean;
}

export interface Answered extends Answer {
  readonly askedAtMs: number;
  /** The checks, with the units that they wanted to lease. */
  readonly sent: readonly RuleCheck[];
}

export interface RegionCallsOptions {
  readonly now: () => number;
  readonly cessions: Cessions;
  readonly leases: LeaseBook;
  readonly turns: Turns;
}

/** Of the deadline: a region that has had less cannot be blamed, as long as its distance is not known. */
const FAIR_PART = 0.25;
/** Of the way to a far one. */
const FAIR_TIMES = 2;
/** A near region is asked again although a far one has taken all the time. */
const AGAIN_MS = 50;

/** How long a region may take, and whether it is to blame if it takes longer. */
interface Time {
  readonly givenMs: number;
  readonly isFair: boolean;
  readonly signal: AbortSignal;
}

export function createRegionCalls({ now, cessions, leases, turns: next }: RegionCallsOptions): RegionCalls {
  /** A near region leaves time for the next one. */
  const nearTime = (
    region: LimiterRegion,
    turns: readonly Turn[],
    { deadline, regions }: CountRequest,
  ): Time => {
    const hasNext = turns.some(({ one }) => next.hasOther(one, region, regions));
    const givenMs = deadline.remainingMs() / (hasNext ? 2 : 1);
    return { givenMs, isFair: givenMs >= deadline.totalMs * FAIR_PART, signal: deadline.signal(givenMs) };
  };

  /** A far one gets the time that its distance takes; and so does a near one that is asked after a far one. */
  const farTime = (
    region: LimiterRegion,
    turns: readonly Turn[],
    { deadline, regions }: CountRequest,
  ): Time => {
    const [nearest] = regions;
    // Nobody waits long for a region that stands in for one that has failed.
    const isPatient = turns.every(({ one }) => !isUnanswered(one.verdicts.get(nearest.name)));
    const leastMs = region === nearest ? AGAIN_MS : 0;
    const givenMs = region.distance.fitMs(Math.max(leastMs, deadline.remainingMs()), isPatient);
    const knownMs = region === nearest ? undefined : region.distance.ms();
    const fairMs = knownMs === undefined ? deadline.totalMs * FAIR_PART : knownMs * FAIR_TIMES;
    return {
      givenMs,
      isFair: givenMs >= fairMs,
      signal: AbortSignal.timeout(Math.max(0, Math.ceil(givenMs))),
    };
  };

  /** With a lease, if it is time for one. */
  const wanting = ({ check, one }: Turn, regions: Regions): RuleCheck => {
    const want = leases.claim(regions, one.placed, check);
    return want > 0 ? { ...check, want } : check;
  };

  return {
    async count(region, turns, { request, round, withAnnouncement }) {
      const { regions, operation } = request;
      const isFirst = region === regions[0] && round === 0;
      const { givenMs, isFair, signal } = (isFirst ? nearTime : farTime)(region, turns, request);
      if (givenMs <= 0) return TOO_LATE;
      const askedAtMs = now();
      const isLeasing = operation === 'take' && region === regions[0];
      const checks = turns.map((turn) => (isLeasing ? wanting(turn, regions) : turn.check));
      const ask = async () => {
        const answer = await region.store.run({ operation, checks, withAnnouncement }, signal);
        if (answer.outcomes.length === checks.length) return { ...answer, askedAtMs, sent: checks };
        throw new CounterStoreError('bad-reply', 'the store answered for fewer checks than it was given');
      };
      const asked = await askRegion({ region, signal, isFair, now, ask });
      const isTooFar = region !== regions[0] && asked.kind === 'unanswered' && asked.reason === 'timeout';
      // All of them: else each is given up on by requests of its own.
      if (isTooFar) for (const { distance } of regions.slice(1)) distance.measure(request.afterResponse);
      return asked;
    },

    async askFor(wishes, { deadline }) {
      const [{ region, home }] = wishes;
      for (const { one } of wishes) one.asked.add(region.name);
      const placed = wishes.map(({ one }) => one.placed);
      const givenMs = region.distance.fitMs(deadline.remainingMs(), true);
      const signal = AbortSignal.timeout(Math.ceil(givenMs));
      const ask = () => cessions.ask({ from: region, home, placed }, signal);
      await askRegion({ region, signal, isFair: true, now, ask });
    },
  };
}

const TOO_LATE = { kind: 'unanswered', unanswered: [], reason: 'timeout' } as const;
