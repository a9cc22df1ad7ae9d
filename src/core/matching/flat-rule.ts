// A rule outside the core: as rows of Postgres, the admin route and stored snapshots have it. There, one resource and
// one limit stand in fields of their own, and several in lists. `toRule` brings both into the one form of the core.

import { type AlgorithmId, idsWith } from '../counting/algorithms/registry.ts';
import { CALENDAR_SECONDS } from '../counting/calendar.ts';
import type { PublishedRule } from './compiled-rule.ts';
import { isUncounted, type Per, type RouteCost, type Rule, type RuleLimit } from './rule.ts';

export interface FlatRule extends Omit<Rule, 'resources' | 'limits'>, FlatLimit {
  /** Null if there are `resources`. */
  readonly resource: string | null;
  readonly resources: readonly string[];
  readonly limits: readonly WrittenLimit[];
  /** The id of the counter of its one limit; of those of its `limits`. Only in snapshots. */
  readonly counterId?: string | undefined;
  readonly counterIds?: readonly string[] | undefined;
}

/** The fields of the one limit, null if they are not set. */
type FlatLimit = { readonly [Field in keyof RuleLimit]: RuleLimit[Field] | null };

/** One of several limits, as people write it. */
export type WrittenLimit = {
  /** A limit without an algorithm has that of the rule; for a window of the calendar, the one that has calendars. */
  readonly [Field in keyof RuleLimit]?: Exclude<RuleLimit[Field], null> | undefined;
};

const LIMIT_DEFAULTS = {
  algorithm: null,
  limit: null,
  limitName: null,
  limitClaim: null,
  limitMax: null,
  windowSeconds: null,
  window: null,
  timeZone: null,
  anchorDay: null,
  burst: null,
  buckets: null,
} as const satisfies FlatLimit;

/** What rows and snapshots leave out. */
export const RULE_DEFAULTS = {
  policy: null,
  resource: null,
  resources: [] as string[],
  methods: [] as string[],
  tiers: [] as string[],
  tenants: [] as string[],
  per: [] as Per[],
  by: [] as string[],
  boundTimes: 10,
  hosts: [] as string[],
  routes: [] as string[],
  subjects: [] as string[],
  percent: 100,
  ...LIMIT_DEFAULTS,
  limits: [] as WrittenLimit[],
  cost: 1,
  costs: [] as RouteCost[],
  costFromOrigin: false,
  refundOnError: false,
  action: 'reject',
  times: null,
  replaces: false,
  maxDelayMs: null,
  priority: 100,
  countDenied: false,
  blockSeconds: null,
  status: 429,
  message: null,
  onUnavailable: 'open',
  alertAt: [] as number[],
  shares: null,
  spill: true,
  central: false,
  lease: true,
  validFromMs: null,
  validUntilMs: null,
} as const satisfies Partial<FlatRule>;

/** Defaults for people alone: a snapshot names every scope, and an algorithm that it leaves out is null. */
export const PEOPLE_DEFAULTS = {
  scope: 'ip',
  algorithm: 'sliding-window-counter',
} as const satisfies Partial<FlatRule>;

/** The default for a limit with a window of the calendar. */
const CALENDAR_ALGORITHM = idsWith(({ hasCalendar }) => hasCalendar === true)[0] ?? null;

/** The default of a rule as people write it. */
export const algorithmByDefault = ({ window }: { readonly window?: unknown }): AlgorithmId | null =>
  window == null ? PEOPLE_DEFAULTS.algorithm : CALENDAR_ALGORITHM;

