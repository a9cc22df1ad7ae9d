// A validated rule. Everything downstream may trust these fields.

import { type AlgorithmId, traitsOf } from '../counting/algorithms/registry.ts';
import type { CalendarWindow } from '../counting/calendar.ts';
import { type Caller, type Claims, claimIn } from './caller.ts';

/** What a rule counts: everybody together, or each tenant, user, API key or IP separately. */
export const SCOPES = ['global', 'tenant', 'user', 'apiKey', 'ip'] as const;
export type Scope = (typeof SCOPES)[number];

/** The scope of a rule that counts nothing and reaches rules of every scope. */
export const EVERY_SCOPE = 'all' as const;
export const RULE_SCOPES = [...SCOPES, EVERY_SCOPE] as const;
export type RuleScope = (typeof RULE_SCOPES)[number];

/**
 * `log` only records what it would have done. `allow` counts nothing: it is an exception from broader rules. `multiply`
 * counts nothing either: it changes the limits of other rules for some callers.
 */
export const ACTIONS = ['reject', 'throttle', 'log', 'allow', 'multiply'] as const;
export type Action = (typeof ACTIONS)[number];

/** What happens to a request while its counters are unreachable. */
export const ON_UNAVAILABLE = ['open', 'closed', 'local'] as const;
export type OnUnavailable = (typeof ON_UNAVAILABLE)[number];

/** What gets counters of its own within a rule. */
export const PER = ['route', 'method'] as const;
export type Per = (typeof PER)[number];

export interface Rule {
  readonly id: string;
  /** For operators. */
  readonly name: string;
  /** The name that clients read. Null: one is made from the resource and the scope. */
  readonly policy: string | null;
  /**
   * One or more, which share the rule's counters: paths (`/login`), templates (`/users/:id`), prefixes (`/api/*`), names
   * that begin alike (`/search*`) or everything (`/*`).
   */
  readonly resources: readonly string[];
  /** None: every method. `GET` includes `HEAD`. */
  readonly methods: readonly string[];
  readonly scope: RuleScope;
  /** Each of its resources, or each method, has its own counter; none: all share one. */
  readonly per: readonly Per[];
  /** Counted by these parts together instead of the scope (counted-by.ts); none: by the scope. */
  readonly by: readonly string[];
  /** With all values that it chooses for `by`, one subject may use this many times the limit. */
  readonly boundTimes: number;
  /** `api.example.com`, `*.example.com`; none: every host. */
  readonly hosts: readonly string[];
  /** Names of routes; none: every route. */
  readonly routes: readonly string[];
  /** None: callers of every tier. */
  readonly tiers: readonly string[];
  /** None: callers of every tenant. `acme-*` names all that begin with `acme-`. */
  readonly tenants: readonly string[];
  /**
   * None: every subject of the scope. An override names the users, tenants, keys or IPs that it applies to; `acme-*`
   * names all that begin with `acme-`.
   */
  readonly subjects: readonly string[];
  /** The percent of its subjects that the rule applies to. A hash decides, so each subject keeps its answer. */
  readonly percent: number;
  /** Limits that apply together. None if the rule allows or multiplies. */
  readonly limits: readonly RuleLimit[];
  readonly cost: number;
  /** The costs of requests to some resources. The most specific resource wins. All other requests cost `cost`. */
  readonly costs: readonly RouteCost[];
  /** The origin sends the real cost of a request in a header, and Weir settles the difference. */
  readonly costFromOrigin: boolean;
  /** The charge is given back only if the request certainly did not reach the origin. */
  readonly refundOnError: boolean;
  readonly action: Action;
  /**
   * For `multiply`: the factor for the limits of rules of its scope, for its resource or a narrower one.
   */
  readonly times: number | null;
  /** Rules of its scope whose resource contains this one's do not apply where this rule does. */
  readonly replaces: boolean;
  /** The longest that `throttle` makes a request wait. */
  readonly maxDelayMs: number | null;
  /** Lower comes first. */
  readonly priority: number;
  readonly countDenied: boolean;
  readonly blockSeconds: number | null;
  /** The status of the answer to a denied request. */
  readonly status: number;
  readonly message: string | null;
  readonly onUnavailable: OnUnavailable;
  /** Percents of the limit. Weir calls a webhook when a subject has used that percent. */
  readonly alertAt: readonly number[];
  /** The shares of regions by name; null: as configured for all rules. */
  readonly shares: SharesByRegion | null;
  /** A region that has used up its part may use what is left of other regions' parts. */
  readonly spill: boolean;
  /** Each subject is counted in one region only, which has the whole limit. */
  readonly central: boolean;
  /** Isolates may charge several units at once and use them from memory. */
  readonly lease: boolean;
  /** The moment when the rule begins to apply; null: it applies from the start. */
  readonly validFromMs: number | null;
  /** The moment when the rule ends; null: it never ends. */
  readonly validUntilMs: number | null;
  /** A number in the order of creation. It decides for good which counters share a key. */
  readonly ordinal: number;
}

