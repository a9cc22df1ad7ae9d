// How limits are split that say nothing else, as it was configured last, and how it was before.
import { sql } from 'drizzle-orm';
import type { SharesByRegion } from '../core/rule.ts';
import type { Database } from './database.ts';
import { regionalSplit } from './schema.ts';

/**
 * Only shares that are others than those of the last publication are written: then the old ones are added to what was
 * before. While a deployment goes on, isolates with old and new shares may take turns: each turn is recorded.
 */
export function writeSplit(database: Database, configured: SharesByRegion) {
  const shares = sql`${JSON.stringify(configured)}::jsonb`;
  const replaced = sql`jsonb_build_object('shares', ${regionalSplit}.shares)`;
  const longestHoldMs = sql`(select coalesce(max(weir_hold_ms(rules)), 180000) from rules)`;
  return database.execute(sql`
    insert into ${regionalSplit} (id, shares) select 1, ${shares} where ${shares} <> '{}'
    on conflict (id) do update set
      shares = excluded.shares,
      before = weir_add_replaced(${regionalSplit}.before, ${replaced}, ${longestHoldMs}),
      updated_at = now()
    where ${regionalSplit}.shares <> excluded.shares`);
}
