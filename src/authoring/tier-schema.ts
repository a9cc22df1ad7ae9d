// The schema of a tier, derived from its table.

import { createInsertSchema } from 'drizzle-zod';
import * as z from 'zod';
import {
  LARGEST_LIMIT,
  MAX_TIMES,
  type Tier,
  type TierLimits,
  type TimesTier,
  type WrittenTierLimits,
} from '../core/matching/rule.ts';
import { tiers } from '../rules/tables/tables.ts';
import { plainText } from './bodies.ts';

export const tierName = z
  .string()
  .regex(/^[a-z0-9][a-z0-9-]{0,62}$/, 'must be lower-case letters, digits and hyphens, at most 63')
  .describe('Unique; never changes.');

/** Of a tier, or of a tenant. */
export const namedLimits = z
  .record(
    z.string().min(1).max(64),
    z.union([
      z.int().min(1).max(LARGEST_LIMIT),
      z.strictObject({ times: z.int().min(1).max(MAX_TIMES), of: z.string().min(1).max(63) }),
      z.null(),
    ]),
  )
  .describe(
    'Limits by name, for the limitName of rules. Null means unlimited; { times, of } is a multiple of that of another tier.',
  );

export const tierFields = createInsertSchema(tiers, {
  displayName: plainText(128),
  priceCents: z.int32().min(0).describe('The price of a month, in cents.'),
  limits: namedLimits,
  isDefault: z
    .boolean()
    .describe(
      'Whether callers without a tier have this one. Setting it makes the former default tier an ordinary one.',
    ),
}).pick({ displayName: true, priceCents: true, limits: true, isDefault: true });

// Works out limits of tiers that are multiples of other tiers' limits, before they are published.

export interface WrittenTier extends Omit<Tier, 'limits'> {
  readonly limits: WrittenTierLimits;
}

interface Resolved {
  readonly limits: TierLimits;
  /** Problems of limits that cannot be worked out. Those limits are left out. */
  readonly problems: readonly string[];
}

export interface ResolvedTier extends Pick<Resolved, 'problems'> {
  readonly tier: Tier;
}

export function resolveTiers(tiers: readonly WrittenTier[]): ResolvedTier[] {
  const byName = new Map(tiers.map((tier) => [tier.name, tier]));
  return tiers.map((tier) => {
    const { limits, problems } = sorted(tier.limits, (name) => limitIn(byName, tier.name, name));
    return { tier: { ...tier, limits }, problems };
  });
}

/** The limits of a tenant. Its multiples are those of tiers. */
export function resolveLimits(written: WrittenTierLimits, tiers: readonly WrittenTier[]): Resolved {
  const byName = new Map(tiers.map((tier) => [tier.name, tier]));
  return sorted(written, (name) => workedOut(byName, written[name] ?? null, name, []));
}

function sorted(written: WrittenTierLimits, resolve: (name: string) => number | null | string): Resolved {
  const found = Object.keys(written).map((name) => [name, resolve(name)] as const);
  return {
    limits: Object.fromEntries(
      found.flatMap(([name, value]) => (typeof value === 'string' ? [] : [[name, value] as const])),
    ),
    problems: found.flatMap(([name, value]) =>
      typeof value === 'string' ? [`limits.${name}: ${value}`] : [],
    ),
  };
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
  return workedOut(tiers, said, limitName, [...seen, tierName]);
}

function workedOut(
  tiers: ReadonlyMap<string, WrittenTier>,
  said: number | null | TimesTier,
  limitName: string,
  seen: readonly string[],
): number | null | string {
  if (said === null || typeof said === 'number') return said;
  const base = limitIn(tiers, said.of, limitName, seen);
  if (base === null || typeof base === 'string') return base;
  const value = base * said.times;
  return value <= LARGEST_LIMIT ? value : `would be ${value}, which is too large`;
}
