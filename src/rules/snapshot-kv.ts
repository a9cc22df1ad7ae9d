// Snapshots in Workers KV: each under a key that holds its version (so it is never read stale), and one
// small key that names the current version.
import type { KVNamespace } from '@cloudflare/workers-types';
import * as z from 'zod';
import { compileSnapshot, type Snapshot } from '../core/snapshot.ts';
import { parseRules, type ruleSchema } from './rule-schema.ts';

const CURRENT = 'rules:current';
const snapshotKey = (version: string) => `rules:snapshot:${version}`;

const storedSnapshot = z.object({ version: z.string(), rules: z.array(z.unknown()) });

export async function readCurrentVersion(kv: KVNamespace): Promise<string | null> {
  return kv.get(CURRENT);
}

/** The compiled snapshot of a version; undefined while KV does not have it. */
export async function readSnapshot(kv: KVNamespace, version: string): Promise<Snapshot | undefined> {
  const stored = storedSnapshot.safeParse(await kv.get(snapshotKey(version), 'json'));
  if (!stored.success) return undefined;
  return compileSnapshot(stored.data.version, parseRules(stored.data.rules).rules);
}

export async function writeSnapshot(kv: KVNamespace, version: string, rules: z.infer<typeof ruleSchema>[]) {
  await kv.put(snapshotKey(version), JSON.stringify({ version, rules }));
  await kv.put(CURRENT, version);
}
