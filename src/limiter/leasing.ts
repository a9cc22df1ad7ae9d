// Lets a request use the leases of this isolate, if they were made under the current rules.
import type { CheckResult } from '../core/decision.ts';
import type { RuleCheck } from '../core/matching/plan.ts';
import { createLeaseUpkeep, type Following, type LeaseUpkeepOptions } from './lease-upkeep.ts';
import type { Ledger } from './ledger.ts';
import type { PlacedCheck } from './placed-checks.ts';

interface LeasingRequest extends Following {
  readonly operation: 'take' | 'peek';
  readonly ledger: Ledger;
}

export interface Leasing {
  /** The checks that this isolate has leased units for. */
  find(placed: readonly PlacedCheck[], request: LeasingRequest): readonly PlacedCheck[];
  /** Uses units for all of them; undefined if a lease has ended meanwhile. */
  use(leased: readonly PlacedCheck[], request: LeasingRequest): readonly CheckResult<RuleCheck>[] | undefined;
}

export interface LeasingOptions extends LeaseUpkeepOptions {
  /** See known-denials.ts. */
  readonly announcement: () => string;
}

/** One list for all requests without a lease, so that V8 always sees the same kind of array: see `eachAs`. */
const NONE: readonly PlacedCheck[] = [];

export function createLeasing({ announcement, ...options }: LeasingOptions): Leasing {
  const { book } = options;
  const upkeep = createLeaseUpkeep(options);
  const isLeased = (one: PlacedCheck) => one.check.rule.lease && book.has(one);
  return {
    find(placed, { operation }) {
      book.enter(announcement());
      return operation === 'take' && placed.some(isLeased) ? placed.filter(isLeased) : NONE;
    },
    use(leased, request) {
      book.enter(announcement());
      const used = book.use(leased, request.ledger);
      upkeep.follow(leased, request);
      return used;
    },
  };
}
