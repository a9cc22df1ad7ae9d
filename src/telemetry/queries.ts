// Queries of operators about denials and usage: who was denied most, what happened when, who used how much. The rows
// have the form of the admin route's answers.
import { type SQL, sql } from 'drizzle-orm';
import type { Scope } from '../core/matching/rule.ts';
import type { DeniedRequest, DenyingCheck } from '../core/telemetry/records.ts';
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

/**
 * Denials, also those that the version before has written: it recorded only the subject. The next version reads
 * `denials` alone.
 */
export const DENIALS: SQL = sql`(
  select at, scope, rule_id, rule_name, subject, tenant_id, user_id, api_key_id, count from weir.denials
  union all
  select at, scope, rule_id, rule_name, subject, ${ifScope('tenant')}, ${ifScope('user')}, ${ifScope('apiKey')}, count
  from weir.events
) as denials`;

function ifScope(scope: Scope): SQL {
  return sql.raw(`case scope when '${scope}' then subject else '' end`);
}

/** A rule or a key by its id or its name, which can belong to several. */
export interface NameOrId {
  readonly name: string;
  /** `name` itself, and the ids of those that have this name. */
  readonly ids: readonly string[];
}

/** Which callers, whatever the rules count. */
export interface CallerFilter {
  readonly tenant?: string | undefined;
  readonly user?: string | undefined;
  readonly apiKey?: NameOrId | undefined;
}

const isCaller = ({ tenant, user, apiKey }: CallerFilter): SQL => sql`
  ${isId(sql`tenant_id`, tenant)} and ${isId(sql`user_id`, user)}
  and ${apiKey ? sql`api_key_id <> '' and api_key_id in ${apiKey.ids}` : sql`true`}`;

/** Names the condition of the index, too: Postgres cannot conclude it from a parameter. */
const isId = (column: SQL, value: string | undefined): SQL =>
  value === undefined ? sql`true` : sql`${column} <> '' and ${column} = ${value}`;

export interface DenialFilter extends Period, CallerFilter {
  readonly rule?: NameOrId | undefined;
  readonly scope?: string | undefined;
  readonly subject?: string | undefined;
}

const isDenied = ({ rule, scope, subject, ...rest }: DenialFilter): SQL => sql`
  ${isIn(rest)} and ${rule ? sql`(rule_id in ${rule.ids} or rule_name = ${rule.name})` : sql`true`}
  and ${isEqual(sql`scope`, scope)} and ${isEqual(sql`subject`, subject)} and ${isCaller(rest)}`;

/** An id that a caller does not have is null. */
interface ShownIds {
  readonly tenantId: string | null;
  readonly userId: string | null;
  readonly apiKeyId: string | null;
}

const SHOWN_IDS = sql`nullif(tenant_id, '') as "tenantId", nullif(user_id, '') as "userId",
  nullif(api_key_id, '') as "apiKeyId"`;

export interface Violator extends Partial<ShownIds> {
  /** This and the ids are present if the query was about callers of all kinds. */
  readonly scope?: string;
  readonly subject: string;
  readonly count: number;
  readonly lastAt: string;
  readonly rules: readonly { readonly id: string; readonly name: string }[];
  /** As whom rules counted the caller. Left out for addresses, and for rules if the query is about all callers. */
  readonly countedAs?: readonly { readonly scope: Scope; readonly subject: string }[];
}

export interface ViolatorFilter extends DenialFilter {
  readonly by: ViolatorKind;
}

/** Those with the most denials come first. */
export const readViolators = (
  database: Database,
  { limit, offset, ...filter }: PageRange & ViolatorFilter,
): Promise<Violator[]> => read(database, sql`${violatorsQuery(filter)} limit ${limit} offset ${offset}`);

/** Who called, by the most exact of its ids. A caller without any is who was counted: an address. */
const CALLER_SCOPE = sql`case when api_key_id <> '' then 'apiKey' when user_id <> '' then 'user'
  when tenant_id <> '' then 'tenant' else scope end`;
const CALLER = sql`case when api_key_id <> '' then api_key_id when user_id <> '' then user_id
  when tenant_id <> '' then tenant_id else subject end`;

/** The rows of each kind, and who they are about. */
const KINDS: Readonly<Record<ViolatorKind, { readonly rows: SQL; readonly subject: SQL }>> = {
  ip: { rows: sql`scope = 'ip'`, subject: sql`subject` },
  user: { rows: sql`user_id <> ''`, subject: sql`user_id` },
  apiKey: { rows: sql`api_key_id <> ''`, subject: sql`api_key_id` },
  tenant: { rows: sql`tenant_id <> ''`, subject: sql`tenant_id` },
  rule: { rows: sql`true`, subject: sql`rule_id` },
  // Nobody knows whom a rule that counts everybody has denied, if the caller has no id.
  all: { rows: sql`${CALLER_SCOPE} <> 'global'`, subject: CALLER },
};

