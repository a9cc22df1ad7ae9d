// All rules, tiers and routes as one JSON document, with callers in a full export. Exports write it and imports read
// it. Defaults are left out and the order is fixed, so that two exports can be compared line by line.
import { asc, getTableColumns, sql } from 'drizzle-orm';
import * as z from 'zod';
import { ROUTE_DEFAULTS } from '../../core/matching/origin-route.ts';
import { SETTINGS_DEFAULTS, type Settings } from '../../core/matching/settings.ts';
import { asOfOneMoment } from '../../rules/publishing/content.ts';
import type { Database } from '../../rules/tables/database.ts';
import { checkRoute, routeFields } from '../../rules/tables/route-schema.ts';
import { type RouteRow, routes as routesTable } from '../../rules/tables/route-table.ts';
import { checkRule } from '../../rules/tables/rule-problems.ts';
import { ruleFields, WRITTEN_DEFAULTS } from '../../rules/tables/rule-schema.ts';
import { rules as rulesTable, tiers as tiersTable } from '../../rules/tables/schema.ts';
import { settings as settingsTable } from '../../rules/tables/settings-table.ts';
import { tierFields, tierName } from '../../rules/tables/tier-schema.ts';
import { settingsFields } from '../schemas.ts';
import { callerLists } from './caller-document.ts';
import { withoutDefaults } from './document-values.ts';

const MAX_RULES = 20_000;
const MAX_TIERS = 1_000;
const MAX_ROUTES = 1_000;

export const documentRule = ruleFields
  .partial()
  .required({ name: true, scope: true })
  .extend({ id: z.guid().toLowerCase().optional().describe('Without an id, the name identifies the rule.') })
  .strict()
  .superRefine((rule, context) => checkRule(rule as Parameters<typeof checkRule>[0], context))
  .meta({ id: 'DocumentRule' });

export const documentRoute = routeFields
  .partial()
  .required({ name: true, origin: true })
  .extend({ id: z.guid().toLowerCase().optional().describe('Without an id, the name identifies the route.') })
  .strict()
  .superRefine((route, context) => checkRoute(route as Parameters<typeof checkRoute>[0], context))
  .meta({ id: 'DocumentRoute' });

export const documentTier = tierFields
  .partial()
  .extend({ name: tierName })
  .strict()
  .meta({ id: 'DocumentTier' });

export const documentSettings = z.strictObject(settingsFields).partial().meta({ id: 'DocumentSettings' });

export const importDocument = z
  .strictObject({
    weir: z.literal(1).describe('The version of this format.'),
    basedOn: z
      .int()
      .min(0)
      .optional()
      .describe('The import is refused if rules, tiers, routes or settings have changed since.'),
    tiers: z.array(documentTier).max(MAX_TIERS).optional().describe('If left out, tiers stay as they are.'),
    rules: z.array(documentRule).max(MAX_RULES).optional().describe('If left out, rules stay as they are.'),
    routes: z
      .array(documentRoute)
      .max(MAX_ROUTES)
      .optional()
      .describe('If left out, routes stay as they are.'),
    settings: documentSettings.optional().describe('Settings that are left out stay as they are.'),
    ...callerLists,
  })
  .meta({ id: 'RulesDocument' });

export type DocumentRule = z.infer<typeof documentRule>;
export type DocumentRoute = z.infer<typeof documentRoute>;
export type DocumentTier = z.infer<typeof documentTier>;
export type ImportDocument = z.infer<typeof importDocument>;

/** The defaults that a document leaves out. */
export const DOCUMENT_RULE_DEFAULTS = WRITTEN_DEFAULTS;
export const DOCUMENT_ROUTE_DEFAULTS = { ...ROUTE_DEFAULTS, enabled: true };
export const DOCUMENT_TIER_DEFAULTS = { displayName: '', priceCents: 0, limits: {}, isDefault: false };

export type RuleRow = typeof rulesTable.$inferSelect;
export type TierRow = typeof tiersTable.$inferSelect & { readonly isInUse: boolean };

export interface StoredRows {
  /** The last id in the history of rules, tiers, routes and settings. */
  readonly basedOn: number;
  /** A digest of the revisions of all rows. */
  readonly fingerprint: string;
  /** The size of the last publication. */
  readonly publishedBytes: number;
  readonly rules: readonly RuleRow[];
  readonly tiers: readonly TierRow[];
  readonly routes: readonly RouteRow[];
  readonly settings: Settings;
}

/** Reads all rows in one transaction. */
export async function readStoredRows(database: Database): Promise<StoredRows> {
  const [, state, rules, tiers, routes, settingRows] = await database.batch([
    asOfOneMoment(database),
    database.execute<{ based_on: string; fingerprint: string; bytes: string | null }>(sql`
      select coalesce(max(id), 0)::text as based_on, ${FINGERPRINT} as fingerprint,
        (select bytes::text from weir.last_publication) as bytes
      from weir.history where entity in ('rules', 'tiers', 'routes', 'settings')`),
    database.select().from(rulesTable).orderBy(asc(rulesTable.id)),
    database
      .select({ ...getTableColumns(tiersTable), isInUse: IS_IN_USE })
      .from(tiersTable)
      .orderBy(asc(tiersTable.name)),
    database.select().from(routesTable).orderBy(asc(routesTable.id)),
    database.select().from(settingsTable),
  ]);
  const { based_on = '0', fingerprint = '', bytes } = state.rows[0] ?? {};
  const publishedBytes = Number(bytes ?? 0);
  const { enforcement, fileExtensions } = settingRows[0] ?? SETTINGS_DEFAULTS;
  const settings = { enforcement, fileExtensions };
  return { basedOn: Number(based_on), fingerprint, publishedBytes, rules, tiers, routes, settings };
}

/** The history alone is not enough: of two simultaneous changes, Postgres can commit the one with the lower id last. */
export const FINGERPRINT = sql`(select md5(string_agg(part, ',' order by part)) from (
  select revision::text as part from weir.rules union all select revision::text from weir.tiers
  union all select revision::text from weir.routes union all select revision::text from weir.settings) parts)`;

const IS_IN_USE = sql<boolean>`(exists (select 1 from weir.tenants where tier = tiers.name)
  or exists (select 1 from weir.users where tier = tiers.name)
  or exists (select 1 from weir.api_keys where tier = tiers.name))`;

export function toDocument({ basedOn, rules, tiers, routes, settings }: StoredRows) {
  return {
    weir: 1 as const,
    basedOn,
    tiers: tiers.map(toDocumentTier).sort(byName),
    rules: rules.map(toDocumentRule).sort(byName),
    routes: routes.map(toDocumentRoute).sort(byName),
    // Written in full, because an import does not change settings that a document leaves out.
    settings,
  };
}

const byName = (a: { readonly name: string }, b: { readonly name: string }) => (a.name < b.name ? -1 : 1);

const toDocumentRule = (row: RuleRow): DocumentRule => {
  const { id, ...said } = withoutDefaults(row, Object.keys(documentRule.shape), DOCUMENT_RULE_DEFAULTS);
  return { id, ...said } as DocumentRule;
};

const toDocumentRoute = (row: RouteRow): DocumentRoute => {
  const { id, ...said } = withoutDefaults(row, Object.keys(documentRoute.shape), DOCUMENT_ROUTE_DEFAULTS);
  return { id, ...said } as DocumentRoute;
};

const toDocumentTier = (row: TierRow): DocumentTier =>
  withoutDefaults(row, Object.keys(documentTier.shape), DOCUMENT_TIER_DEFAULTS) as DocumentTier;