/** One limit of a rule. */
export interface RuleLimit {
  readonly algorithm: AlgorithmId;
  /** Null: only tiers that have `limitName` are limited. */
  readonly limit: number | null;
  /** A limit of the caller's tenant or tier with this name takes precedence over `limit`. */
  readonly limitName: string | null;
  /** A limit in this claim of the caller takes precedence over both, up to `limitMax`. */
  readonly limitClaim: string | null;
  readonly limitMax: number | null;
  /** For a calendar window: its approximate length. */
  readonly windowSeconds: number;
  /** A day, week or month of the calendar. Null: windows are aligned to the epoch. */
  readonly window: CalendarWindow | null;
  /** The time zone of the calendar; null: UTC. */
  readonly timeZone: string | null;
  /** The day on which a month begins. Null: the tenant's anchor day, if the rule counts tenants; else the first. */
  readonly anchorDay: number | null;
  readonly burst: number | null;
  readonly buckets: number | null;
}

export interface RouteCost {
  readonly resource: string;
  /** Left out: every method. */
  readonly methods?: readonly string[] | undefined;
  readonly cost: number;
}

/** Weights by the name of a region. A region that is not named has no weight. */
export type SharesByRegion = Readonly<Record<string, number>>;

interface Replaced {
  /** When every region had the announcement of the replacement. Null: some region does not have it yet. */
  readonly replacedAtMs: number | null;
}

/** How a rule was placed before. */
export interface PlacedBefore extends Replaced {
  /** Null: as configured for all rules. */
  readonly shares: SharesByRegion | null;
  /** Whether each subject was counted in one region, for whatever reason. */
  readonly central: boolean;
}

export interface SplitBefore extends Replaced {
  readonly shares: SharesByRegion;
}

/** How limits are split. Earlier splits are kept until no charge that they admitted counts any more. */
export interface Split {
  /** The shares of rules without their own. */
  readonly shares: SharesByRegion;
  readonly before: readonly SplitBefore[];
  /** Earlier placements, by the ids of rules. */
  readonly moved?: Readonly<Record<string, readonly PlacedBefore[]>> | undefined;
}

/** For a rule or a tier. */
export const LARGEST_LIMIT = 1_000_000_000_000;
/** For a tier's limit that is a multiple of another tier's. */
export const MAX_TIMES = 1_000_000;
/** For a rule that multiplies. A smaller factor would be a denial. */
export const LEAST_TIMES = 0.001;
export const LONGEST_CLAIM_NAME = 128;
export const LARGEST_COST = 1_000_000_000;
export const LONGEST_WINDOW_SECONDS = 366 * 86_400;
/** Each limit is a counter that a request reads and writes. */
export const MAX_LIMITS_OF_A_RULE = 5;
export const MAX_COSTS_OF_A_RULE = 100;
export const MAX_RESOURCES_OF_A_RULE = 20;
export const MAX_HOSTS_OF_A_RULE = 20;
export const MAX_BOUND_TIMES = 1_000_000;
/**
 * The shortest window of `concurrency`. Weir renews a seat each third of it, and each renewal is one of the calls that
 * a request may make: 50 on the free plan of Workers, which last for 8 minutes, and 10,000 on a paid one, which last a
 * day.
 */
export const SHORTEST_SEAT_SECONDS = 30;

/** The fields that decide whether a rule is central. */
export type PlacingFields = Pick<
  Rule,
  'central' | 'spill' | 'action' | 'countDenied' | 'blockSeconds' | 'costFromOrigin'
> & { readonly limits: readonly Pick<RuleLimit, 'algorithm'>[] };

/**
 * Whether each subject is counted in one region: the rule says so, or its counters cannot be split. Seats are held
 * where the connection was opened. A queue cannot be split. Denials that count or block have side effects, so every
 * region would have to refuse first. A cost that is settled later may exceed what a part can owe.
 */
