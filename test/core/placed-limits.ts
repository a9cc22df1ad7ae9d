// Limits placed over three regions, as texts and numbers that tests compare.
import { expect } from 'vitest';
import type { RuleFields } from '../../local/rules.ts';
import { hashTagOf } from '../../src/core/counting/keys.ts';
import type { PlacedBefore, SharesByRegion, Split } from '../../src/core/matching/rule.ts';
import { centralRegionOf, type Part } from '../../src/core/regions/parts.ts';
import { createPlacements } from '../../src/core/regions/placement.ts';
import { createRuleCheck, type RuleCheckShape } from '../limiter/rule-checks.ts';

export const AT_MS = 1_800_000_000_000;
export const MINUTE = { windowMs: 60_000, limit: 12 } as const;
export const EVEN = { us: 1, eu: 1, ap: 1 };
export const splitBy = (shares: SharesByRegion, before: Split['before'] = []): Split => ({ shares, before });
export const until = (replacedAtMs: number, shares: SharesByRegion) => ({ shares, replacedAtMs });

/** All ways in which the check must be counted at that moment. */
export function placementsOf(split: Split, { rule: placed = {}, ...shape }: Shape = {}, nowMs = AT_MS) {
  const { placedBefore = [], ...rule } = placed;
  const check = createRuleCheck({ ...MINUTE, ...shape, rule });
  return createPlacements({ ...split, moved: { [check.rule.id]: placedBefore } }).of(check, nowMs);
}
/** With the former split, as publications record it. */
type Shape = Omit<RuleCheckShape, 'rule'> & {
  readonly rule?: RuleFields & { readonly placedBefore?: readonly PlacedBefore[] };
};
/** The part of each region, by name. */
export const allPartsOf = (...given: Parameters<typeof placementsOf>) =>
  placementsOf(...given).map(({ parts }): Record<string, Part> => Object.fromEntries(parts));
/** The parts of a check that is counted in only one way. */
export function partsOf(...given: Parameters<typeof allPartsOf>) {
  const [parts = {}, ...others] = allPartsOf(...given);
  expect(others).toEqual([]);
  return parts;
}
/** The limits alone. */
export const limitsOf = (...given: Parameters<typeof partsOf>) =>
  Object.fromEntries(Object.entries(partsOf(...given)).map(([name, { limit }]) => [name, limit]));
/** A short text for each way: where it counts, and the regions' parts. */
export const told = (...given: Parameters<typeof placementsOf>) =>
  placementsOf(...given).map(({ parts, at }) => ({
    at,
    ...Object.fromEntries([...parts].map(([name, { limit }]) => [name, limit])),
  }));
export const owner = (shares: SharesByRegion, key = '{test}:subject') =>
  centralRegionOf(
    hashTagOf(key),
    Object.entries(shares).map(([name, share]) => ({ name, share })),
  );
export const keyAt = (name: string, shares: SharesByRegion) => {
  const keys = Array.from({ length: 1_000 }, (_, i) => `weir:{ip:=${i}}`);
  return keys.find((key) => owner(shares, key) === name) ?? '';
};
