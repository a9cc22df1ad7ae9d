// By how much a history of admissions exceeds what its algorithm allows by definition, over all regions together.
import type { AlgorithmId } from '../../src/core/counting/algorithms/registry.ts';

export interface Limit {
  readonly algorithm: AlgorithmId;
  readonly limit: number;
  readonly windowMs: number;
}

/**
 * Units beyond the limit: in all windows together, or at the worst moment. `times` are those of admissions, in any
 * order.
 */
export function excessOf({ algorithm, limit, windowMs }: Limit, times: readonly number[]): number {
  const sorted = times.toSorted((a, b) => a - b);
  switch (algorithm) {
    case 'fixed-window':
      return excessOfWindows(sorted, limit, windowMs);
    case 'sliding-window-log':
    case 'sliding-window-buckets':
      return excessOfTrueWindow(sorted, limit, windowMs);
    case 'sliding-window-counter':
      return excessOfEstimate(sorted, limit, windowMs);
    default:
      return excessOfBucket(sorted, limit, windowMs);
  }
}

function excessOfWindows(sorted: readonly number[], limit: number, windowMs: number): number {
  const windows = Map.groupBy(sorted, (atMs) => Math.floor(atMs / windowMs));
  return [...windows.values()].reduce((sum, inWindow) => sum + Math.max(0, inWindow.length - limit), 0);
}

function excessOfTrueWindow(sorted: readonly number[], limit: number, windowMs: number): number {
  let first = 0;
  let most = 0;
  for (const [i, atMs] of sorted.entries()) {
    while ((sorted[first] ?? atMs) <= atMs - windowMs) first += 1;
    most = Math.max(most, i - first + 1);
  }
  return Math.max(0, most - limit);
}

function excessOfEstimate(sorted: readonly number[], limit: number, windowMs: number): number {
  const counts = new Map<number, number>();
  let worst = 0;
  for (const atMs of sorted) {
    const window = Math.floor(atMs / windowMs);
    const current = (counts.get(window) ?? 0) + 1;
    counts.set(window, current);
    const inside = 1 - (atMs % windowMs) / windowMs;
    worst = Math.max(worst, (counts.get(window - 1) ?? 0) * inside + current - limit);
  }
  // Less than one is what a whole number of requests leaves over.
  return Math.floor(Math.max(0, worst) + 1e-9);
}

/** A bucket as large as the limit. */
function excessOfBucket(sorted: readonly number[], limit: number, windowMs: number): number {
  let content = 0;
  let lastMs = sorted[0] ?? 0;
  let worst = 0;
  for (const atMs of sorted) {
    content = Math.max(0, content - ((atMs - lastMs) * limit) / windowMs) + 1;
    lastMs = atMs;
    worst = Math.max(worst, content - limit);
  }
  return Math.floor(worst + 1e-6);
}
