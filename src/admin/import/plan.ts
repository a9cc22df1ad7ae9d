// Plans an import before anything is written: what it would change, and all problems at once.

import { normalizeRoute, originProblemHere } from '../../authoring/route-schema.ts';
import { unknownRegions } from '../../authoring/rule-problems.ts';
import { parseRules, type RejectedRow } from '../../authoring/rule-schema.ts';
import { findWarnings, type RuleWarning } from '../../authoring/warnings.ts';
import type { OriginPolicy } from '../../core/matching/origin-routes.ts';
import type { Settings } from '../../core/matching/snapshot.ts';
import type { WeightedRegion } from '../../core/regions/parts.ts';
import { assemble } from '../../rules/publishing/content.ts';
import type { RouteRow } from '../../rules/tables/tables.ts';
import {
  DOCUMENT_ROUTE_DEFAULTS,
  DOCUMENT_RULE_DEFAULTS,
  DOCUMENT_RULE_FIELDS,
  DOCUMENT_TIER_DEFAULTS,
  type DocumentRoute,
  type DocumentRule,
  type DocumentTier,
  documentRoute,
  documentTier,
  type ImportDocument,
  isSame,
  type RuleRow,
  type StoredRows,
  type TierRow,
} from './document.ts';

/** Rows that the document does not name: `merge` keeps them, `replace` deletes them. */
export const IMPORT_MODES = ['merge', 'replace'] as const;
export type ImportMode = (typeof IMPORT_MODES)[number];

export interface ImportProblem {
  /** Points into the document: `#/rules/17/name`. */
  readonly pointer: string;
  readonly detail: string;
}

type Complete<T> = { [K in keyof T]-?: Exclude<T[K], undefined> };
export type PlannedRule = Complete<DocumentRule>;
export type PlannedRoute = Complete<DocumentRoute>;
export type PlannedTier = Complete<DocumentTier>;

export interface Update<Planned, Row> {
  readonly from: Row;
  readonly to: Planned;
  readonly changes: Readonly<Record<string, { readonly from: unknown; readonly to: unknown }>>;
}

export interface CollectionPlan<Planned, Row> {
  readonly created: readonly Planned[];
  readonly updated: readonly Update<Planned, Row>[];
  readonly deleted: readonly Row[];
  readonly unchanged: number;
}

export interface ImportPlan {
  readonly rules: CollectionPlan<PlannedRule, RuleRow>;
  readonly tiers: CollectionPlan<PlannedTier, TierRow>;
  readonly routes: CollectionPlan<PlannedRoute, RouteRow>;
  readonly settings: Pick<Update<Settings, Settings>, 'to' | 'changes'>;
  readonly problems: readonly ImportProblem[];
}

export interface HowToImport {
  readonly mode: ImportMode;
  /** Names of the configured regions, which rules may have shares for. */
  readonly regions: readonly string[];
  /** Which origins routes may have. */
  readonly origins: OriginPolicy;
}

export function planImport(
  document: ImportDocument,
  stored: StoredRows,
  { mode, regions, origins }: HowToImport,
): ImportPlan {
  const { rules: documentRules, tiers: documentTiers, routes: documentRoutes } = document;
  const rules = documentRules
    ? planRules(documentRules, stored.rules, mode)
    : nothingOf<PlannedRule, RuleRow>(stored.rules);
  const tiers = documentTiers
    ? planTiers(documentTiers, stored.tiers, mode)
    : nothingOf<PlannedTier, TierRow>(stored.tiers);
  const routes = documentRoutes
    ? planRoutes(documentRoutes, stored.routes, mode)
    : nothingOf<PlannedRoute, RouteRow>(stored.routes);
  const problems = [
    ...twice('rules', 'name', documentRules ?? []),
    ...twice('rules', 'id', documentRules ?? []),
    ...twice('tiers', 'name', documentTiers ?? []),
    ...twice('routes', 'name', documentRoutes ?? []),
    ...twice('routes', 'id', documentRoutes ?? []),
    ...takenNames('rules', documentRules ?? [], stored.rules, rules),
    ...takenNames('routes', documentRoutes ?? [], stored.routes, routes),
    ...takenPlaces(documentRoutes ?? [], stored.routes, routes),
    ...originsOfElsewhere(documentRoutes ?? [], routes, origins),
    ...sharesOfNoRegion(documentRules ?? [], rules, regions),
    ...secondDefaults(documentTiers ?? [], stored.tiers, tiers),
  ];
  const { enforcement, fileExtensions } = stored.settings;
  const said = document.settings ?? {};
  const to = {
    enforcement: said.enforcement ?? enforcement,
    fileExtensions: said.fileExtensions ?? fileExtensions,
  };
  const settings = { to, changes: changesOf(stored.settings, to, Object.keys(to)) };
  return { rules, tiers, routes, settings, problems };
}

function planRules(wanted: readonly DocumentRule[], rows: readonly RuleRow[], mode: ImportMode) {
  const findRow = createRowFinder(wanted, rows);
  const pairs = wanted.map((rule) => {
    const row = findRow(rule);
    const id = row?.id ?? rule.id ?? crypto.randomUUID();
    return { row, planned: { ...DOCUMENT_RULE_DEFAULTS, ...rule, id } as PlannedRule };
  });
  return toPlan(pairs, rows, { mode, fields: DOCUMENT_RULE_FIELDS });
}

