// Reads all rules, tiers and lists from Postgres. Bad rows are put aside with the reason.

import { asc, eq, gt, isNotNull, isNull, or, sql } from 'drizzle-orm';
import * as z from 'zod';
import { traitsOf } from '../../core/counting/algorithms/registry.ts';
import { limitsOf } from '../../core/matching/compiled-rule.ts';
import { ipRangeProblem } from '../../core/matching/ip.ts';
import type { OriginPolicy } from '../../core/matching/origin.ts';
import { names } from '../../core/matching/rank.ts';
import type { ListEntry, Rule, Tier } from '../../core/matching/rule.ts';
import type { Settings } from '../../core/matching/settings.ts';
import { takesLimitOfTier } from '../../core/matching/slots.ts';
import { type PublishedRule, type SnapshotContent, withCounterIds } from '../../core/matching/snapshot.ts';
import { resolveTiers, type WrittenTier } from '../../core/matching/tier-multiples.ts';
import { limitOfTier } from '../../core/matching/tiers.ts';
import type { Database } from '../tables/database.ts';
import { parseRoutes } from '../tables/route-schema.ts';
import { type RouteRow, routes as routesTable } from '../tables/route-table.ts';
import { limitProblem } from '../tables/rule-problems.ts';
import { parseRules, type RejectedRow } from '../tables/rule-schema.ts';
import { listEntries, rules as rulesTable, tenants, tiers as tiersTable } from '../tables/schema.ts';
import { type SettingsRow, settings as settingsTable } from '../tables/settings-table.ts';
import { type AnchoredTenant, calendarsFor } from './calendars.ts';
import { type PlacementRow, selectPlacements, toSplit } from './placements.ts';

/** A rule from Postgres; `enabled` is set only if it is false. */
export interface StoredRule extends PublishedRule {
  readonly enabled?: boolean;
}

export interface StoredContent extends SnapshotContent {
  readonly rules: readonly StoredRule[];
}

export interface ReadContent {
  readonly content: StoredContent;
  readonly rejected: readonly RejectedRow[];
}

/** Reads all rules in one transaction, also those that are switched off. */
export async function readContent(database: Database): Promise<ReadContent> {
  const [, ruleRows, ...otherRows] = await database.batch([
    asOfOneMoment(database),
    database.select().from(rulesTable).orderBy(asc(rulesTable.ordinal)),
    ...otherQueries(database),
  ]);
  const parsed = parseRules(ruleRows);
  const { content, rejected } = assemble(await withCounterIds(parsed.rules), otherRows);
  const disabled = new Set(ruleRows.filter(({ enabled }) => !enabled).map(({ id }) => id));
  const rules = content.rules.map((rule) => (disabled.has(rule.id) ? { ...rule, enabled: false } : rule));
  return { content: { ...content, rules }, rejected: [...parsed.rejected, ...rejected] };
}

/**
 * Queries for tiers, lists, placements, routes, settings and anchor days, for a transaction. `assemble` takes the rows.
 */
export const otherQueries = (database: Database) =>
  [
    database.select().from(tiersTable).orderBy(asc(tiersTable.name)),
    database
      .select()
      .from(listEntries)
      .where(or(isNull(listEntries.expiresAt), gt(listEntries.expiresAt, sql`now()`)))
      .orderBy(asc(listEntries.list), asc(listEntries.kind), asc(listEntries.value)),
    selectPlacements(database),
    database.select().from(routesTable).where(eq(routesTable.enabled, true)).orderBy(asc(routesTable.name)),
    database.select().from(settingsTable),
    database
      .select({ id: tenants.id, anchorDay: tenants.anchorDay })
      .from(tenants)
      .where(isNotNull(tenants.anchorDay))
      .orderBy(asc(tenants.id)),
  ] as const;

export type OtherRows = readonly [
  tiers: readonly (typeof tiersTable.$inferSelect)[],
  lists: readonly (typeof listEntries.$inferSelect)[],
  placements: readonly PlacementRow[],
  routes: readonly RouteRow[],
  settings: readonly SettingsRow[],
  tenants: readonly AnchoredTenant[],
];

/**
 * Combines valid rules with the other rows, puts bad rows aside, and returns the content to publish. Without `origins`,
 * it puts no route aside because of the deployment that reads it.
 */
