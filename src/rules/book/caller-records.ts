// The records of callers in KV.
import { ABSENT, type Answer, type CallerRecord } from '../../core/ports/callers.ts';
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

const NOBODY = { nobody: true };

/** A record can also say that Postgres has no row. Undefined if KV has no record; throws if the value is not one. */
export async function readRecord(
  kv: Kv,
  kind: 'key' | 'user',
  name: string,
): Promise<Answer<CallerRecord> | undefined> {
  const stored = await kv.get(name);
  if (stored === null) return undefined;
  const kept = JSON.parse(stored) as Partial<typeof NOBODY> | null;
  if (kind === 'user' && kept?.nobody === true) return ABSENT;
  const problems: string[] = [];
  const record = (kind === 'key' ? apiKeyRecord : userRecord)(kept, 'record', problems);
  if (!record) throw new Error(`KV has no record of a ${kind}: ${problems.join('; ')}`);
  return { kind: 'found', record };
}

export async function writeRecord(kv: Kv, name: string, record: CallerRecord | undefined): Promise<void> {
  await kv.put(name, JSON.stringify(record ?? NOBODY), { expirationTtl: RECORD_TTL_SECONDS });
}
