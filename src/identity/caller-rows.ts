// Reads callers from Postgres.
import { and, eq, sql } from 'drizzle-orm';
import type { CallerRecord } from '../core/ports/callers.ts';
import type { Database } from '../rules/tables/repository.ts';
import { apiKeys, tenants, users } from '../rules/tables/tables.ts';

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