export const isCentral = ({ central, spill, ...rule }: PlacingFields): boolean =>
  central ||
  (spill &&
    (rule.limits.some(({ algorithm }) => traitsOf(algorithm).holdsSeats) ||
      rule.action === 'throttle' ||
      rule.countDenied ||
      rule.blockSeconds !== null ||
      rule.costFromOrigin));

/** Whether the rule has no counters, because it only changes other rules. */
export const isUncounted = ({ action }: { readonly action?: Action | undefined }): boolean =>
  UNCOUNTED_ACTIONS.some((one) => one === action);

export const UNCOUNTED_ACTIONS = ['allow', 'multiply'] as const satisfies Action[];

/** Named limits of a tier; null is unlimited. */
export type TierLimits = Readonly<Record<string, number | null>>;

/** A multiple of the limit of the same name in another tier. */
export interface TimesTier {
  readonly times: number;
  readonly of: string;
}

/** Named limits as people write them. */
export type WrittenTierLimits = Readonly<Record<string, number | null | TimesTier>>;

export interface Tier {
  readonly name: string;
  readonly limits: TierLimits;
  /** The tier of callers without a known tier. */
  readonly isDefault: boolean;
}

export const LISTS = ['allow', 'deny'] as const;
export const LISTED_KINDS = ['ip', 'apiKey', 'user', 'tenant'] as const;

/** An entry of the allow or deny list. */
export interface ListEntry {
  readonly list: (typeof LISTS)[number];
  readonly kind: (typeof LISTED_KINDS)[number];
  /** An address or a CIDR range; the id of an API key, user or tenant. */
  readonly value: string;
  readonly expiresAtMs: number | null;
}

// What is known of a caller's limits: a claim, the limits of its tenant, and those of its tier.

/** Limits of tenants by their ids. */
export type TenantLimits = Readonly<Record<string, TierLimits>>;

export interface CallerTier {
  readonly name: string | undefined;
  readonly limits: TierLimits | undefined;
  /** The limits of the caller's tenant. They come before those of the tier. */
  readonly ofTenant?: TierLimits | undefined;
}

/** A caller without a tier, or with an unknown one, has the default tier. */
export function compileTiers(
  tiers: readonly Tier[],
  tenantLimits: TenantLimits = {},
): (caller: Caller) => CallerTier {
  const byName = new Map<string | undefined, CallerTier>(tiers.map((tier) => [tier.name, tier]));
  const byDefault = tiers.find(({ isDefault }) => isDefault) ?? { name: undefined, limits: undefined };
  const byTenant = new Map<string | undefined, TierLimits>(Object.entries(tenantLimits));
  return ({ tier, tenantId }) => {
    const found = byName.get(tier) ?? byDefault;
    const ofTenant = byTenant.get(tenantId);
    return ofTenant ? { name: found.name, limits: found.limits, ofTenant } : found;
  };
}

/** What the caller's claim, tenant or tier says about a limit: null is unlimited, undefined is nothing. */
export function limitOfCaller(
  limit: Pick<RuleLimit, 'limitName' | 'limitClaim' | 'limitMax'>,
  { claims }: Pick<Caller, 'claims'>,
  tier: CallerTier | undefined,
): number | null | undefined {
  const claimed = limit.limitClaim === null ? undefined : claimedLimit(limit, claims);
  if (claimed !== undefined) return claimed;
  const ofTenant = limitOfTier(limit, tier?.ofTenant);
  return ofTenant === undefined ? limitOfTier(limit, tier?.limits) : ofTenant;
}

/** Undefined unless the claim is a whole number of at least 1. A larger number than `limitMax` counts as that. */
export function claimedLimit(
  { limitClaim, limitMax }: Pick<RuleLimit, 'limitClaim' | 'limitMax'>,
  claims: Claims | undefined,
): number | undefined {
  const said = limitClaim === null ? undefined : claimIn(claims, limitClaim);
  const units = said !== undefined && DIGITS.test(said) ? Number(said) : 0;
  return units >= 1 ? Math.min(units, limitMax ?? LARGEST_LIMIT) : undefined;
}

const DIGITS = /^[0-9]+$/;

/** What the tier says about a limit: null is unlimited, undefined is nothing. */
export function limitOfTier(
  { limitName }: { readonly limitName: string | null },
  limits: TierLimits | undefined,
): number | null | undefined {
  return limitName !== null && limits && Object.hasOwn(limits, limitName) ? limits[limitName] : undefined;
}
