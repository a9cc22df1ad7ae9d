// Queries of operators about denials and usage: who was denied most, what happened when, who used how much. The rows
// have the form of the admin route's answers.
import { type SQL, sql } from 'drizzle-orm';
import type { Scope } from '../core/matching/rule.ts';
import type { Database } from '../rules/tables/repository.ts';
import { isoTime } from './tables.ts';

/** `all`: callers of any kind. */
export const VIOLATOR_KINDS = ['user', 'apiKey', 'ip', 'tenant', 'rule', 'all'] as const;
export type ViolatorKind = (typeof VIOLATOR_KINDS)[number];

export interface PageRange {
  readonly limit: number;
  readonly offset: number;
}

export interface Period {
  readonly from: Date;
  readonly to: Date;
}

const isIn = ({ from, to }: Period): SQL => sql`at >= ${from.toISOString()} and at < ${to.toISOString()}`;

/** True if nothing was asked about the column. */
const isEqual = (column: SQL, value: string | undefined): SQL =>
  value === undefined ? sql`true` : sql`${column} = ${value}`;

const read = async <Row extends object>(database: Database, query: SQL): Promise<Row[]> =>
  (await database.execute<Row & Record<string, unknown>>(query)).rows;

export interface Violator {
  /** Present if the query was about callers of all kinds. */
  readonly scope?: string;
  readonly subject: string;
  readonly count: number;
  readonly lastAt: string;
  readonly rules: readonly string[];
}

/** The subjects with the most denials come first. */
export const readViolators = (
  database: Database,
  { by, limit, offset, ...period }: PageRange & Period & { readonly by: ViolatorKind },
): Promise<Violator[]> => read(database, sql`${violatorsQuery(by, period)} limit ${limit} offset ${offset}`);

/** Postgres reads one range of an index, whatever the size of the table. */
export function violatorsQuery(by: ViolatorKind, period: Period): SQL {
  const subject = by === 'rule' ? sql`rule_id` : sql`subject`;
  const isOfKind = by === 'rule' ? sql`true` : by === 'all' ? sql`scope <> 'global'` : sql`scope = ${by}`;
  const group = by === 'all' ? sql`scope, subject` : subject;
  return sql`
    select ${by === 'all' ? sql`scope,` : sql``} ${subject} as subject, sum(count)::float8 as count,
      ${isoTime(sql`max(at)`)} as "lastAt", (array_agg(distinct rule_name))[1:10] as rules
    from weir.events where ${isOfKind} and ${isIn(period)}
    group by ${group}
    order by sum(count) desc, ${group}`;
}

export interface DenialFilter extends Period {
  /** The id or the name of the rule. */
  readonly rule?: string | undefined;
  readonly scope?: string | undefined;
  readonly subject?: string | undefined;
}

const isDenied = ({ rule, scope, subject, ...period }: DenialFilter): SQL => sql`
  ${isIn(period)} and (${isEqual(sql`rule_id`, rule)} or ${isEqual(sql`rule_name`, rule)})
  and ${isEqual(sql`scope`, scope)} and ${isEqual(sql`subject`, subject)}`;

export interface EventFilter extends DenialFilter {
  /** Only rows after this one, in the order of the list. */
  readonly after?: readonly [at: string, scope: string, ruleId: string, subject: string] | undefined;
  readonly limit: number;
}

export interface DenialEvent {
  readonly at: string;
  readonly scope: Scope;
  readonly ruleId: string;
  readonly ruleName: string;
  readonly subject: string;
  readonly count: number;
}

/** Newest first. */
export const readEvents = (
  database: Database,
  { after, limit, ...filter }: EventFilter,
): Promise<DenialEvent[]> =>
  read(
    database,
    sql`
    select ${isoTime(sql`at`)} as at, scope, rule_id as "ruleId", rule_name as "ruleName", subject, count::float8 as count
    from weir.events where ${isDenied(filter)}
    ${after ? sql`and (at, scope, rule_id, subject) < (${after[0]}, ${after[1]}, ${after[2]}, ${after[3]})` : sql``}
    order by events.at desc, scope desc, rule_id desc, subject desc
    limit ${limit}`,
  );

export const SERIES_STEPS = ['minute', 'hour'] as const;

/** Oldest first; a step without denials has no row. */
export const readDenialSeries = (
  database: Database,
  { step, ...filter }: DenialFilter & { readonly step: (typeof SERIES_STEPS)[number] },
): Promise<Pick<DenialEvent, 'at' | 'count'>[]> =>
  read(
    database,
    sql`
    select ${isoTime(sql`date_trunc(${step}, at, 'UTC')`)} as at, sum(count)::float8 as count
    from weir.events where ${isDenied(filter)} group by 1 order by 1`,
  );

export const USAGE_KINDS = ['hour', 'day', 'tenant', 'user', 'apiKey', 'rule'] as const;
export type UsageKind = (typeof USAGE_KINDS)[number];

export interface UsageFilter extends Period, PageRange {
  readonly tenant?: string | undefined;
  readonly user?: string | undefined;
  readonly apiKey?: string | undefined;
  readonly rule?: string | undefined;
  readonly by: UsageKind;
}

export interface NamedUsage {
  readonly name: string;
  readonly requests: number;
  readonly cost: number;
}

const USAGE_NAMES: Readonly<Record<UsageKind, SQL>> = {
  hour: sql`to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:00:00"Z"')`,
  day: sql`to_char(at at time zone 'UTC', 'YYYY-MM-DD')`,
  tenant: sql`tenant_id`,
  user: sql`user_id`,
  apiKey: sql`api_key_id`,
  rule: sql`rule_id`,
};

/** By time, or by name. Without a rule, each request counts once, however many rules applied to it. */
export function readUsage(
  database: Database,
  { tenant, user, apiKey, rule, by, limit, offset, ...period }: UsageFilter,
): Promise<NamedUsage[]> {
  const isEachRule = rule === undefined && by === 'rule';
  return read(
    database,
    sql`
    select ${USAGE_NAMES[by]} as name, sum(requests)::float8 as requests, sum(cost)::float8 as cost from weir.usage
    where ${isIn(period)} and ${isEachRule ? sql`rule_id <> ''` : isEqual(sql`rule_id`, rule ?? '')}
      and ${isEqual(sql`tenant_id`, tenant)} and ${isEqual(sql`user_id`, user)} and ${isEqual(sql`api_key_id`, apiKey)}
    group by 1 order by 1
    limit ${limit} offset ${offset}`,
  );
}
