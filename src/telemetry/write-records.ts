// Writes a batch of denials and usage to Postgres with one statement. A batch that comes again finds its id and adds
// nothing.
import { sql } from 'drizzle-orm';
import type { Database } from '../rules/tables/database.ts';
import type { RecordBatch } from './record-batch.ts';

export interface Written {
  /** False: the batch came before, and nothing was added. */
  readonly isNew: boolean;
  /** The number of thresholds that no earlier batch had. */
  readonly newAlerts: number;
}

export async function writeRecords(database: Database, batch: RecordBatch): Promise<Written> {
  // All rows of a kind are one parameter. The statement writes them in the order of the key, so that two writers never
  // wait for each other in a circle.
  const { rows } = await database.execute<{ fresh: number; noted: number }>(sql`
    with fresh as (
      insert into weir.record_batches (id) values (${batch.id}) on conflict do nothing returning id
    ), denied as (
      insert into weir.events (at, scope, rule_id, rule_name, subject, count)
      select to_timestamp("atMs" / 1000.0), scope, "ruleId", max("ruleName"), subject, sum(count)
      from fresh, jsonb_to_recordset(${JSON.stringify(batch.denials)}::jsonb)
        as denial ("atMs" bigint, scope text, "ruleId" text, "ruleName" text, subject text, count bigint)
      group by "atMs", scope, "ruleId", subject
      order by "atMs", scope, "ruleId", subject
      on conflict (at, scope, rule_id, subject)
      do update set count = events.count + excluded.count, rule_name = excluded.rule_name
    ), used as (
      insert into weir.usage (at, tenant_id, user_id, api_key_id, rule_id, requests, cost)
      select to_timestamp("atMs" / 1000.0), "tenantId", "userId", "apiKeyId", "ruleId", sum(requests), sum(cost)
      from fresh, jsonb_to_recordset(${JSON.stringify(batch.usage)}::jsonb)
        as used ("atMs" bigint, "tenantId" text, "userId" text, "apiKeyId" text, "ruleId" text,
                 requests bigint, cost bigint)
      group by "atMs", "tenantId", "userId", "apiKeyId", "ruleId"
      order by "atMs", "tenantId", "userId", "apiKeyId", "ruleId"
      on conflict (at, tenant_id, user_id, api_key_id, rule_id)
      do update set requests = usage.requests + excluded.requests, cost = usage.cost + excluded.cost
    ), crossed as (
      insert into weir.alerts (rule_id, window_seconds, window_start, scope, subject, percent, rule_name, "limit", used, at)
      select "ruleId", "windowSeconds", to_timestamp("windowStartMs" / 1000.0), scope, subject, percent, "ruleName",
        "limit", used, to_timestamp("atMs" / 1000.0)
      from fresh, jsonb_to_recordset(${JSON.stringify(batch.crossings ?? [])}::jsonb)
        as crossing ("ruleId" text, "windowSeconds" int, "windowStartMs" bigint, scope text, subject text, percent int,
                     "ruleName" text, "limit" bigint, used bigint, "atMs" bigint)
      order by "ruleId", "windowSeconds", "windowStartMs", scope, subject, percent
      on conflict do nothing returning 1
    )
    select (select count(*) from fresh)::int as fresh, (select count(*) from crossed)::int as noted`);
  return { isNew: rows[0]?.fresh === 1, newAlerts: rows[0]?.noted ?? 0 };
}