export function assemble<R extends Rule>(
  rules: readonly R[],
  [tierRows, listRows, placed, routeRows, settingRows, anchoredTenants]: OtherRows,
  origins?: OriginPolicy,
) {
  const tiers = parseTiers(tierRows);
  const lists = parseLists(listRows);
  const routes = parseRoutes(routeRows, origins);
  const usable = withUsableLimits(rules, tiers.good);
  return {
    content: {
      rules: usable.good,
      tiers: tiers.good,
      lists: lists.good,
      split: toSplit(placed, rules),
      routes: routes.good.length > 0 ? routes.good : undefined,
      settings: toSettings(settingRows),
      calendars: calendarsFor(usable.good, anchoredTenants, Date.now()),
    },
    rejected: [...usable.rejected, ...tiers.rejected, ...lists.rejected, ...routes.rejected],
  };
}

/** Undefined if there is no row: then all settings have their defaults. */
const toSettings = ([row]: readonly SettingsRow[]): Settings | undefined =>
  row && { enforcement: row.enforcement, fileExtensions: row.fileExtensions };

/** Comes first in a transaction, so that all its queries see the same rows. */
export const asOfOneMoment = (database: Database) =>
  database.execute(sql`set transaction isolation level repeatable read`);

interface Sorted<T> {
  readonly good: T[];
  readonly rejected: RejectedRow[];
}

const tierRow = z.object({
  name: z.string(),
  limits: z.record(
    z.string(),
    z.union([z.int().min(1), z.object({ times: z.int().min(1), of: z.string() }), z.null()]),
  ),
  isDefault: z.boolean(),
}) satisfies z.ZodType<WrittenTier>;

function parseTiers(rows: readonly { readonly name: string }[]): Sorted<Tier> {
  const written: WrittenTier[] = [];
  const sorted: Sorted<Tier> = { good: [], rejected: [] };
  for (const row of rows) {
    const parsed = tierRow.safeParse(row);
    if (parsed.success) written.push(parsed.data);
    else {
      const problems = parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`);
      sorted.rejected.push({ id: row.name, name: row.name, problems });
    }
  }
  for (const { tier, problems } of resolveTiers(written)) {
    sorted.good.push(tier);
    if (problems.length > 0) sorted.rejected.push({ id: tier.name, name: tier.name, problems });
  }
  return sorted;
}

/** Puts aside rules whose algorithm cannot count a limit of some tier. */
function withUsableLimits<R extends Rule>(rules: readonly R[], tiers: readonly Tier[]): Sorted<R> {
  const sorted: Sorted<R> = { good: [], rejected: [] };
  for (const rule of rules) {
    // Most rules take nothing from tiers, and there may be thousands.
    const problems = takesLimitOfTier(rule) ? tiers.flatMap((tier) => tierProblems(rule, tier)) : [];
    if (problems.length === 0) sorted.good.push(rule);
    else sorted.rejected.push({ id: rule.id, name: rule.name, problems });
  }
  return sorted;
}

function tierProblems(rule: Rule, { name, limits }: Tier): string[] {
  if (!names(rule.tiers, name)) return [];
  return limitsOf(rule).flatMap((one) => {
    const limit = limitOfTier(one, limits);
    if (limit == null || traitsOf(one.algorithm).holdsSeats) return [];
    const problem = limitProblem(one, limit);
    return problem ? [`limitName: with the limit of tier ${name}, ${problem}`] : [];
  });
}

/** A key's id is in lower case, as Postgres writes it. */
function parseLists(rows: readonly (typeof listEntries.$inferSelect)[]): Sorted<ListEntry> {
  const sorted: Sorted<ListEntry> = { good: [], rejected: [] };
  for (const { id, list, kind, value, expiresAt } of rows) {
    const problem = kind === 'ip' ? ipRangeProblem(value) : undefined;
    const entry = { list, kind, value: kind === 'apiKey' ? value.toLowerCase() : value };
    if (problem === undefined) sorted.good.push({ ...entry, expiresAtMs: expiresAt?.getTime() ?? null });
    else sorted.rejected.push({ id, name: `${list} ${value}`, problems: [`value: ${problem}`] });
  }
  return sorted;
}
