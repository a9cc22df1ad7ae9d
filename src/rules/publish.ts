// Publish: Postgres → validated → snapshot in KV. Run by the cron trigger and by the admin route.
import type { KVNamespace } from '@cloudflare/workers-types';
import { asc, eq } from 'drizzle-orm';
import { digest, toHex } from '../core/digest.ts';
import type { Database } from './database.ts';
import { parseRules, type RejectedRow } from './rule-schema.ts';
import { rules as rulesTable } from './schema.ts';
import { readCurrentVersion, writeSnapshot } from './snapshot-kv.ts';

export interface Publication {
  readonly version: string;
  readonly changed: boolean;
  readonly ruleCount: number;
  readonly rejected: readonly RejectedRow[];
}

export async function publishRules(database: Database, kv: KVNamespace): Promise<Publication> {
  const rows = await database
    .select()
    .from(rulesTable)
    .where(eq(rulesTable.enabled, true))
    .orderBy(asc(rulesTable.priority), asc(rulesTable.id));
  const { rules, rejected } = parseRules(rows);
  const version = await versionOf(rules);
  const changed = (await readCurrentVersion(kv)) !== version;
  if (changed) await writeSnapshot(kv, version, rules);
  return { version, changed, ruleCount: rules.length, rejected };
}

/** The same rules have the same version, so the cron run writes nothing when nothing has changed. */
async function versionOf(rules: readonly unknown[]): Promise<string> {
  return toHex((await digest('SHA-256', JSON.stringify(rules))).slice(0, 8));
}
