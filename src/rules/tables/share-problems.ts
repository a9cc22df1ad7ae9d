// Problems of a rule's shares: fields that do not go together, and regions that do not exist.
import { traitsOf } from '../../core/counting/algorithms/registry.ts';
import type { SharesByRegion } from '../../core/matching/rule.ts';
import type { RuleFields } from './rule-schema.ts';

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
