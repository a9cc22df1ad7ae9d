// What this isolate has in memory about the checks of a request: leases that pay for them, and denials.
import type { CheckResult } from '../core/decision.ts';
import type { RuleCheck } from '../core/matching/plan.ts';
import type { Leasing } from './leasing.ts';
import { needsFollowUp } from './ledger.ts';
import type { PlacedCheck, Placing } from './placed-checks.ts';
import type { RegionalCount } from './regional-count.ts';
import type { DecisionRequest, Round } from './round.ts';

export interface Known {
  readonly enforced: readonly PlacedCheck[];
  /** Shadow rules that are counted after the response. */
  readonly shadow: readonly PlacedCheck[];
  /** The enforced checks that this isolate has leased units for, and the others. */
  readonly leased: readonly PlacedCheck[];
  readonly open: readonly PlacedCheck[];
  /** The results of a denial that memory knows; the denial takes no call. */
  readonly denial: readonly CheckResult<RuleCheck>[] | undefined;
}

export interface DecisionMemory {
  lookUp(round: Round, checks: readonly RuleCheck[]): Known;
  /** Whether one of these checks denies the request. */
  isKnownDenied(round: Round, checks: readonly RuleCheck[]): boolean;
}

export interface DecisionMemoryOptions {
  readonly placing: Placing;
  readonly leasing: Leasing;
  readonly regional: Pick<RegionalCount, 'recall'>;
  /** See known-denials.ts. */
  readonly announcement: () => string;
}

export function createDecisionMemory(options: DecisionMemoryOptions): DecisionMemory {
  const { placing, leasing, regional, announcement } = options;

  /**
   * With several regions, shadow rules are counted after the response, so that no request waits for them. Rules that
   * settle later are counted now, because the ledger needs the charge.
   */
  const placeAll = ({ request, snapshot }: Round, checks: readonly RuleCheck[]) => {
    const { regions, operation } = request;
    const place = (some: readonly RuleCheck[]) => placing.place(some, regions, snapshot.split);
    const mayWait = regions.length > 1 && operation === 'take';
    const isLater = (check: RuleCheck) => check.isShadow === true && mayWait && !needsFollowUp(check);
    if (!checks.some(isLater)) return { enforced: place(checks), shadow: [] };
    return {
      enforced: place(checks.filter((check) => !isLater(check))),
      shadow: place(checks.filter(isLater)),
    };
  };

  const denialOf = ({ operation, regions }: DecisionRequest, placed: readonly PlacedCheck[]) =>
    operation === 'take' && placed.length > 0
      ? regional.recall({ placed, regions, announcement: announcement() })
      : undefined;

  return {
    lookUp(round, checks) {
      const { enforced, shadow } = placeAll(round, checks);
      const leased = leasing.find(enforced, round.request);
      const open = leased.length === 0 ? enforced : enforced.filter((one) => !leased.includes(one));
      return { enforced, shadow, leased, open, denial: denialOf(round.request, open) };
    },
    isKnownDenied: (round, checks) => denialOf(round.request, placeAll(round, checks).enforced) !== undefined,
  };
}
