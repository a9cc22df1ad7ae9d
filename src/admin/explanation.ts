// What the answers to `explain` and `limits` have in common: the caller, and what is left of its limits. Looking charges
// nothing.

import { eq } from 'drizzle-orm';
import * as z from 'zod';
import { CALENDAR_WINDOWS } from '../core/counting/calendar.ts';
import { capacityOf, drainMs, hasBurst } from '../core/counting/capacity.ts';
import type { Outcome } from '../core/counting/check.ts';
import { type Caller, UNKNOWN_CALLER } from '../core/matching/caller.ts';
import { countedIp } from '../core/matching/ip.ts';
import type { RuleCheck } from '../core/matching/plan.ts';
import { ACTIONS } from '../core/matching/rule.ts';
import { hashApiKey } from '../identity/api-key.ts';
import { findApiKey, findUser } from '../identity/caller-rows.ts';
import type { Database } from '../rules/tables/repository.ts';
import { apiKeys, tenants } from '../rules/tables/tables.ts';
import type { AdminServices } from './app.ts';
import { isUuid } from './collection/declaration.ts';

// The caller.

export const shownCaller = z.strictObject({
  ip: z.string().nullable().describe('In the form in which it is counted. Null if not known.'),
  userId: z.string().nullable(),
  apiKeyId: z.string().nullable(),
  tenantId: z.string().nullable(),
  tier: z.string().nullable(),
});

export const toShownCaller = (caller: Caller, tier: string | undefined): z.infer<typeof shownCaller> => ({
  ip: caller.ip === UNKNOWN_CALLER.ip ? null : caller.ip,
  userId: caller.userId ?? null,
  apiKeyId: caller.apiKeyId ?? null,
  tenantId: caller.tenantId ?? null,
  tier: tier ?? null,
});

/** An address, or a prefix of IPv6 addresses as rules count it. Any address of the prefix stands for all. */
export const ipOrPrefix = (text: string, ipv6Prefix: number) =>
  countedIp(text, ipv6Prefix) ??
  (text.includes('/') ? countedIp(text.slice(0, text.indexOf('/')), ipv6Prefix) : undefined);

type CallerIds = Pick<Caller, 'userId' | 'apiKeyId' | 'tenantId' | 'tier'>;

export interface DescribedCaller extends CallerIds {
  /** The key itself: nothing keeps, logs or shows it. */
  readonly apiKey?: string | undefined;
}

/** Looks up missing facts as for a real request. An invalid key identifies nobody. */
export async function completeCaller(
  database: Database,
  described: DescribedCaller,
  nowMs: number,
): Promise<CallerIds> {
  const { userId } = described;
  const hash = await hashOf(database, described);
  const key = hash === undefined ? undefined : await findKey(database, hash, nowMs);
  const known = key ?? (userId === undefined ? undefined : await findUser(database, userId));
  const tenantId = described.tenantId ?? known?.tenantId;
  return {
    userId: userId ?? known?.userId,
    apiKeyId: key?.apiKeyId,
    tenantId,
    tier: described.tier ?? known?.tier ?? (await tierOfTenant(database, tenantId)),
  };
}

/** The id of a key by its id or name. `refuse` makes the error: there is no such key, or there are several. */
export async function findKeyId(
  database: Database,
  given: string,
  refuse: (detail: string) => Error,
): Promise<string> {
  if (isUuid(given)) return given;
  const { id } = apiKeys;
  const found = await database.select({ id }).from(apiKeys).where(eq(apiKeys.name, given)).limit(10);
  const [only] = found;
  if (!only) throw refuse('must be the id or the name of a key, not the key');
  if (found.length === 1) return only.id;
  throw refuse(
    `must be an id, because several keys have this name: ${found.map((key) => key.id).join(', ')}`,
  );
}

async function tierOfTenant(database: Database, id: string | undefined): Promise<string | undefined> {
  if (id === undefined) return undefined;
  const [row] = await database.select({ tier: tenants.tier }).from(tenants).where(eq(tenants.id, id));
  return row?.tier ?? undefined;
}