/** The one form of a valid rule. Each field is written out: V8 makes a dictionary of a rest, which all readers pay for. */
export function toRule(flat: FlatRule): Rule {
  return {
    resources: flat.resources.length > 0 ? flat.resources : [flat.resource ?? ''],
    limits: isUncounted(flat) ? [] : writtenLimits(flat).map(toLimit).filter(isComplete),
    id: flat.id,
    name: flat.name,
    policy: flat.policy,
    methods: flat.methods,
    scope: flat.scope,
    per: flat.per,
    by: flat.by,
    boundTimes: flat.boundTimes,
    hosts: flat.hosts,
    routes: flat.routes,
    tiers: flat.tiers,
    tenants: flat.tenants,
    subjects: countedSpelling(flat),
    percent: flat.percent,
    cost: flat.cost,
    costs: flat.costs,
    costFromOrigin: flat.costFromOrigin,
    refundOnError: flat.refundOnError,
    action: flat.action,
    times: flat.times,
    replaces: flat.replaces,
    maxDelayMs: flat.maxDelayMs,
    priority: flat.priority,
    countDenied: flat.countDenied,
    blockSeconds: flat.blockSeconds,
    status: flat.status,
    message: flat.message,
    onUnavailable: flat.onUnavailable,
    alertAt: flat.alertAt,
    shares: flat.shares,
    spill: flat.spill,
    central: flat.central,
    lease: flat.lease,
    validFromMs: flat.validFromMs,
    validUntilMs: flat.validUntilMs,
    ordinal: flat.ordinal,
  };
}

/** Postgres writes the id of a key in lower case, and people may write it in upper case. Such a rule would find nobody. */
const countedSpelling = ({ scope, subjects }: FlatRule): readonly string[] =>
  scope === 'apiKey' ? subjects.map((subject) => subject.toLowerCase()) : subjects;

/** The algorithm of one of several limits. */
export const algorithmOf = (
  { algorithm, window }: WrittenFlat,
  rule: { readonly algorithm?: AlgorithmId | null | undefined },
): AlgorithmId | null => algorithm ?? (window == null ? (rule.algorithm ?? null) : CALENDAR_ALGORITHM);

type WrittenFlat = { readonly [Field in keyof FlatLimit]?: FlatLimit[Field] | undefined };

const writtenLimits = (flat: FlatRule): readonly WrittenFlat[] =>
  flat.limits.length === 0
    ? [flat]
    : flat.limits.map((one) => ({ ...one, algorithm: algorithmOf(one, flat) }));

const toLimit = (written: WrittenFlat): FlatLimit => {
  const { algorithm = null, limit = null, limitName = null, windowSeconds = null, window = null } = written;
  const { limitClaim = null, limitMax = null } = written;
  const { timeZone = null, anchorDay = null, burst = null, buckets = null } = written;
  return {
    ...{ algorithm, limit, limitName, limitClaim, limitMax, window, timeZone, anchorDay, burst, buckets },
    windowSeconds: window === null ? windowSeconds : CALENDAR_SECONDS[window],
  };
};

const isComplete = (limit: FlatLimit): limit is RuleLimit =>
  limit.algorithm !== null && limit.windowSeconds !== null;

/** A rule of a stored snapshot, which leaves out defaults. */
export function parseFlatRule(stored: Partial<FlatRule>): PublishedRule {
  const flat = { ...RULE_DEFAULTS, ...stored } as FlatRule;
  const rule = toRule(flat);
  const { counterId = '', counterIds = [counterId] } = flat;
  return Object.assign(rule, {
    limits: rule.limits.map((limit, i) => ({ ...limit, counterId: counterIds[i] ?? '' })),
  });
}

/**
 * A rule for a stored snapshot. One resource and one limit stand in fields of their own, as the previous version reads
 * them, too.
 */
export const formatFlatRule = ({ resources, limits, ...rule }: PublishedRule): string =>
  formatFlat({
    ...rule,
    resource: resources[0] ?? '',
    resources: resources.length > 1 ? resources : [],
    ...(limits.length === 1
      ? limits[0]
      : {
          limits: limits.map(({ counterId, ...limit }) => withoutDefaults(limit, LIMIT_DEFAULTS)),
          counterIds: limits.map(({ counterId }) => counterId),
        }),
  });

export const formatFlat = (flat: Partial<FlatRule>): string =>
  JSON.stringify(withoutDefaults(flat, RULE_DEFAULTS));

function withoutDefaults(values: object, defaults: Readonly<Record<string, unknown>>): object {
  return Object.fromEntries(
    Object.entries(values).filter(([field, value]) => !isSame(value, defaults[field])),
  );
}

const isSame = (value: unknown, byDefault: unknown) =>
  value === byDefault || (Array.isArray(value) && Array.isArray(byDefault) && value.length === 0);
