// The records of callers in KV.
import type { CallerRecord } from '../../core/ports/callers.ts';
import { object, optional, type Shape, text, wholeNumber } from '../../core/shape.ts';
import type { Kv } from './kv.ts';

/**
 * This time plus the caching time of isolates and KV is shorter than the time for which the publisher publishes a
 * change (recent-callers.ts).
 */
const RECORD_TTL_SECONDS = 600;

const fields = { tenantId: optional(text), tier: optional(text), expiresAtMs: optional(wholeNumber) };
const apiKeyRecord: Shape<CallerRecord> = object({ ...fields, apiKeyId: text, userId: optional(text) });
const userRecord: Shape<CallerRecord> = object({ ...fields, userId: text });

/** A record in KV. It can also say that Postgres has no row of the caller. */
export interface KeptRecord {
  readonly record: CallerRecord | undefined;
}

const NOBODY = { nobody: true };

/** Undefined if KV has no record; throws if the value is not a record. */
export async function readRecord(
  kv: Kv,
  kind: 'key' | 'user',
  name: string,
): Promise<KeptRecord | undefined> {
  const stored = await kv.get(name);
  if (stored === null) return undefined;
  const kept = JSON.parse(stored) as Partial<typeof NOBODY> | null;
  if (kind === 'user' && kept?.nobody === true) return { record: undefined };
  const problems: string[] = [];
  const record = (kind === 'key' ? apiKeyRecord : userRecord)(kept, 'record', problems);
  if (!record) throw new Error(`KV has no record of a ${kind}: ${problems.join('; ')}`);
  return { record };
}

export async function writeRecord(kv: Kv, name: string, record: CallerRecord | undefined): Promise<void> {
  await kv.put(name, JSON.stringify(record ?? NOBODY), { expirationTtl: RECORD_TTL_SECONDS });
}
