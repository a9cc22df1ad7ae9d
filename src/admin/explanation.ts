// The parts of an explanation: the caller, what is left of its limits, and each reason in words.
import { eq } from 'drizzle-orm';
import type { Explanation, REASONS_AGAINST, RuleExplanation } from '../authoring/explain.ts';
import { capacityOf, drainMs, hasBurst } from '../core/counting/capacity.ts';
import type { Outcome } from '../core/counting/check.ts';
import type { Caller } from '../core/matching/caller.ts';
import { type PlannedRequest, planRequest, type RuleCheck } from '../core/matching/plan.ts';
import { compileResource } from '../core/matching/resource.ts';
import { compileSnapshot } from '../core/matching/snapshot.ts';
import type { CounterStore } from '../core/ports/region.ts';
import { hashApiKey } from '../identity/api-key.ts';
import { findApiKey, findUser } from '../identity/caller-rows.ts';
import type { ReadContent, StoredContent, StoredRule } from '../rules/publishing/content.ts';
import type { Database } from '../rules/tables/repository.ts';
import { apiKeys, tenants } from '../rules/tables/tables.ts';
import type { AdminServices } from './app.ts';

export type DescribedCaller = Pick<Caller, 'userId' | 'apiKeyId' | 'tenantId' | 'tier'>;

export interface CallerDescription extends DescribedCaller {
  /** The key itself: nothing keeps, logs or shows it. */
  readonly apiKey?: string | undefined;
}