/** Postgres reads one range of an index, whatever the size of the table. */
export function violatorsQuery({ by, ...filter }: ViolatorFilter): SQL {
  const { rows, subject } = KINDS[by];
  const isAll = by === 'all';
  const group = isAll ? sql`1, 2, tenant_id, user_id, api_key_id` : sql`1`;
  const isAboutCallers = by !== 'ip' && (by !== 'rule' || namesCaller(filter));
  const countedAs = sql`${upToTen(sql`'scope', scope, 'subject', subject`)} as "countedAs",`;
  return sql`
    select ${isAll ? sql`${CALLER_SCOPE} as scope,` : sql``} ${subject} as subject,
      ${isAll ? sql`${SHOWN_IDS},` : sql``} ${isAboutCallers ? countedAs : sql``}
      sum(count)::float8 as count, ${isoTime(sql`max(at)`)} as "lastAt",
      ${upToTen(sql`'id', rule_id, 'name', rule_name`)} as rules
    from ${DENIALS} where ${rows} and ${isDenied(filter)}
    group by ${group}
    order by sum(count) desc, ${group}`;
}

const namesCaller = ({ tenant, user, apiKey }: CallerFilter): boolean =>
  (tenant ?? user ?? apiKey) !== undefined;

const upToTen = (fields: SQL): SQL =>
  sql`array_to_json((array_agg(distinct jsonb_build_object(${fields})))[1:10])`;

export interface EventFilter extends DenialFilter {
  /** Only rows after this one, in the order of the list. */
  readonly after?: EventPosition | undefined;
  readonly limit: number;
}

/** The columns of the primary key, as text. */
export type EventPosition = readonly string[];
export const EVENT_POSITION = 7;

export interface DenialEvent extends ShownIds {
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
    select ${isoTime(sql`at`)} as at, scope, rule_id as "ruleId", rule_name as "ruleName", subject, ${SHOWN_IDS},
      count::float8 as count
    from ${DENIALS} where ${isDenied(filter)}
    ${after ? sql`and (at, scope, rule_id, subject, tenant_id, user_id, api_key_id) < ${after}` : sql``}
    order by denials.at desc, scope desc, rule_id desc, subject desc, tenant_id desc, user_id desc, api_key_id desc
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
    from ${DENIALS} where ${isDenied(filter)} group by 1 order by 1`,
  );

// The sample of denied requests in full.

export interface DeniedRequestFilter extends Period, CallerFilter {
  readonly id?: string | undefined;
  readonly rule?: NameOrId | undefined;
  /** Only requests after this one, in the order of the list. */
  readonly after?: readonly [at: string, requestId: string] | undefined;
  readonly limit: number;
}

export interface ShownDeniedRequest extends ShownIds, Pick<DeniedRequest, 'status' | 'code' | 'method'> {
  readonly requestId: string;
  readonly at: string;
  readonly route: string;
  readonly region: string;
  readonly rules: readonly DenyingCheck[];
}

/** Newest first. */
export const readDeniedRequests = (
  database: Database,
  { id, rule, after, limit, ...filter }: DeniedRequestFilter,
): Promise<ShownDeniedRequest[]> =>
  read(
    database,
    sql`
    select request_id as "requestId", ${isoTime(sql`at`)} as at, status, code, method, route, region, ${SHOWN_IDS}, rules
    from weir.denied_requests
    where ${isIn(filter)} and ${isCaller(filter)} and ${isEqual(sql`request_id`, id)} and ${rule ? hasRule(rule) : sql`true`}
    ${after ? sql`and (at, request_id) < ${after}` : sql``}
    order by denied_requests.at desc, request_id desc limit ${limit}`,
  );

const hasRule = ({ ids, name }: NameOrId): SQL => sql`exists (
  select from jsonb_array_elements(rules) as rule where rule ->> 'id' in ${ids} or rule ->> 'name' = ${name})`;

export const USAGE_KINDS = ['hour', 'day', 'tenant', 'user', 'apiKey', 'rule'] as const;
export type UsageKind = (typeof USAGE_KINDS)[number];

export interface UsageFilter extends Period, PageRange, CallerFilter {
  readonly rule?: NameOrId | undefined;
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
  { rule, by, limit, offset, ...filter }: UsageFilter,
): Promise<NamedUsage[]> {
  const isEachRule = rule === undefined && by === 'rule';
  return read(
    database,
    sql`
    select ${USAGE_NAMES[by]} as name, sum(requests)::float8 as requests, sum(cost)::float8 as cost from weir.usage
    where ${isIn(filter)} and ${isEachRule ? sql`rule_id <> ''` : sql`rule_id in ${rule?.ids ?? ['']}`}
      and ${isCaller(filter)}
    group by 1 order by 1
    limit ${limit} offset ${offset}`,
  );
}
