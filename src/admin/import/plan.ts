// Plans an import before anything is written: what it would change, and all errors at once. Rules, tiers and routes are
// compared here, row by row, so that the answer can name each change. Callers are compared by Postgres (import.ts).

import type { Values } from '../../authoring/bodies.ts';
import { parseRules } from '../../authoring/rule-schema.ts';
import { findWarnings, nameOfSubject } from '../../authoring/warnings.ts';
import type { Settings } from '../../core/matching/snapshot.ts';
import type { WeightedRegion } from '../../core/regions/parts.ts';
import type { FieldError } from '../../core/shape.ts';
import { assemble, findUnknownSubjects } from '../../rules/publishing/content.ts';
import type { Database, Row } from '../../rules/tables/repository.ts';
import type { RouteRow, tiers as tiersTable } from '../../rules/tables/tables.ts';
import { isSame } from '../collection/changes.ts';
import type { Collection, Deployment, Unique } from '../collection/declaration.ts';
import { CALLERS, PLANNED, ROUTES, RULES, TIERS } from '../collections.ts';
import { entriesIn, type ImportDocument, type StoredRows } from './document.ts';

/** Rows that the document does not name: `merge` keeps them, `replace` deletes them. */
export const IMPORT_MODES = ['merge', 'replace'] as const;
export type ImportMode = (typeof IMPORT_MODES)[number];

export type Changes = Readonly<Record<string, { readonly from: unknown; readonly to: unknown }>>;

interface RowUpdate {
  readonly from: Row;
  readonly to: Values;
  readonly changes: Changes;
}

export interface CollectionPlan {
  readonly collection: Collection;
  readonly created: readonly Values[];
  readonly updated: readonly RowUpdate[];
  readonly deleted: readonly Row[];
  readonly unchanged: number;
  /** Rows that the import does not delete. */
  readonly staying: readonly Row[];
}

export interface ImportPlan {
  readonly collections: readonly CollectionPlan[];
  readonly settings: { readonly to: Settings; readonly changes: Changes };
  readonly errors: readonly FieldError[];
}

interface HowToPlan {
  readonly mode: ImportMode;
  readonly deployment: Deployment;
}

export function planImport(document: ImportDocument, stored: StoredRows, how: HowToPlan): ImportPlan {
  const planned = PLANNED.map((collection) =>
    planCollection(collection, entriesIn(document, collection), stored.rowsOf(collection), how),
  );
  const callerErrors = CALLERS.flatMap((collection) => {
    const keys = (collection.inDocuments.key ?? [collection.id]).map(({ name }) => name);
    const of = (entry: Values) => JSON.stringify(keys.map((field) => entry[field]));
    return clashes(collection, entriesIn(document, collection) ?? [], [], [{ field: keys.at(-1) ?? '', of }]);
  });
  const to = { ...stored.settings, ...document.settings } as Settings;
  return {
    collections: planned.map(({ plan }) => plan),
    settings: { to, changes: changesOf(stored.settings, to, Object.keys(to)) },
    errors: [...planned.flatMap(({ errors }) => errors), ...callerErrors],
  };
}

function planCollection(
  collection: Collection,
  entries: readonly Values[] | undefined,
  rows: readonly Row[],
  { mode, deployment }: HowToPlan,
): { readonly plan: CollectionPlan; readonly errors: readonly FieldError[] } {
  const { id, path, bodies, fits, inDocuments } = collection;
  const findRow = createRowFinder(entries ?? [], rows);
  const pairs = (entries ?? []).map((entry) => {
    const row = findRow(entry);
    const made = id.name === 'id' && { id: row?.['id'] ?? entry['id'] ?? crypto.randomUUID() };
    const to: Values = { ...entry, ...made };
    return { row, to, changes: row ? changesOf(row, to, bodies.documentFields) : undefined };
  });
  const named = new Set(pairs.map(({ row }) => row));
  const unnamed = rows.filter((row) => !named.has(row));
  const updated = pairs.flatMap(({ row, to, changes }) =>
    row && changes && Object.keys(changes).length > 0 ? [{ from: row, to, changes }] : [],
  );
  const deleted = mode === 'replace' && entries ? unnamed : [];
  const misfits = pairs.flatMap(({ to, changes }, i) =>
    fits && (!changes || fits.field in changes)
      ? fits.errors(to[fits.field], deployment).map(({ pointer, detail }) => ({
          pointer: `#/${path}/${i}${pointer}`,
          detail,
        }))
      : [],
  );
  const unique: Unique[] = [
    ...(inDocuments.unique ?? []),
    { field: id.name, of: (entry: Values) => entry[id.name] as string | undefined },
  ];
  return {
    plan: {
      collection,
      created: pairs.flatMap(({ row, to }) => (row ? [] : [to])),
      updated,
      deleted,
      unchanged: rows.length - updated.length - deleted.length,
      staying: mode === 'replace' && entries ? rows.filter((row) => named.has(row)) : rows,
    },
    errors: [...clashes(collection, entries ?? [], mode === 'replace' ? [] : unnamed, unique), ...misfits],
  };
}

