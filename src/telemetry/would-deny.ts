// Estimates whom another limit of a rule would have denied, from the records of admitted and denied requests by hour.
// The records do not say when in an hour a request came, so the answers are bounds.
import { type SQL, sql } from 'drizzle-orm';
import type { Scope } from '../core/matching/rule.ts';
import { OTHER } from '../core/telemetry/metrics.ts';
import type { Database } from '../rules/tables/repository.ts';
import { DENIALS, type Period } from './queries.ts';

export interface WouldDenyQuestion extends Period {
  readonly ruleId: string;
  readonly scope: Scope;
  /** Bounds for the cost of a denied request, because the records do not contain it. */
  readonly leastCost: number;
  readonly mostCost: number;
  /** Units: the most that the limit admits of one caller in an hour of the clock, and in the whole period. */
  readonly mostAnHour: number;
  readonly mostInAll: number;
  /** The limit never denies a caller whose units stay within the capacity in every span of this length. */
  readonly capacity: number;
  readonly withinMs: number;
  /** The most callers that the answer names. */
  readonly limit: number;
}

export interface CallerEffect {
  readonly scope: string;
  readonly subject: string;
  /** Units. */
  readonly admitted: number;
  /** Requests. */
  readonly denied: number;
  /** Units that cannot have passed. */
  readonly atLeast: number;
}

export interface Effect {
  /** Units, and requests, of all callers. */
  readonly admitted: number;
  readonly denied: number;
  /** The part of these that is recorded without the name of a caller. */
  readonly unnamedAdmitted: number;
  readonly unnamedDenied: number;
  readonly atLeast: number;
  readonly surelyDenied: number;
  /** Callers for whom the records leave it open. */
  readonly perhapsDenied: number;
  readonly surelyNotDenied: number;
  /** The callers with the most denied units come first. */
  readonly callers: readonly CallerEffect[];
}

export async function readWouldDeny(database: Database, question: WouldDenyQuestion): Promise<Effect> {
  const { rows } = await database.execute<Effect & Record<string, unknown>>(wouldDenyQuery(question));
  const [effect] = rows;
  if (!effect) throw new Error('expected one row: the query only sums up');
  return effect;
}

/** The column with the subject of each scope. Usage has no addresses: all of them are one row without a name. */
const USED_BY: Readonly<Record<Scope, SQL>> = {
  global: sql`'all'`,
  tenant: sql`tenant_id`,
  user: sql`user_id`,
  apiKey: sql`api_key_id`,
  ip: sql`''`,
};

/** Postgres reads one range of an index in each of the two tables. */
export function wouldDenyQuery(question: WouldDenyQuestion): SQL {
  const { ruleId, scope, from, to, leastCost, mostCost, limit } = question;
  const isAsked = sql`rule_id = ${ruleId} and at >= ${from.toISOString()} and at < ${to.toISOString()}`;
  return sql`
    with hours as (
      select hour, scope, subject, sum(units) as units, sum(denied) as denied
      from (
        select at as hour, ${scope}::text as scope, ${USED_BY[scope]} as subject, cost as units, 0 as denied
        from weir.usage where ${isAsked}
        union all
        select date_trunc('hour', at at time zone 'UTC') at time zone 'UTC', scope, subject, 0, count
        from ${DENIALS} where ${isAsked}
      ) as records
      group by 1, 2, 3
    ), summed as (
      select *, subject in ('', ${OTHER}) as is_unnamed,
        greatest(0, units + denied * ${leastCost}::bigint - ${question.mostAnHour}::bigint) as beyond,
        sum(units + denied * ${mostCost}::bigint) over (
          partition by scope, subject order by hour
          range between ${hoursOf(question.withinMs)} preceding and current row
        ) as together
      from hours
    ), callers as (
      select scope, subject, is_unnamed, sum(units) as units, sum(denied) as denied,
        greatest(sum(beyond), sum(units + denied * ${leastCost}::bigint) - ${question.mostInAll}::bigint) as at_least,
        -- What an address was admitted is not recorded, so nothing speaks against its denial.
        scope = 'ip' or max(together) > ${question.capacity}::bigint as is_possible
      from summed group by 1, 2, 3
    ), named as (
      select * from callers where not is_unnamed
    )
    select ${unitsOf(sql`sum(units)`, sql`callers`)} as admitted, ${unitsOf(sql`sum(denied)`, sql`callers`)} as denied,
      ${unitsOf(sql`sum(units)`, sql`callers where is_unnamed`)} as "unnamedAdmitted",
      ${unitsOf(sql`sum(denied)`, sql`callers where is_unnamed`)} as "unnamedDenied",
      ${unitsOf(sql`sum(at_least)`, sql`named`)} as "atLeast",
      ${unitsOf(sql`count(*)`, sql`named where at_least > 0`)} as "surelyDenied",
      ${unitsOf(sql`count(*)`, sql`named where at_least <= 0 and is_possible`)} as "perhapsDenied",
      ${unitsOf(sql`count(*)`, sql`named where not is_possible`)} as "surelyNotDenied",
      coalesce((select json_agg(json_build_object('scope', scope, 'subject', subject, 'admitted', greatest(0, units),
          'denied', denied, 'atLeast', at_least) order by at_least desc, scope, subject)
        from (select * from named where at_least > 0 order by at_least desc, scope, subject limit ${limit}) as most
      ), '[]') as callers`;
}

/** A sum can be below 0, because a refund may come in the hour after its charge. */
const unitsOf = (sum: SQL, rows: SQL): SQL =>
  sql`(select coalesce(greatest(0, ${sum}), 0)::float8 from ${rows})`;

/** Sums are by hour, so a span that begins within an hour includes the whole hour. */
const hoursOf = (ms: number) => sql`make_interval(hours => ${Math.ceil(ms / 3_600_000)}::int)`;
