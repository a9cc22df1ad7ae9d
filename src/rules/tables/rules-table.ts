// The table of rules and its constraints.
import { sql } from 'drizzle-orm';
import {
  type AnyPgColumn,
  bigint,
  boolean,
  check,
  doublePrecision,
  integer,
  jsonb,
  text,
  uniqueIndex,
  uuid,
} from 'drizzle-orm/pg-core';
import { TIME_ZONE } from '../../authoring/time-zone.ts';
import { ALGORITHM_IDS, idsWith } from '../../core/counting/algorithms/registry.ts';
import { CALENDAR_WINDOWS } from '../../core/counting/calendar.ts';
import { POLICY } from '../../core/matching/compiled-rule.ts';
import { MAX_PARTS, PART } from '../../core/matching/counted-by.ts';
import { PEOPLE_DEFAULTS, RULE_DEFAULTS, type WrittenLimit } from '../../core/matching/flat-rule.ts';
import {
  ACTIONS,
  LARGEST_COST,
  LARGEST_LIMIT,
  LEAST_TIMES,
  LONGEST_CLAIM_NAME,
  LONGEST_WINDOW_SECONDS,
  MAX_BOUND_TIMES,
  MAX_COSTS_OF_A_RULE,
  MAX_HOSTS_OF_A_RULE,
  MAX_LIMITS_OF_A_RULE,
  MAX_RESOURCES_OF_A_RULE,
  MAX_TIMES,
  ON_UNAVAILABLE,
  PER,
  type Per,
  type RouteCost,
  RULE_SCOPES,
  SHORTEST_SEAT_SECONDS,
  type SharesByRegion,
  UNCOUNTED_ACTIONS,
} from '../../core/matching/rule.ts';
import {
  areObjects,
  areParts,
  emptyList,
  isWholeMember,
  kept,
  matches,
  moment,
  oneOf,
  weir,
  within,
} from './columns.ts';

const IS_CALENDAR_WINDOW = CALENDAR_WINDOWS.map((window) => `@.window == "${window}"`).join(' || ');

const IS_LIMIT = [
  '!(exists(@.windowSeconds) && exists(@.window))',
  `(exists(@.window) || ${isWholeMember('windowSeconds', 1, LONGEST_WINDOW_SECONDS)})`,
  `(!exists(@.window) || ${IS_CALENDAR_WINDOW})`,
  '(!exists(@.timeZone) || exists(@.window) && @.timeZone.type() == "string")',
  `(!exists(@.anchorDay) || @.window == "month" && ${isWholeMember('anchorDay', 1, 31)})`,
  '(exists(@.limit) || exists(@.limitName))',
  `(!exists(@.limit) || ${isWholeMember('limit', 1, LARGEST_LIMIT)})`,
  `(!exists(@.burst) || ${isWholeMember('burst', 1, LARGEST_LIMIT)})`,
  `(!exists(@.buckets) || ${isWholeMember('buckets', 1, 100)})`,
  '(!exists(@.limitName) || @.limitName.type() == "string")',
  '(exists(@.limitClaim) && exists(@.limitMax) || !exists(@.limitClaim) && !exists(@.limitMax))',
  `(!exists(@.limitClaim) || @.limitClaim.type() == "string" && exists(@.limit) && ${isWholeMember('limitMax', 1, LARGEST_LIMIT)} && @.limitMax >= @.limit && !exists(@.burst))`,
  `(!exists(@.algorithm) || ${ALGORITHM_IDS.map((id) => `@.algorithm == "${id}"`).join(' || ')})`,
].join(' && ');

const IS_COST = [
  isWholeMember('cost', 1, LARGEST_COST),
  '@.resource.type() == "string" && @.resource starts with "/"',
  '(!exists(@.methods) || @.methods.type() == "array")',
].join(' && ');

/** The pattern of one part, without anchors, for the constraint in Postgres. */
const IS_PART = PART.source.slice(1, -1);
const LABEL = '[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?';
const IS_HOST = `(\\*\\.)?${LABEL}(\\.${LABEL})*`;

/** The same as `isUncounted`, in SQL. */
const IS_UNCOUNTED = (table: { readonly action: AnyPgColumn }) => oneOf(table.action, UNCOUNTED_ACTIONS);

