// Checks with a given part in each region.
import type { Part } from '../../src/core/regions/parts.ts';
import type { PlacedCheck } from '../../src/core/regions/placement.ts';
import { createMinute } from './model-regions.ts';
import type { RuleCheckShape } from './rule-checks.ts';

/** Limits, or limit and burst, by region. */
export type Parts = Readonly<Record<string, number | readonly [limit: number, extra: number]>>;

const partOf = (part: number | readonly [number, number]): Part =>
  typeof part === 'number' ? { limit: part, extra: undefined } : { limit: part[0], extra: part[1] };

/** `at` names the only region that counts the check. */
export function place(parts: Parts, { at, ...shape }: RuleCheckShape & { at?: string } = {}): PlacedCheck {
  const shares = Object.entries(parts).map(([name, part]) => [name, partOf(part)] as const);
  const limit = shares.reduce((sum, [, part]) => sum + part.limit, 0);
  const bursts = shares.flatMap(([, part]) => part.extra ?? []);
  const extra = bursts.length > 0 ? bursts.reduce((sum, burst) => sum + burst, 0) : undefined;
  const check = createMinute({ limit, extra, ...shape });
  const split = { shares: { us: 1, eu: 1, ap: 1 }, before: [] };
  return { check, parts: new Map(shares), at, split };
}
