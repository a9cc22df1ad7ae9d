// What is known of callers, as Postgres has it and as KV keeps it.
import { and, eq, sql } from 'drizzle-orm';
import * as z from 'zod';
import type { CallerRecord } from '../core/caller.ts';
import type { Database } from './database.ts';
import type { Kv } from './kv.ts';
import { apiKeys, tenants, users } from './schema.ts';

/** With the minutes in memory and in KV's own caches, less than a change is told of (caller-revisions.ts). */
const RECORD_TTL_SECONDS = 600;

const fields = {
  tenantId: z.string().optional(),
  tier: z.string().optional(),
  expiresAtMs: z.int().optional(),
};
const apiKeyRecord = z.object({
  ...fields,
  apiKeyId: z.string(),
  userId: z.string().optional(),
}) satisfies z.ZodType<CallerRecord>;
const userRecord = z.object({ ...fields, userId: z.string() }) satisfies z.ZodType<CallerRecord>;

/** Undefined if there is no such key, or if it is disabled. */
export async function findApiKey(database: Database, hash: string): Promise<CallerRecord | undefined> {
  const tenantId = sql<string | null>`coalesce(${apiKeys.tenantId}, ${users.tenantId})`;
  const [row] = await database
    .select({
      apiKeyId: apiKeys.id,
      userId: apiKeys.userId,
      tenantId,
      tier: sql<string | null>`coalesce(${apiKeys.tier}, ${users.tier}, ${tenants.tier})`,
      expiresAt: apiKeys.expiresAt,
    })
    .from(apiKeys)
    .leftJoin(users, eq(users.id, apiKeys.userId))
    .leftJoin(tenants, eq(tenants.id, tenantId))
    .where(and(eq(apiKeys.hash, hash), eq(apiKeys.disabled, false)));
  if (row === undefined) return undefined;
  return {
    apiKeyId: row.apiKeyId,
    userId: row.userId ?? undefined,
    tenantId: row.tenantId ?? undefined,
    tier: row.tier ?? undefined,
    expiresAtMs: row.expiresAt?.getTime(),
  };
}

export async function findUser(database: Database, userId: string): Promise<CallerRecord | undefined> {
  const [row] = await database
    .select({
      tenantId: users.tenantId,
      tier: sql<string | null>`coalesce(${users.tier}, ${tenants.tier})`,
    })
    .from(users)
    .leftJoin(tenants, eq(tenants.id, users.tenantId))
    .where(eq(users.id, userId));
  if (row === undefined) return undefined;
  return { userId, tenantId: row.tenantId ?? undefined, tier: row.tier ?? undefined };
}

/** What KV keeps of somebody: also that Postgres has no row of him. */
export interface KeptRecord {
  readonly record: CallerRecord | undefined;
}

const NOBODY = { nobody: true } as const;
const nobody = z.object({ nobody: z.literal(true) }).transform(() => undefined);
const keptUser = z.union([nobody, userRecord]);

/** Undefined if KV has none; throws if what it has is no such record. */
export async function readRecord(
  kv: Kv,
  kind: 'key' | 'user',
  name: string,
): Promise<KeptRecord | undefined> {
  const stored = await kv.get(name);
  if (stored === null) return undefined;
  return { record: (kind === 'key' ? apiKeyRecord : keptUser).parse(JSON.parse(stored)) };
}

export async function writeRecord(kv: Kv, name: string, record: CallerRecord | undefined): Promise<void> {
  await kv.put(name, JSON.stringify(record ?? NOBODY), { expirationTtl: RECORD_TTL_SECONDS });
}