export const rules = weir.table(
  'rules',
  {
    id: uuid().primaryKey().defaultRandom(),
    name: text().notNull().unique().default(sql`'rule-' || left(gen_random_uuid()::text, 8)`),
    policy: text(),
    resource: text(),
    resources: text().array().notNull().default(emptyList),
    methods: text().array().notNull().default(emptyList),
    scope: text({ enum: RULE_SCOPES }).notNull().default(PEOPLE_DEFAULTS.scope),
    tiers: text().array().notNull().default(emptyList),
    tenants: text().array().notNull().default(emptyList),
    per: text({ enum: PER }).array().$type<Per[]>().notNull().default(emptyList),
    by: text().array().notNull().default(emptyList),
    boundTimes: integer().notNull().default(RULE_DEFAULTS.boundTimes),
    hosts: text().array().notNull().default(emptyList),
    routes: text().array().notNull().default(emptyList),
    subjects: text().array().notNull().default(emptyList),
    percent: integer().notNull().default(RULE_DEFAULTS.percent),
    algorithm: text({ enum: ALGORITHM_IDS }).default(PEOPLE_DEFAULTS.algorithm),
    limit: bigint({ mode: 'number' }),
    limitName: text(),
    limitClaim: text(),
    limitMax: bigint({ mode: 'number' }),
    windowSeconds: integer(),
    window: text({ enum: CALENDAR_WINDOWS }),
    timeZone: text(),
    anchorDay: integer(),
    burst: bigint({ mode: 'number' }),
    buckets: integer(),
    limits: jsonb().$type<WrittenLimit[]>().notNull().default(RULE_DEFAULTS.limits),
    cost: integer().notNull().default(RULE_DEFAULTS.cost),
    costs: jsonb().$type<RouteCost[]>().notNull().default(RULE_DEFAULTS.costs),
    costFromOrigin: boolean().notNull().default(RULE_DEFAULTS.costFromOrigin),
    refundOnError: boolean().notNull().default(RULE_DEFAULTS.refundOnError),
    action: text({ enum: ACTIONS }).notNull().default(RULE_DEFAULTS.action),
    times: doublePrecision(),
    replaces: boolean().notNull().default(RULE_DEFAULTS.replaces),
    maxDelayMs: integer(),
    priority: integer().notNull().default(RULE_DEFAULTS.priority),
    enabled: boolean().notNull().default(true),
    countDenied: boolean().notNull().default(RULE_DEFAULTS.countDenied),
    blockSeconds: integer(),
    status: integer().notNull().default(RULE_DEFAULTS.status),
    message: text(),
    onUnavailable: text({ enum: ON_UNAVAILABLE }).notNull().default(RULE_DEFAULTS.onUnavailable),
    alertAt: integer().array().$type<readonly number[]>().notNull().default(emptyList),
    shares: jsonb().$type<SharesByRegion>(),
    spill: boolean().notNull().default(RULE_DEFAULTS.spill),
    central: boolean().notNull().default(RULE_DEFAULTS.central),
    lease: boolean().notNull().default(RULE_DEFAULTS.lease),
    validFrom: moment(),
    validUntil: moment(),
    /** Rules with neighbouring numbers share keys for their counters, so the number never changes. */
    ordinal: integer().notNull().generatedByDefaultAsIdentity(),
    ...kept,
  },
  (table) => [
    check('rules_name_is_short', sql`length(${table.name}) between 1 and 128`),
    check(
      'rules_name_has_no_control_characters',
      sql`not ${matches(table.name, '[\\u0001-\\u001f\\u007f-\\u009f\\u2028\\u2029]')}`,
    ),
    check('rules_policy_is_a_slug', matches(table.policy, POLICY.source)),
    check('rules_resource_is_a_path', sql`${table.resource} like '/%' and length(${table.resource}) <= 1024`),
    check('rules_has_a_resource', sql`(${table.resource} is null) = (${table.resources} <> '{}')`),
    check(
      'rules_resources_are_paths',
      sql`${table.resources} = '{}' or cardinality(${table.resources}) <= ${sql.raw(String(MAX_RESOURCES_OF_A_RULE))} and array_to_string(${table.resources}, chr(10), '?') !~ '(^|\\n)([^/]|$)'`,
    ),
    check(
      'rules_methods_are_upper_case',
      sql`array_to_string(${table.methods}, ',', '?') ~ '^([A-Z]{1,20}(,[A-Z]{1,20})*)?$'`,
    ),
    check('rules_scope_is_known', oneOf(table.scope, RULE_SCOPES)),
    check(
      'rules_per_is_known',
      sql`${table.per} <@ array[${sql.raw(PER.map((one) => `'${one}'`).join(', '))}]`,
    ),
    check(
      'rules_by_are_parts',
      sql`cardinality(${table.by}) <= ${sql.raw(String(MAX_PARTS))} and array_to_string(${table.by}, ',', '?') ~ ${sql.raw(`'^(${IS_PART}(,${IS_PART})*)?$'`)}`,
    ),
    check(
      'rules_by_has_a_bound',
      sql`${table.scope} <> 'global' or array_to_string(${table.by}, ',') !~ '(^|,)(header|param):'`,
    ),
    check('rules_bound_times_is_positive', within(table.boundTimes, 1, MAX_BOUND_TIMES)),
    check('rules_throttle_has_no_parts', sql`${table.action} <> 'throttle' or ${table.by} = '{}'`),
    check(
      'rules_hosts_are_hosts',
      sql`cardinality(${table.hosts}) <= ${sql.raw(String(MAX_HOSTS_OF_A_RULE))} and array_to_string(${table.hosts}, ',', '?') ~ ${sql.raw(`'^(${IS_HOST}(,${IS_HOST})*)?$'`)}`,
    ),
    check('rules_routes_has_no_null', sql`array_position(${table.routes}, null) is null`),
    check('rules_tiers_has_no_null', sql`array_position(${table.tiers}, null) is null`),
    check('rules_tenants_has_no_null', sql`array_position(${table.tenants}, null) is null`),
    check('rules_all_counts_nothing', sql`${table.scope} <> 'all' or ${IS_UNCOUNTED(table)}`),
    check(
      'rules_all_has_no_subjects',
      sql`${table.scope} <> 'all' or ${table.subjects} = '{}' and ${table.percent} = 100`,
    ),
    check(
      'rules_tenants_stand_alone',
      sql`${table.tenants} = '{}' or ${table.scope} <> 'tenant' or ${table.subjects} = '{}'`,
    ),
    check(
      'rules_multiply_has_counters_of_tenants',
      sql`${table.tenants} = '{}' or ${table.action} <> 'multiply' or ${table.scope} not in ('ip', 'global')`,
    ),
    check('rules_subjects_has_no_null', sql`array_position(${table.subjects}, null) is null`),
    check('rules_global_has_no_subjects', sql`${table.scope} <> 'global' or ${table.subjects} = '{}'`),
    check(
      'rules_ip_has_no_patterns',
      sql`${table.scope} <> 'ip' or array_to_string(${table.subjects}, ',') !~ '[*](,|$)'`,
    ),
    check('rules_percent_is_a_part', within(table.percent, 0, 100)),
    check('rules_global_has_no_percent', sql`${table.scope} <> 'global' or ${table.percent} = 100`),
    check(
      'rules_valid_on_dates',
      sql`(${table.validFrom} is null or isfinite(${table.validFrom})) and (${table.validUntil} is null or isfinite(${table.validUntil}))`,
    ),
    check('rules_ends_after_it_begins', sql`${table.validFrom} < ${table.validUntil}`),
    check('rules_algorithm_is_known', oneOf(table.algorithm, ALGORITHM_IDS)),
    check('rules_has_an_algorithm', sql`${IS_UNCOUNTED(table)} or ${table.algorithm} is not null`),
    check(
      'rules_has_a_limit',
      sql`${IS_UNCOUNTED(table)} or ${table.limits} <> '[]' or ${table.limit} is not null or ${table.limitName} is not null`,
    ),
    check(
      'rules_has_a_window',
      sql`${IS_UNCOUNTED(table)} or ${table.limits} <> '[]' or num_nonnulls(${table.windowSeconds}, ${table.window}) = 1`,
    ),
    check('rules_window_is_known', oneOf(table.window, CALENDAR_WINDOWS)),
    check(
      'rules_calendar_has_its_algorithm',
      sql`${table.window} is null or ${oneOf(
        table.algorithm,
        idsWith(({ hasCalendar }) => hasCalendar === true),
      )}`,
    ),
    check(
      'rules_time_zone_is_of_a_calendar',
      sql`${table.timeZone} is null or ${table.window} is not null and ${matches(table.timeZone, TIME_ZONE.source)} and timezone(${table.timeZone}, timestamp '2000-01-01') is not null`,
    ),
    check(
      'rules_anchor_day_is_of_a_month',
      sql`${table.anchorDay} is null or coalesce(${table.window}, '') = 'month' and ${within(table.anchorDay, 1, 31)}`,
    ),
    check(
      'rules_limits_stand_alone',
      sql`${table.limits} = '[]' or num_nonnulls(${table.limit}, ${table.limitName}, ${table.limitClaim}, ${table.limitMax}, ${table.windowSeconds}, ${table.window}, ${table.timeZone}, ${table.anchorDay}, ${table.burst}, ${table.buckets}) = 0`,
    ),
    check('rules_limits_are_limits', areObjects(table.limits, MAX_LIMITS_OF_A_RULE, IS_LIMIT)),
    check(
      'rules_several_limits_have_no_leases',
      sql`${table.limits} = '[]' or ${table.algorithm} <> 'concurrency' and not jsonb_path_exists(${table.limits}, '$[*] ? (@.algorithm == "concurrency")')`,
    ),
    check('rules_costs_are_costs', areObjects(table.costs, MAX_COSTS_OF_A_RULE, IS_COST)),
    check(
      'rules_throttle_has_one_limit_and_cost',
      sql`${table.action} <> 'throttle' or ${table.limits} = '[]' and ${table.costs} = '[]'`,
    ),
    check('rules_limit_is_positive', within(table.limit, 1, LARGEST_LIMIT)),
    check(
      'rules_limit_claim_is_short',
      sql`length(${table.limitClaim}) between 1 and ${sql.raw(String(LONGEST_CLAIM_NAME))}`,
    ),
    check(
      'rules_limit_claim_has_bounds',
      sql`num_nonnulls(${table.limitClaim}, ${table.limitMax}) = 0 or num_nonnulls(${table.limitClaim}, ${table.limitMax}, ${table.limit}) = 3 and ${table.limitMax} >= ${table.limit} and ${table.burst} is null`,
    ),
    check('rules_limit_max_is_positive', within(table.limitMax, 1, LARGEST_LIMIT)),
    check('rules_limit_name_is_short', sql`length(${table.limitName}) between 1 and 64`),
    check('rules_window_is_positive', within(table.windowSeconds, 1, LONGEST_WINDOW_SECONDS)),
    check(
      'rules_burst_has_its_algorithm',
      sql`${table.burst} is null or ${table.burst} between 1 and 1000000000000 and ${oneOf(
        table.algorithm,
        idsWith(({ extra }) => extra === 'burst'),
      )}`,
    ),
    check(
      'rules_buckets_have_their_algorithm',
      sql`${table.buckets} is null or ${table.buckets} between 1 and 100 and ${table.algorithm} = 'sliding-window-buckets'`,
    ),
    check('rules_cost_is_positive', within(table.cost, 1, LARGEST_COST)),
    check('rules_action_is_known', oneOf(table.action, ACTIONS)),
    check('rules_times_are_of_multiply', sql`(${table.times} is null) = (${table.action} <> 'multiply')`),
    check('rules_times_are_positive', within(table.times, LEAST_TIMES, MAX_TIMES)),
    check(
      'rules_multiply_looks_at_callers_alone',
      sql`${table.action} <> 'multiply' or cardinality(${table.methods} || ${table.hosts} || ${table.routes} || ${table.by} || ${table.per}) = 0 and not ${table.replaces}`,
    ),
    check(
      'rules_max_delay_is_of_throttle',
      sql`${table.maxDelayMs} is null or ${table.maxDelayMs} between 1 and 30000 and ${table.action} = 'throttle'`,
    ),
    check(
      'rules_throttle_has_its_algorithm',
      sql`${table.action} <> 'throttle' or ${table.algorithm} = 'leaky-bucket'`,
    ),
    check(
      'rules_leases_have_no_cost_from_origin',
      sql`${table.algorithm} <> 'concurrency' or not (${table.costFromOrigin} or ${table.countDenied})`,
    ),
    check(
      'rules_leases_last',
      sql`${table.algorithm} <> 'concurrency' or ${within(table.windowSeconds, SHORTEST_SEAT_SECONDS, LONGEST_WINDOW_SECONDS)}`,
    ),
    check('rules_block_is_positive', within(table.blockSeconds, 1, LONGEST_WINDOW_SECONDS)),
    check('rules_status_is_an_error', within(table.status, 400, 599)),
    check('rules_message_is_short', sql`length(${table.message}) <= 1024`),
    check('rules_on_unavailable_is_known', oneOf(table.onUnavailable, ON_UNAVAILABLE)),
    check(
      'rules_alert_at_are_percents',
      sql`cardinality(${table.alertAt}) <= 5 and array_position(${table.alertAt}, null) is null and 1 <= all (${table.alertAt}) and 100 >= all (${table.alertAt})`,
    ),
    check('rules_shares_is_an_object', sql`jsonb_typeof(${table.shares}) = 'object'`),
    check('rules_shares_are_parts', areParts(table.shares)),
    check('rules_central_has_no_shares', sql`not ${table.central} or ${table.shares} is null`),
    // The order of the admin list. Filters scan this index, which is fine for thousands of rules.
    uniqueIndex('rules_ordinal').on(table.ordinal),
  ],
);
