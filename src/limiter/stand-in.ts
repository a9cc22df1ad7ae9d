// While the owner of a counter does not answer, another region stands in for it. It counts in a counter of another id,
// with the whole limit. Which region that is depends on the owner, not on the caller, so all isolates that cannot reach
// the owner agree on it, and at most the limit passes once more. When the owner answers again, no isolate asks the
// stand-in any more. Its counter expires by itself. docs/regions.md explains the rest.
import { standInAt } from '../core/matching/plan.ts';
import type { Cessions } from './cessions.ts';
import { isUnanswered, type Pending, type Turn } from './pending-check.ts';
import type { LimiterRegion, Regions } from './region.ts';

export interface StandInOptions {
  readonly cessions: Pick<Cessions, 'ownerOf'>;
  /** Whether the breaker lets requests call the region. */
  readonly isClosed: (region: LimiterRegion) => boolean;
}

/**
 * The next region that may stand in for the owner of a check that no region may count by itself; undefined if there is
 * none, if no region has failed, or if a region has denied the check: a region without an answer does not overrule it.
 */
export function standInOf(
  one: Pending,
  regions: Regions,
  { cessions, isClosed }: StandInOptions,
): Turn | undefined {
  if (regions.length === 1) return undefined;
  const { placed, verdicts } = one;
  const name = cessions.ownerOf(placed);
  const owner = regions.find((region) => region.name === name);
  const answers = [...verdicts.values()];
  const hasFailed = !owner || answers.some(isUnanswered) || regions.some((region) => !isClosed(region));
  if (!hasFailed || answers.some(({ outcome }) => outcome)) return undefined;
  // A region that was removed has no neighbours. The order of names is the same for all isolates, too.
  const order = owner?.neighbours ?? regions.map((region) => region.name).sort();
  for (const next of order) {
    const region = regions.find((candidate) => candidate.name === next);
    if (region && isClosed(region) && !verdicts.has(next))
      return { region, check: standInAt(next, placed.check), ones: [one] };
  }
  return undefined;
}