function planRoutes(wanted: readonly DocumentRoute[], rows: readonly RouteRow[], mode: ImportMode) {
  const findRow = createRowFinder(wanted, rows);
  const pairs = wanted.map((route) => {
    const row = findRow(route);
    const id = row?.id ?? route.id ?? crypto.randomUUID();
    const planned = { ...DOCUMENT_ROUTE_DEFAULTS, ...normalizeRoute(route), id } as PlannedRoute;
    return { row, planned };
  });
  return toPlan(pairs, rows, { mode, fields: Object.keys(documentRoute.shape) });
}

/** The fields that identify a rule or a route. */
interface Named {
  readonly id: string | undefined;
  readonly name: string;
}

/** Finds the row by id, else by name. If another entry names that row by id, this entry is a new one. */
function createRowFinder<Row extends Named>(wanted: readonly Partial<Named>[], rows: readonly Row[]) {
  const byId = new Map(rows.map((row) => [row.id, row]));
  const byName = new Map(rows.map((row) => [row.name, row]));
  const meantById = new Set(wanted.map(({ id }) => id));

  return ({ id, name = '' }: Partial<Named>): Row | undefined => {
    const row = id === undefined ? undefined : byId.get(id);
    const namesake = byName.get(name);
    return row ?? (namesake && !meantById.has(namesake.id) ? namesake : undefined);
  };
}

function planTiers(wanted: readonly DocumentTier[], rows: readonly TierRow[], mode: ImportMode) {
  const byName = new Map(rows.map((row) => [row.name, row]));
  const pairs = wanted.map((tier) => ({
    row: byName.get(tier.name),
    planned: { ...DOCUMENT_TIER_DEFAULTS, ...tier } as PlannedTier,
  }));
  return toPlan(pairs, rows, { mode, fields: Object.keys(documentTier.shape) });
}

interface Pair<Planned, Row> {
  readonly row: Row | undefined;
  readonly planned: Planned;
}

function toPlan<Planned extends object, Row extends object>(
  pairs: readonly Pair<Planned, Row>[],
  rows: readonly Row[],
  { mode, fields }: { readonly mode: ImportMode; readonly fields: readonly string[] },
): CollectionPlan<Planned, Row> {
  const named = new Set(pairs.map(({ row }) => row));
  const unnamed = rows.filter((row) => !named.has(row));
  const created = pairs.flatMap(({ row, planned }) => (row ? [] : [planned]));
  const updated = pairs.flatMap(({ row, planned }) => {
    const changes = row ? changesOf(row, planned, fields) : {};
    return row && Object.keys(changes).length > 0 ? [{ from: row, to: planned, changes }] : [];
  });
  const deleted = mode === 'replace' ? unnamed : [];
  return { created, updated, deleted, unchanged: rows.length - updated.length - deleted.length };
}

function changesOf(row: object, planned: object, fields: readonly string[]) {
  const [from, to] = [row, planned] as Readonly<Record<string, unknown>>[];
  const changed = fields.filter((field) => !isSame(from?.[field], to?.[field]));
  return Object.fromEntries(changed.map((field) => [field, { from: from?.[field], to: to?.[field] }]));
}

const nothingOf = <Planned, Row>(rows: readonly Row[]): CollectionPlan<Planned, Row> => ({
  created: [],
  updated: [],
  deleted: [],
  unchanged: rows.length,
});

export function twice<T extends object>(list: string, field: keyof T & string, entries: readonly T[]) {
  const first = new Map<unknown, number>();
  return entries.flatMap((entry, i): ImportProblem[] => {
    const value = entry[field];
    const other = first.get(value);
    if (value !== undefined && other === undefined) first.set(value, i);
    if (other === undefined) return [];
    return [{ pointer: `#/${list}/${i}/${field}`, detail: `is that of #/${list}/${other} too` }];
  });
}

/** Names of rows that stay and that the document does not name. */
function takenNames<Row extends Named>(
  list: 'rules' | 'routes',
  wanted: readonly (Partial<Named> & { readonly name: string })[],
  rows: readonly Row[],
  { deleted }: Pick<CollectionPlan<unknown, Row>, 'deleted'>,
): ImportProblem[] {
  const findRow = createRowFinder(wanted, rows);
  const going = new Set([...deleted, ...wanted.map(findRow)]);
  const taken = new Set(rows.filter((row) => !going.has(row)).map(({ name }) => name));
  return wanted.flatMap(({ name }, i) =>
    taken.has(name)
      ? [
          {
            pointer: `#/${list}/${i}/name`,
            detail: `is that of a ${NOUNS[list]} which is not in the document`,
          },
        ]
      : [],
  );
}

const NOUNS = { rules: 'rule', routes: 'route' } as const;

