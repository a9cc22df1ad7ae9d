// The rules, tiers and routes as they would be after an import: what would be published, and its warnings.

import type { OriginPolicy } from '../../core/matching/origin.ts';
import { findWarnings, type RuleWarning } from '../../core/matching/warnings.ts';
import type { WeightedRegion } from '../../core/regions/parts.ts';
import { assemble } from '../../rules/publishing/content.ts';
import { parseRules, type RejectedRow } from '../../rules/tables/rule-schema.ts';
import type { StoredRows } from './import-document.ts';
import type { ImportPlan } from './import-plan.ts';

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
