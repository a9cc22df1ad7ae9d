// Queries of operators about denials and usage: who was denied most, what happened when, who used how much.
import { type SQL, sql } from 'drizzle-orm';
import type { Database } from '../rules/tables/repository.ts';

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

export interface Violator {
  /** Present if the query was about callers of all kinds. */
  readonly scope?: string;
  readonly subject: string;
  readonly count: number;
  readonly lastAt: Date;
  readonly rules: readonly string[];
}

/** The subjects with the most denials come first. */
export async function readViolators(
  database: Database,
  { by, from, to, limit, offset }: PageRange & Period & { readonly by: ViolatorKind },
): Promise<Violator[]> {
  const { rows } = await database.execute<{
    scope?: string;
    subject: string;
    count: string;
    last_at: string;
    rules: string[];
  }>(sql`${violatorsQuery(by, { from, to })} limit ${limit} offset ${offset}`);
  return rows.map(({ scope, subject, count, last_at, rules }) => ({
    ...(scope !== undefined && { scope }),
    subject,
    count: Number(count),
    lastAt: new Date(last_at),
    rules,
  }));
}

/** Postgres reads one range of an index, whatever the size of the table. */
export function violatorsQuery(by: ViolatorKind, { from, to }: Period): SQL {
  const subject = by === 'rule' ? sql`rule_id` : sql`subject`;
  const isOfKind = by === 'rule' ? sql`true` : by === 'all' ? sql`scope <> 'global'` : sql`scope = ${by}`;
  const group = by === 'all' ? sql`scope, subject` : subject;
  return sql`
    select ${by === 'all' ? sql`scope,` : sql``} ${subject} as subject, sum(count)::text as count, max(at) as last_at,
      (array_agg(distinct rule_name))[1:10] as rules
    from weir.events
    where ${isOfKind} and at >= ${from.toISOString()} and at < ${to.toISOString()}
    group by ${group}
    order by sum(count) desc, ${group}`;
}

export interface DenialFilter extends Period {
  /** The id or the name of the rule. */
  readonly rule?: string | undefined;
  readonly scope?: string | undefined;
  readonly subject?: string | undefined;
}

export interface EventFilter extends DenialFilter {
  /** Only rows after this one, in the order of the list. */
  readonly after?: readonly [at: string, scope: string, ruleId: string, subject: string] | undefined;
  readonly limit: number;
}

export interface EventRow {
  readonly at: Date;
  readonly scope: string;
  readonly ruleId: string;
  readonly ruleName: string;
  readonly subject: string;
  readonly count: number;
}

/** Newest first. */
export async function readEvents(database: Database, filter: EventFilter): Promise<EventRow[]> {
  const { after, limit } = filter;
  const { rows } = await database.execute<{
    at: string;
    scope: string;
    rule_id: string;
    rule_name: string;
    subject: string;
    count: string;
  }>(sql`
    select at, scope, rule_id, rule_name, subject, count::text as count from weir.events
    where ${isDenied(filter)}
    ${after ? sql`and (at, scope, rule_id, subject) < (${after[0]}, ${after[1]}, ${after[2]}, ${after[3]})` : sql``}
    order by at desc, scope desc, rule_id desc, subject desc
    limit ${limit}`);
  return rows.map((row) => ({
    at: new Date(row.at),
    scope: row.scope,
    ruleId: row.rule_id,
    ruleName: row.rule_name,
    subject: row.subject,
    count: Number(row.count),
  }));
}

const isDenied = ({ from, to, rule, scope, subject }: DenialFilter): SQL => sql`
  at >= ${from.toISOString()} and at < ${to.toISOString()}
  ${rule === undefined ? sql`` : sql`and (rule_id = ${rule} or rule_name = ${rule})`}
  ${scope === undefined ? sql`` : sql`and scope = ${scope}`}
  ${subject === undefined ? sql`` : sql`and subject = ${subject}`}`;

export const SERIES_STEPS = ['minute', 'hour'] as const;

/** Oldest first; a step without denials has no row. */
export async function readDenialSeries(
  database: Database,
  filter: DenialFilter & { readonly step: (typeof SERIES_STEPS)[number] },
): Promise<{ readonly at: Date; readonly count: number }[]> {
  const { rows } = await database.execute<{ at: string; count: string }>(sql`
    select date_trunc(${filter.step}, at at time zone 'UTC') at time zone 'UTC' as at, sum(count)::text as count
    from weir.events where ${isDenied(filter)} group by 1 order by 1`);
  return rows.map(({ at, count }) => ({ at: new Date(at), count: Number(count) }));
}

export const USAGE_KINDS = ['hour', 'day', 'tenant', 'user', 'apiKey', 'rule'] as const;
export type UsageKind = (typeof USAGE_KINDS)[number];

export interface UsageFilter extends Period, PageRange {
  readonly tenant?: string | undefined;
  readonly user?: string | undefined;
  readonly apiKey?: string | undefined;
  readonly rule?: string | undefined;
  readonly by: UsageKind;
}

export interface UsageRow {
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
export async function readUsage(database: Database, filter: UsageFilter): Promise<UsageRow[]> {
  const { from, to, tenant, user, apiKey, rule, by, limit, offset } = filter;
  const isRule = rule === undefined ? (by === 'rule' ? sql`rule_id <> ''` : sql`rule_id = ''`) : undefined;
  const { rows } = await database.execute<{ name: string; requests: string; cost: string }>(sql`
    select ${USAGE_NAMES[by]} as name, sum(requests)::text as requests, sum(cost)::text as cost from weir.usage
    where at >= ${from.toISOString()} and at < ${to.toISOString()}
      and ${isRule ?? sql`rule_id = ${rule}`}
    ${tenant === undefined ? sql`` : sql`and tenant_id = ${tenant}`}
    ${user === undefined ? sql`` : sql`and user_id = ${user}`}
    ${apiKey === undefined ? sql`` : sql`and api_key_id = ${apiKey}`}
    group by 1 order by 1
    limit ${limit} offset ${offset}`);
  return rows.map(({ name, requests, cost }) => ({ name, requests: Number(requests), cost: Number(cost) }));
}