async function hashOf(database: Database, { apiKey, apiKeyId }: DescribedCaller) {
  if (apiKey !== undefined) return hashApiKey(apiKey);
  if (apiKeyId === undefined) return undefined;
  const [row] = await database.select({ hash: apiKeys.hash }).from(apiKeys).where(eq(apiKeys.id, apiKeyId));
  return row?.hash;
}

async function findKey(database: Database, hash: string, nowMs: number) {
  const record = await findApiKey(database, hash);
  return record?.expiresAtMs !== undefined && record.expiresAtMs <= nowMs ? undefined : record;
}

// A limit, and what is left of it.

export const shownLimit = {
  name: z.string().describe('The name of the rule.'),
  policy: z.string().describe('The name by which clients know this limit.'),
  action: z.enum(ACTIONS).describe('log means that the rule denies nobody, and only records.'),
  limit: z.int(),
  windowSeconds: z.int().describe('For a calendar window, its current length.'),
  window: z
    .enum(CALENDAR_WINDOWS)
    .nullable()
    .describe('A window of the calendar. Null if windows are aligned to the epoch.'),
};

export const limitLeft = z.strictObject({
  allowed: z.boolean().describe('Whether this rule would let the request pass now.'),
  remaining: z.int(),
  resetAt: z.iso.datetime(),
  retryAfterMs: z.int().nullable().describe('Null if no wait will ever help.'),
});

export const toLeft = (outcome: Outcome | undefined): z.infer<typeof limitLeft> | null =>
  outcome
    ? {
        allowed: outcome.allowed,
        remaining: outcome.remaining,
        resetAt: new Date(outcome.resetAtMs).toISOString(),
        retryAfterMs: outcome.retryAfterMs ?? null,
      }
    : null;

/** For each check, what is left in all answering regions together; undefined if none answers. */
export async function peekChecks(
  { regions, deadlineMs }: Pick<AdminServices, 'regions' | 'deadlineMs'>,
  checks: readonly RuleCheck[],
  nowMs: number,
): Promise<readonly Outcome[] | undefined> {
  if (checks.length === 0) return [];
  const looked = regions.map(({ store }) => store.peek({ checks }, AbortSignal.timeout(deadlineMs)));
  const answers = (await Promise.allSettled(looked)).flatMap((one) =>
    one.status === 'fulfilled' ? [one.value.outcomes] : [],
  );
  if (answers.length === 0) return undefined;
  return checks.map((check, i) =>
    together(
      check,
      answers.flatMap((answer) => answer[i] ?? []),
      nowMs,
    ),
  );
}

/** Each region was asked with the whole limit, so the missing units are those used there. */
function together(check: RuleCheck, outcomes: readonly Outcome[], nowMs: number): Outcome {
  const capacity = capacityOf(check);
  const here = outcomes.filter(({ transferredTo }) => transferredTo === undefined);
  const used = here.reduce((sum, { remaining }) => sum + capacity - remaining, 0);
  const remaining = Math.max(0, capacity - used);
  const allowed = remaining >= check.cost && here.every((outcome) => outcome.allowed);
  const resetAtMs = togetherResetAtMs(check, here, nowMs);
  // An upper bound: when one region no longer denies, or no charge counts there any more.
  const waits = here.flatMap((one) =>
    one.allowed ? Math.max(1, one.resetAtMs - nowMs) : (one.retryAfterMs ?? []),
  );
  const retryAfterMs = allowed ? 0 : check.cost > capacity ? undefined : Math.min(...waits);
  return { allowed, remaining, resetAtMs, retryAfterMs, granted: 0, delayMs: 0 };
}

/** What buckets of all regions hold together drains at the pace of the whole limit. */
function togetherResetAtMs(check: RuleCheck, here: readonly Outcome[], nowMs: number): number {
  if (!hasBurst(check)) return Math.max(nowMs, ...here.map(({ resetAtMs }) => resetAtMs));
  const { algorithm, limit, extra, windowMs } = check;
  const buckets = here.map(({ remaining, resetAtMs }) => {
    const freeInMs = resetAtMs - nowMs;
    return { algorithm, limit, extra, windowMs, remaining, freeInMs };
  });
  return nowMs + drainMs(buckets, limit);
}
