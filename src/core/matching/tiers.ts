// The tier of a caller, and what it says about the limit of a rule.
import type { Caller } from './caller.ts';
import type { Tier, TierLimits } from './rule.ts';

export interface CallerTier {
  readonly name: string | undefined;
  readonly limits: TierLimits | undefined;
}

/** A caller without a tier, or with an unknown one, has the default tier. */
export function compileTiers(tiers: readonly Tier[]): (caller: Caller) => CallerTier {
  const byName = new Map<string | undefined, CallerTier>(tiers.map((tier) => [tier.name, tier]));
  const byDefault = tiers.find(({ isDefault }) => isDefault) ?? { name: undefined, limits: undefined };
  return ({ tier }) => byName.get(tier) ?? byDefault;
}

/** What the tier says about a limit: null is unlimited, undefined is nothing. */
export function limitOfTier(
  { limitName }: { readonly limitName: string | null },
  limits: TierLimits | undefined,
): number | null | undefined {
  return limitName !== null && limits && Object.hasOwn(limits, limitName) ? limits[limitName] : undefined;
}
