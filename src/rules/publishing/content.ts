// Reads all rules, tiers and lists from Postgres. Bad rows are put aside with the reason.

import { asc, eq, gt, isNull, or, sql } from 'drizzle-orm';
import * as z from 'zod';
import { parseRoutes } from '../../authoring/route-schema.ts';
import { limitProblem } from '../../authoring/rule-problems.ts';
import { parseRules, type RejectedRow } from '../../authoring/rule-schema.ts';
import { resolveLimits, resolveTiers, type WrittenTier } from '../../authoring/tier-schema.ts';
import { type NamedSubject, nameOfSubject, subjectsNamedBy } from '../../authoring/warnings.ts';
import { traitsOf } from '../../core/counting/algorithms/registry.ts';
import { ruleNameOf } from '../../core/matching/compiled-rule.ts';
import { ipRangeProblem } from '../../core/matching/ip.ts';
import type { OriginPolicy } from '../../core/matching/origin-routes.ts';
import {
  type ListEntry,
  limitOfTier,
  type Rule,
  type RuleLimit,
  type TenantLimits,
  type Tier,
  type TierLimits,
  type WrittenTierLimits,
} from '../../core/matching/rule.ts';
import { names } from '../../core/matching/slots.ts';
import {
  type PublishedRule,
  type RuleOff,
  type Settings,
  type SnapshotContent,
  withCounterIds,
} from '../../core/matching/snapshot.ts';
import type { CallerRevisions } from '../../core/ports/callers.ts';
import type { Database } from '../tables/repository.ts';
import {
  IS_FOREIGN,
  IS_PUBLISHED_TENANT,
  listEntries,
  type RouteRow,
  routes as routesTable,
  rules as rulesTable,
  type SettingsRow,
  settings as settingsTable,
  tenants,
  tiers as tiersTable,
} from '../tables/tables.ts';
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
export async function readContent(database: Database, nowMs: number): Promise<ReadContent> {
  const [, ruleRows, ...otherRows] = await database.batch([
    asOfOneMoment(database),
    database.select().from(rulesTable).orderBy(asc(rulesTable.ordinal)),
    ...otherQueries(database),
  ]);
  const parsed = parseRules(ruleRows);
  const { content, rejected } = assemble(await withCounterIds(parsed.rules), otherRows, { nowMs });
  const disabled = new Set(ruleRows.filter(({ enabled }) => !enabled).map(({ id }) => id));
  const rules = content.rules.map((rule) => (disabled.has(rule.id) ? { ...rule, enabled: false } : rule));
  return { content: { ...content, rules }, rejected: [...parsed.rejected, ...rejected] };
}

/** A rule that is switched off can always be saved, so their names must not fill the snapshot. */
const MOST_OFF = 1_000;

/**
 * Queries for tiers, lists, placements, routes, settings and tenants, for a transaction. `assemble` takes the rows.
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
      .select({ id: tenants.id, anchorDay: tenants.anchorDay, limits: tenants.limits })
      .from(tenants)
      .where(IS_PUBLISHED_TENANT)
      .orderBy(asc(tenants.id)),
    database
      .select({
        ...{ id: rulesTable.id, name: rulesTable.name, policy: rulesTable.policy, scope: rulesTable.scope },
        ...{ resource: rulesTable.resource, resources: rulesTable.resources },
      })
      .from(rulesTable)
      .where(eq(rulesTable.enabled, false))
      .orderBy(asc(rulesTable.ordinal))
      .limit(MOST_OFF),
  ] as const;

export type OtherRows = readonly [
  tiers: readonly (typeof tiersTable.$inferSelect)[],
  lists: readonly (typeof listEntries.$inferSelect)[],
  placements: readonly PlacementRow[],
  routes: readonly RouteRow[],
  settings: readonly SettingsRow[],
  tenants: readonly PublishedTenant[],
  off: readonly RuleOffRow[],
];

export type RuleOffRow = Pick<
  typeof rulesTable.$inferSelect,
  'id' | 'name' | 'policy' | 'scope' | 'resource' | 'resources'
>;

/** A tenant with an anchor day, or with limits of its own. */
interface PublishedTenant extends AnchoredTenant {
  readonly limits: WrittenTierLimits;
}

export interface AssembleOptions {
  /** For calendars, which are published for some months. */
  readonly nowMs: number;
  /** Undefined: no route is put aside because of the deployment that reads it. */
  readonly origins?: OriginPolicy | undefined;
}

