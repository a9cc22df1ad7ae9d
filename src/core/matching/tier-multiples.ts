// Works out limits of tiers that are multiples of other tiers' limits, before they are published.
import { LARGEST_LIMIT, type Tier, type WrittenTierLimits } from './rule.ts';

export interface WrittenTier extends Omit<Tier, 'limits'> {
  readonly limits: WrittenTierLimits;
}

export interface ResolvedTier {
  readonly tier: Tier;
  /** Problems of limits that cannot be worked out. Those limits are left out. */
  readonly problems: readonly string[];
}

export function resolveTiers(tiers: readonly WrittenTier[]): ResolvedTier[] {
  const byName = new Map(tiers.map((tier) => [tier.name, tier]));
  return tiers.map((tier) => {
    const found = Object.keys(tier.limits).map((name) => [name, limitIn(byName, tier.name, name)] as const);
    const limits = found.flatMap(([name, value]) =>
      typeof value === 'string' ? [] : [[name, value] as const],
    );
    return {
      tier: { ...tier, limits: Object.fromEntries(limits) },
      problems: found.flatMap(([name, value]) =>
        typeof value === 'string' ? [`limits.${name}: ${value}`] : [],
      ),
    };
  });
}

/** If there is no limit, returns the reason as a text. */
function limitIn(
  tiers: ReadonlyMap<string, WrittenTier>,
  tierName: string,
  limitName: string,
  seen: readonly string[] = [],
): number | null | string {
  if (seen.includes(tierName)) return `goes in a circle: ${[...seen, tierName].join(', ')}`;
  const limits = tiers.get(tierName)?.limits;
  if (!limits) return `there is no tier ${tierName}`;
  const said = Object.hasOwn(limits, limitName) ? limits[limitName] : undefined;
  if (said === undefined) return `tier ${tierName} has no limit of this name`;
  if (said === null || typeof said === 'number') return said;
  const base = limitIn(tiers, said.of, limitName, [...seen, tierName]);
  if (base === null || typeof base === 'string') return base;
  const value = base * said.times;
  return value <= LARGEST_LIMIT ? value : `would be ${value}, which is too large`;
}