/** Finds the row by id, else by name. If another entry names that row by id, this entry is a new one. */
function createRowFinder(entries: readonly Values[], rows: readonly Row[]) {
  const byId = new Map(rows.map((row) => [row['id'], row]));
  const byName = new Map(rows.map((row) => [row['name'], row]));
  const meantById = new Set(entries.flatMap(({ id }) => (id === undefined ? [] : [byId.get(id)])));

  return ({ id, name }: Values): Row | undefined => {
    const row = id === undefined ? undefined : byId.get(id);
    const namesake = byName.get(name);
    return row ?? (meantById.has(namesake) ? undefined : namesake);
  };
}

function changesOf(row: object, planned: object, fields: readonly string[]): Changes {
  const [from, to] = [row, planned] as readonly Values[];
  const changed = fields.filter((field) => !isSame(from?.[field], to?.[field]));
  return Object.fromEntries(changed.map((field) => [field, { from: from?.[field], to: to?.[field] }]));
}

export const takenBy = ({ field, of = (row) => row[field] as string | undefined }: Unique, row: Values) =>
  of(row);

/** Entries that take what another entry, or a row that is not in the document, has already. */
function clashes(
  { path, noun }: Collection,
  entries: readonly Values[],
  others: readonly Row[],
  unique: readonly Unique[],
): FieldError[] {
  return unique.flatMap((one) => {
    const holders = new Map(
      others.map((row) => [takenBy(one, row), `a ${noun} which is not in the document`]),
    );
    return entries.flatMap((entry, i) => {
      const value = takenBy(one, entry);
      const holder = value === undefined ? undefined : holders.get(value);
      if (holder === undefined) holders.set(value, `#/${path}/${i} too`);
      const pointer = `#/${path}/${i}/${one.field}`;
      return holder === undefined ? [] : [{ pointer, detail: one.error ?? `is that of ${holder}` }];
    });
  });
}

// The rules, tiers and routes as they would be after an import: what would be published, and its warnings.

export async function previewImport(
  { collections }: ImportPlan,
  document: ImportDocument,
  {
    database,
    origins,
    regions,
    now,
  }: Pick<Deployment, 'origins'> & {
    readonly database: Database;
    readonly regions: readonly WeightedRegion[];
    readonly now: () => number;
  },
) {
  const rowsOf = (wanted: Collection): Values[] =>
    collections.flatMap(({ collection, created, updated, staying }) => {
      if (collection !== wanted) return [];
      const changed = new Map(updated.map(({ from, to }) => [from, to]));
      const rows = staying.map((row) => ({ ...row, ...changed.get(row) }));
      return [...rows, ...created.map((row) => ({ ...NEW_ROW, ...row }))];
    });
  const enabled = (collection: Collection) => rowsOf(collection).filter((row) => row['enabled'] !== false);
  const parsed = parseRules(enabled(RULES));
  const tiers = rowsOf(TIERS) as (typeof tiersTable.$inferSelect)[];
  const routes = enabled(ROUTES) as unknown as RouteRow[];
  const { content, rejected } = assemble(parsed.rules, [tiers, [], [], routes, [], [], []], {
    nowMs: now(),
    origins,
  });
  return {
    rejected: [...parsed.rejected, ...rejected],
    warnings: findWarnings({
      ...{ rules: content.rules, tiers: content.tiers, regions, nowMs: now() },
      unknown: unnamedIn(document, await findUnknownSubjects(database, content.rules)),
    }),
  };
}

/** Without the subjects that the document brings. */
function unnamedIn(document: ImportDocument, unknown: ReadonlySet<string>): ReadonlySet<string> {
  const brought = CALLERS.flatMap((collection) =>
    (entriesIn(document, collection) ?? []).flatMap(({ id, userId }) => [id, userId]),
  ).filter((id) => typeof id === 'string');
  const kinds = ['user', 'tenant', 'apiKey'] as const;
  const names = new Set(brought.flatMap((id) => kinds.map((kind) => nameOfSubject({ kind, id }))));
  return new Set([...unknown].filter((name) => !names.has(name)));
}

/** Fields that only the database fills in. The preview does not depend on them. */
const NEW_ROW = { revision: 0, ordinal: 0, createdAt: new Date(0), updatedAt: new Date(0) };