/**
 * Combines valid rules with the other rows, puts bad rows aside, and returns the content to publish.
 */
export function assemble<R extends Rule>(
  rules: readonly R[],
  [tierRows, listRows, placed, routeRows, settingRows, tenantRows, offRows]: OtherRows,
  { nowMs, origins }: AssembleOptions,
) {
  const tiers = parseTiers(tierRows);
  const lists = parseLists(listRows);
  const routes = parseRoutes(routeRows, origins);
  const usable = withUsableLimits(rules, tiers.good);
  const ofTenants = toTenantLimits(tenantRows, usable.good, tiers.good);
  return {
    content: {
      rules: usable.good,
      tiers: tiers.good,
      tenantLimits: ofTenants.limits,
      lists: lists.good,
      split: toSplit(placed, rules),
      routes: routes.good.length > 0 ? routes.good : undefined,
      settings: toSettings(settingRows),
      calendars: calendarsFor(usable.good, tenantRows, nowMs),
      off: offRows.length > 0 ? offRows.map(toOff) : undefined,
    },
    rejected: [
      ...usable.rejected,
      ...tiers.rejected,
      ...ofTenants.rejected,
      ...lists.rejected,
      ...routes.rejected,
    ],
  };
}

const toOff = ({ id, name, policy, scope, resource, resources }: RuleOffRow): RuleOff => ({
  id,
  name,
  policy: ruleNameOf({ policy, scope, resources: resource === null ? resources : [resource] }),
});

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
    const problems = takesNamedLimit(rule) ? tiers.flatMap((tier) => tierProblems(rule, tier)) : [];
    if (problems.length === 0) sorted.good.push(rule);
    else sorted.rejected.push({ id: rule.id, name: rule.name, problems });
  }
  return sorted;
}

function tierProblems(rule: Rule, { name, limits }: Tier): string[] {
  if (!names(rule.tiers, name)) return [];
  return rule.limits.flatMap((one) => {
    const problem = problemWith(one, limitOfTier(one, limits));
    return problem ? [`limitName: with the limit of tier ${name}, ${problem}`] : [];
  });
}

/**
 * The limits of tenants that some rule takes. One that an algorithm cannot count is left out, so that a tenant never
 * takes a rule from the others.
 */
function toTenantLimits(
  rows: readonly PublishedTenant[],
  rules: readonly Rule[],
  tiers: readonly Tier[],
): { readonly limits: TenantLimits | undefined; readonly rejected: RejectedRow[] } {
  const limitsNamed = Map.groupBy(
    rules.flatMap((rule) => rule.limits),
    ({ limitName }) => limitName,
  );
  const rejected: RejectedRow[] = [];
  const known = rows.flatMap(({ id, limits: written }): [string, TierLimits][] => {
    const asked = Object.entries(written).filter(([name]) => limitsNamed.has(name));
    if (asked.length === 0) return [];
    const { limits, problems } = resolveLimits(Object.fromEntries(asked), tiers);
    const uncountable = Object.entries(limits).flatMap(([name, value]) => {
      const problem = (limitsNamed.get(name) ?? []).map((one) => problemWith(one, value)).find(Boolean);
      return problem === undefined ? [] : [[name, `limits.${name}: ${problem}`] as const];
    });
    if (problems.length + uncountable.length > 0)
      rejected.push({
        id,
        name: `tenant ${id}`,
        problems: [...problems, ...uncountable.map(([, problem]) => problem)],
      });
    const bad = new Map(uncountable);
    const good = Object.entries(limits).filter(([name]) => !bad.has(name));
    return good.length > 0 ? [[id, Object.fromEntries(good)]] : [];
  });
  return { limits: known.length > 0 ? Object.fromEntries(known) : undefined, rejected };
}

/** Why the counters would refuse this limit of a caller; undefined if they do not. */
const problemWith = (one: RuleLimit, limit: number | null | undefined): string | undefined =>
  limit == null || traitsOf(one.algorithm).holdsSeats ? undefined : limitProblem(one, limit);

const takesNamedLimit = ({ limits }: Rule): boolean => limits.some(({ limitName }) => limitName !== null);

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

// Subjects that rules name, and nobody has.

/** Each takes a few look-ups in indexes. More are not worth a wait of seconds. */
const MOST_NAMED = 10_000;