/** Enabled routes, those of the document and those that stay, must differ in host and prefix. */
function takenPlaces(
  wanted: readonly DocumentRoute[],
  rows: readonly RouteRow[],
  { deleted }: CollectionPlan<PlannedRoute, RouteRow>,
): ImportProblem[] {
  const findRow = createRowFinder(wanted, rows);
  const going = new Set([...deleted, ...wanted.map(findRow)]);
  const taken = new Set(rows.filter((row) => row.enabled && !going.has(row)).map(placeOf));
  return wanted.flatMap((route, i): ImportProblem[] => {
    if (route.enabled === false) return [];
    const place = placeOf(normalizeRoute(route));
    const isTaken = taken.has(place);
    taken.add(place);
    return isTaken
      ? [
          {
            pointer: `#/routes/${i}/prefix`,
            detail: 'is that of another route of this host, which is switched on',
          },
        ]
      : [];
  });
}

export const placeOf = ({ host, prefix }: Pick<RouteRow, 'host' | 'prefix'>) => `${host}${prefix}`;

/** Unchanged origins may name a binding that no longer exists. */
function originsOfElsewhere(
  wanted: readonly DocumentRoute[],
  { created, updated }: CollectionPlan<PlannedRoute, RouteRow>,
  origins: OriginPolicy,
): ImportProblem[] {
  const changed = updated.filter(({ changes }) => 'origin' in changes).map(({ to }) => to);
  const names = new Set([...created, ...changed].map(({ name }) => name));
  return wanted.flatMap(({ name, origin }, i) => {
    const detail = names.has(name) ? originProblemHere(origin, origins) : undefined;
    return detail === undefined ? [] : [{ pointer: `#/routes/${i}/origin`, detail }];
  });
}

/** Unchanged shares may name a region that was removed, so that an export can always be imported again. */
function sharesOfNoRegion(
  wanted: readonly DocumentRule[],
  { created, updated }: CollectionPlan<PlannedRule, RuleRow>,
  regions: readonly string[],
): ImportProblem[] {
  const changed = updated.filter(({ changes }) => 'shares' in changes).map(({ to }) => to);
  const names = new Set([...created, ...changed].map(({ name }) => name));
  return wanted.flatMap(({ name, shares }, i) =>
    names.has(name)
      ? unknownRegions(shares, regions).map(({ pointer, detail }) => ({
          pointer: `#/rules/${i}/${pointer}`,
          detail,
        }))
      : [],
  );
}

function secondDefaults(
  wanted: readonly DocumentTier[],
  rows: readonly TierRow[],
  { deleted }: CollectionPlan<PlannedTier, TierRow>,
): ImportProblem[] {
  const named = new Set(wanted.map(({ name }) => name));
  const staying = rows.filter((row) => row.isDefault && !named.has(row.name) && !deleted.includes(row));
  const defaults = wanted.flatMap(({ isDefault }, i) => (isDefault ? [i] : []));
  const surplus = staying.length > 0 ? defaults : defaults.slice(1);
  return surplus.map((i) => ({
    pointer: `#/tiers/${i}/isDefault`,
    detail: 'is set for another tier already: there can be one default',
  }));
}

// The rules, tiers and routes as they would be after an import: what would be published, and its warnings.

export interface ImportPreview {
  readonly rejected: readonly RejectedRow[];
  readonly warnings: readonly RuleWarning[];
}

export interface PreviewedWith {
  readonly regions: readonly WeightedRegion[];
  readonly origins: OriginPolicy;
}

export function previewImport(
  stored: StoredRows,
  plan: ImportPlan,
  { regions, origins }: PreviewedWith,
): ImportPreview {
  const tiers = rowsAfter(stored.tiers, plan.tiers, (tier) => ({ ...NEW_ROW, ...tier }));
  const rules = rowsAfter(stored.rules, plan.rules, (rule) => ({ ...NEW_ROW, ordinal: 0, ...rule })).filter(
    ({ enabled }) => enabled,
  );
  const parsed = parseRules(rules);
  const routes = rowsAfter(stored.routes, plan.routes, (route) => ({ ...NEW_ROW, ...route })).filter(
    ({ enabled }) => enabled,
  );
  const { content, rejected } = assemble(parsed.rules, [tiers, [], [], routes, [], []], origins);
  return {
    rejected: [...parsed.rejected, ...rejected],
    warnings: findWarnings({ ...content, regions }),
  };
}

/** Fields that only the database fills in. The preview does not depend on them. */
const NEW_ROW = { revision: 0, createdAt: new Date(0), updatedAt: new Date(0) };

interface PartOfPlan<Planned, Row> {
  readonly created: readonly Planned[];
  readonly updated: readonly { readonly from: Row; readonly to: Planned }[];
  readonly deleted: readonly Row[];
}

function rowsAfter<Planned extends object, Row extends object>(
  rows: readonly Row[],
  { created, updated, deleted }: PartOfPlan<Planned, Row>,
  toRow: (planned: Planned) => Row,
): Row[] {
  const going = new Set<Row>(deleted);
  const changed = new Map(updated.map(({ from, to }) => [from, to]));
  const staying = rows.filter((row) => !going.has(row)).map((row) => ({ ...row, ...changed.get(row) }));
  return [...staying, ...created.map(toRow)];
}
