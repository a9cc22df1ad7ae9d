// Checks with parts in regions that are said one by one, and borrowers that were just denied.
import type { Share } from '../../src/core/shares.ts';
import type { Denied } from '../../src/limiter/borrowing.ts';
import { checkAt, type PlacedCheck } from '../../src/limiter/placed-checks.ts';
import { createMinute } from './model-regions.ts';
import { deniedFor, type RuleCheckShape } from './rule-checks.ts';

/** Limits, or limit and burst, by region. */
export type Parts = Readonly<Record<string, number | readonly [limit: number, extra: number]>>;

const partOf = (part: number | readonly [number, number]): Share =>
  typeof part === 'number' ? { limit: part, extra: undefined } : { limit: part[0], extra: part[1] };

export function place(parts: Parts, shape: RuleCheckShape = {}): PlacedCheck {
  const shares = Object.entries(parts).map(([name, part]) => [name, partOf(part)] as const);
  const limit = shares.reduce((sum, [, part]) => sum + part.limit, 0);
  const bursts = shares.flatMap(([, part]) => part.extra ?? []);
  const extra = bursts.length > 0 ? bursts.reduce((sum, burst) => sum + burst, 0) : undefined;
  const check = createMinute({ limit, extra, ...shape });
  return { check, parts: new Map(shares) };
}

/** It was told no in `us`, which has nothing left unless that is said. */
export function deniedIn(placed: PlacedCheck, { remaining = 0, retryAfterMs = 30_000 } = {}): Denied {
  const check = checkAt(placed, 'us');
  if (!check) throw new Error('us has no part of it');
  return { placed, result: { check, outcome: { ...deniedFor(retryAfterMs), remaining } } };
}
