// What the answers of regions mean for the checks of a request.
import type { Outcome } from '../core/counting/check.ts';
import type { DegradedReason } from '../core/counting/decision.ts';
import type { RuleCheck } from '../core/matching/plan.ts';
import type { Cessions } from './cessions.ts';
import type { KnownDenials } from './known-denials.ts';
import type { LeaseBook } from './lease-book.ts';
import type { Granted } from './lease-counter.ts';
import { asWhole, followTwin, isMoved, isRefused, type Pending, type Turn } from './pending-check.ts';
import type { Answered } from './region-calls.ts';
import type { Asked, LimiterRegion } from './region-ladder.ts';
import type { CountRequest } from './regional-count.ts';
import type { RegionAnnouncement } from './rules-in-force.ts';

/** What the regions have said so far. */
export interface Tally {
  readonly pending: readonly Pending[];
  readonly heard: RegionAnnouncement[];
  readonly answered: Set<LimiterRegion>;
  failure: DegradedReason | undefined;
  isStopped: boolean;
}

/** Of one region. */
export interface Reply {
  readonly region: LimiterRegion;
  readonly turns: readonly Turn[];
  /** Those that it was asked about. */
  readonly asked: readonly Turn[];
  readonly answer: Asked<Answered>;
}

export interface RepliesOptions {
  readonly cessions: Cessions;
  readonly denials: KnownDenials;
  readonly leases: LeaseBook;
  /** Whether a denial of it may end sooner than it says. */
  readonly isUnsettled: (check: RuleCheck) => boolean;
}

/** Writes into the tally what a region has said. */
export type HearReply = (reply: Reply, tally: Tally, request: CountRequest) => void;

export function createHearReply({ cessions, denials, leases, isUnsettled }: RepliesOptions): HearReply {
  /** What the answer of a region means for the checks that it was asked about. */
  const hear = (turns: readonly Turn[], region: LimiterRegion, answered: Answered, request: CountRequest) => {
    const { nowMs, outcomes } = answered;
    const { operation, ledger, era } = request;
    const passes = turns.every(
      ({ check }, i) => !isRefused(outcomes[i]) || (check.log && !isMoved(outcomes[i])),
    );
    for (const [i, { one, check }] of turns.entries()) {
      if (answered.sent[i]?.want) leases.answered(check);
      const outcome = outcomes[i] && { nowMs, ...outcomes[i] };
      if (!outcome) continue;
      if (outcome.allowed) {
        const isCharged = passes && operation === 'take';
        const whole = asWhole(one, check, outcome);
        const isNoted = isCharged && region === request.regions[0];
        const told = { outcome, whole, sentAtMs: answered.askedAtMs, era };
        const remaining = isNoted ? noteCharge({ one, region, check }, told) : whole.remaining;
        const result = { check, outcome: remaining === whole.remaining ? whole : { ...whole, remaining } };
        if (passes || operation === 'peek') one.admitted = { region, result, outcome };
        else one.seen = result;
        if (isCharged) ledger.noteCharge(region.store, check, outcome.nowMs ?? nowMs);
      } else if (isMoved(outcome)) cessions.learn(one.placed, { ...answered, region: region.name, outcome });
      else {
        one.verdicts.set(region.name, { check, outcome });
        remember({ one, region, check }, { outcome, ...answered }, request);
      }
    }
  };

  /** The lease that came with the charge is noted, too: what is left of the whole limit. */
  const noteCharge = (
    { region, check }: Turn,
    told: Pick<Granted, 'outcome' | 'whole' | 'sentAtMs' | 'era'>,
  ): number => {
    const chargedAtMs = told.outcome.nowMs ?? 0;
    return leases.note({ region, check, ...told, chargedAtMs, usedNow: check.cost });
  };

  const remember = (
    { region, check }: Turn,
    { outcome, askedAtMs, nowMs }: Answered & { readonly outcome: Outcome },
    { operation, era }: CountRequest,
  ) => {
    if (operation !== 'take' || region.isCluster || isUnsettled(check)) return;
    denials.remember(region.name, check, outcome, { askedAtMs, answeredAtMs: nowMs, era });
  };

  return ({ region, turns, asked, answer }, tally, request) => {
    const checks = asked.map(({ check }) => check);
    if (request.operation === 'take')
      for (const store of answer.unanswered) request.ledger.noteDoubt(store, checks);
    if (answer.kind === 'unanswered') {
      tally.failure ??= answer.reason;
      for (const { one, check } of turns)
        one.verdicts.set(region.name, { ...one.verdicts.get(region.name), check });
      return;
    }
    tally.answered.add(region);
    const { announced } = answer.answer;
    if (announced !== undefined) tally.heard.push({ announced, board: region.board });
    hear(asked, region, answer.answer, request);
    for (const turn of turns) if (!asked.includes(turn)) followTwin(turn, asked);
  };
}