/** Looks up missing facts as for a real request. An invalid key identifies nobody. */
export async function completeCaller(
  database: Database,
  described: CallerDescription,
  nowMs: number,
): Promise<DescribedCaller> {
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

async function tierOfTenant(database: Database, id: string | undefined): Promise<string | undefined> {
  if (id === undefined) return undefined;
  const [row] = await database.select({ tier: tenants.tier }).from(tenants).where(eq(tenants.id, id));
  return row?.tier ?? undefined;
}

async function hashOf(database: Database, { apiKey, apiKeyId }: CallerDescription) {
  if (apiKey !== undefined) return hashApiKey(apiKey);
  if (apiKeyId === undefined) return undefined;
  const [row] = await database.select({ hash: apiKeys.hash }).from(apiKeys).where(eq(apiKeys.id, apiKeyId));
  return row?.hash;
}

async function findKey(database: Database, hash: string, nowMs: number) {
  const record = await findApiKey(database, hash);
  return record?.expiresAtMs !== undefined && record.expiresAtMs <= nowMs ? undefined : record;
}

export interface PeekedRegion {
  readonly name: string;
  readonly store: CounterStore;
}

export interface Peek {
  readonly regions: readonly PeekedRegion[];
  readonly content: StoredContent;
  readonly request: PlannedRequest;
  readonly deadlineMs: number;
  readonly leasedOf: AdminServices['leasedOf'];
}

/** The result for one limit. */
export interface Peeked {
  /** The length of the current window; calendar windows differ. */
  readonly windowSeconds: number;
  readonly outcome: Outcome;
  readonly leased: number | undefined;
}

/** What is left of each limit in the regions that answer; undefined if none does. Charges nothing. */
export async function peek(asked: Peek): Promise<ReadonlyMap<string, Peeked> | undefined> {
  const { regions, content, request, deadlineMs, leasedOf } = asked;
  const rules = content.rules.filter(({ enabled }) => enabled !== false);
  const plan = await planRequest(compileSnapshot('', { ...content, rules }), request);
  if (plan.kind === 'listed' || plan.checks.length === 0) return undefined;
  const checks = plan.checks.filter(({ rule }) => !rule.isBound);
  const outcomes = await peekChecks(regions, checks, { nowMs: request.nowMs, deadlineMs });
  if (!outcomes) return undefined;
  return new Map(
    checks.flatMap((check, i) => {
      const outcome = outcomes[i];
      const name = outcomeName(check.rule.id, check.rule.windowSeconds);
      const windowSeconds = check.windowMs / 1_000;
      return outcome ? [[name, { outcome, windowSeconds, leased: leasedOf(check) }] as const] : [];
    }),
  );
}

/** For each check, what is left in all answering regions together; undefined if none answers. */
export async function peekChecks(
  regions: readonly PeekedRegion[],
  checks: readonly RuleCheck[],
  { nowMs, deadlineMs }: { readonly nowMs: number; readonly deadlineMs: number },
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

/** No two limits of a rule have the same window. */
export const outcomeName = (ruleId: string, windowSeconds: number): string => `${ruleId} ${windowSeconds}`;

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

export type Applying = Extract<RuleExplanation, { readonly reason: 'applies' }>;
type Allowing = Extract<RuleExplanation, { readonly reason: 'allows' }>;
type Multiplying = Extract<RuleExplanation, { readonly reason: 'multiplies' }>;
type Against = Exclude<RuleExplanation, Applying | Allowing | Multiplying>;

export const isApplying = (rule: RuleExplanation): rule is Applying => rule.reason === 'applies';
export const isAllowing = (rule: RuleExplanation): rule is Allowing => rule.reason === 'allows';
export const isMultiplying = (rule: RuleExplanation): rule is Multiplying => rule.reason === 'multiplies';

export interface ReasonAgainst {
  readonly id: string;
  readonly name: string;
  readonly reason: (typeof REASONS_AGAINST)[number] | 'rejected';
  readonly detail: string;
}

/** Rejected rules first, then rules whose resource matches, then all others. */
export function reasonsAgainst(
  { rules, tier }: Explanation,
  { content, rejected }: ReadContent,
  matchPath: string,
): ReasonAgainst[] {
  const byId = new Map(content.rules.map((rule) => [rule.id, rule]));
  const isNear = ({ ruleId }: Against) =>
    resourcesIn(byId.get(ruleId)).some((resource) => compileResource(resource)(matchPath));
  const against = rules.filter(
    (rule): rule is Against => !isApplying(rule) && !isAllowing(rule) && !isMultiplying(rule),
  );
  const [near, far] = [against.filter(isNear), against.filter((rule) => !isNear(rule))];
  return [
    ...rejected.map(({ id, name, problems }) => ({
      id,
      name,
      reason: 'rejected' as const,
      detail: `It is not valid: ${problems.join('; ')}.`,
    })),
    ...[...near, ...far].map((rule) => ({
      id: rule.ruleId,
      name: rule.name,
      reason: rule.reason,
      detail: detailOf(rule, byId, tier),
    })),
  ];
}

function detailOf(against: Against, byId: ReadonlyMap<string, StoredRule>, tier: string | undefined): string {
  const rule = byId.get(against.ruleId);
  switch (against.reason) {
    case 'disabled':
      return 'It is switched off.';
    case 'time':
      return `It applies ${spanOf(rule)}.`;
    case 'percent':
      return `It applies to ${rule?.percent} % of its subjects, and this one is not among them.`;
    case 'resource':
      return `It is for ${resourcesIn(rule).join(', ')}.`;
    case 'host':
      return `It is for the hosts ${rule?.hosts.join(', ')}.`;
    case 'route':
      return `It is for the routes ${rule?.routes.join(', ')}.`;
    case 'method':
      return `It is for ${rule?.methods.join(', ')}.`;
    case 'tier':
      return `It is for callers of ${rule?.tiers.join(', ')}; this one is of ${tier ?? 'no tier'}.`;
    case 'subject':
      return `It names others (${rule?.subjects.length}) of scope ${rule?.scope}.`;
    case 'outranked':
      return outranked(rule, byId.get(against.winnerId));
    case 'replaced':
      return replaced(byId.get(against.winnerId));
    case 'unlimited':
      return `It has no limit for callers of ${tier ?? 'no tier'}.`;
  }
}

const spanOf = (rule: StoredRule | undefined): string =>
  [
    ...(rule?.validFromMs == null ? [] : [`from ${new Date(rule.validFromMs).toISOString()}`]),
    ...(rule?.validUntilMs == null ? [] : [`until ${new Date(rule.validUntilMs).toISOString()}`]),
  ].join(' ');

const resourcesIn = (rule: StoredRule | undefined): readonly string[] => (rule ? rule.resources : []);

function outranked(rule: StoredRule | undefined, winner: StoredRule | undefined): string {
  const why =
    rule?.priority === winner?.priority
      ? 'says more about the caller, or is the first of two alike'
      : `has priority ${winner?.priority}, this one ${rule?.priority}`;
  return `Of the same scope and resource, ${winner?.name} comes before it: it ${why}.`;
}

const replaced = (winner: StoredRule | undefined): string =>
  winner?.action === 'allow'
    ? `${winner.name} allows ${resourcesIn(winner).join(', ')}, which is narrower.`
    : `${winner?.name} replaces it for ${resourcesIn(winner).join(', ')}, which is narrower.`;