/** The names of those that no row, no key and no recorded request has. A token may still name them. */
export async function findUnknownSubjects(
  database: Database,
  rules: readonly Rule[],
): Promise<ReadonlySet<string>> {
  const named = new Map(rules.flatMap(subjectsNamedBy).map((one) => [nameOfSubject(one), one]));
  if (named.size === 0) return new Set();
  const asked = JSON.stringify([...named.values()].slice(0, MOST_NAMED));
  const { rows } = await database.execute<{ kind: NamedSubject['kind']; id: string }>(sql`
    select kind, id from jsonb_to_recordset(${asked}::jsonb) as named (kind text, id text)
    where not case kind
      when 'user' then exists (select from weir.users where users.id = named.id)
        or exists (select from weir.api_keys where user_id = named.id)
        or exists (select from weir.usage where user_id = named.id)
      when 'tenant' then exists (select from weir.tenants where tenants.id = named.id)
        or exists (select from weir.usage where tenant_id = named.id)
      else exists (select from weir.api_keys where api_keys.id =
        case when named.id ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then named.id::uuid end)
    end`);
  return new Set(rows.map(nameOfSubject));
}

// Callers whose tier, tenant or key has changed lately, from Postgres.

/** Longer than memory or KV keep a record of a caller. */
export const LATELY = sql`now() - interval '15 minutes'`;
/** With more changes than this, isolates forget all callers. */
const MOST = 5_000;

/**
 * A revision includes the number of changes, because a change with a lower number can be committed later. Revisions
 * come from the history, because isolates must also forget a deleted key, and a key with a new hash under its old one.
 * A change of a tenant is a change of all its callers. What was not known before is remembered for less long: isolates
 * remember an unknown key for a minute, and a new user without tier and tenant is as one without a row. So an import of
 * many keys makes isolates forget all callers for two minutes, not for fifteen.
 */
export const selectRevisions = (database: Database) =>
  database.execute<{ id: string; revision: string }>(sql`
    with recent as (
      select history.id, entity, state ->> 'id' as entity_id, state ->> 'hash' as hash
      from weir.history cross join lateral (values (before), (after)) as states (state)
      where at > ${LATELY} and entity in ('api_keys', 'users', 'tenants', 'callers') and state is not null and not (
        before is null and (
          entity = 'api_keys' and at < now() - interval '2 minutes' or
          entity = 'tenants' or
          entity = 'users' and after ->> 'tier' is null and after ->> 'tenant_id' is null
        )
      )
    ), changed (caller, revision) as (
      select 'key:' || hash, id from recent where entity = 'api_keys'
      union all
      select 'user:' || entity_id, id from recent where entity = 'users'
      union all
      select entity_id, id from recent where entity = 'callers'
      union all
      select 'key:' || k.hash, r.id from recent r join weir.api_keys k on k.user_id = r.entity_id where r.entity = 'users'
      union all
      select 'user:' || u.id, r.id from recent r join weir.users u on u.tenant_id = r.entity_id where r.entity = 'tenants'
      union all
      select 'key:' || k.hash, r.id from recent r join weir.api_keys k on k.tenant_id = r.entity_id where r.entity = 'tenants'
      union all
      select 'key:' || k.hash, r.id
      from recent r join weir.users u on u.tenant_id = r.entity_id join weir.api_keys k on k.user_id = u.id
      where r.entity = 'tenants'
    )
    select caller as id, max(revision) || '-' || count(*) as revision
    from changed group by caller order by max(revision) desc limit ${MOST + 1}`);

/** Whether there is a key that Weir has not made itself. An index holds exactly these. */
export const selectForeignKeys = (database: Database) =>
  database.execute<{ isThere: boolean }>(
    sql`select exists (select from weir.api_keys where ${IS_FOREIGN}) as "isThere"`,
  );

export function toRevisions(
  rows: readonly { id: string; revision: string }[],
  onlyWeirKeys: boolean,
): CallerRevisions {
  if (rows.length > MOST) return { epoch: rows[0]?.revision ?? '0', revisions: {}, onlyWeirKeys };
  const sorted = [...rows].sort((a, b) => (a.id < b.id ? -1 : 1));
  const revisions = Object.fromEntries(sorted.map(({ id, revision }) => [id, revision]));
  return { epoch: '0', revisions, onlyWeirKeys };
}
