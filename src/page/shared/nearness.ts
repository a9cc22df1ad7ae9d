// How near a rule is to its limit, from the checks that isolates have counted. Pure.
import type { Counts } from './traffic.ts';

export interface Nearness {
  readonly checks: number;
  /** Denied, or with at most a fifth of the limit left. */
  readonly near: number;
}

export const WHAT_IS_NEAR =
  'Near the limit: the part of a rule’s checks, since the metrics began, that were denied or found a fifth of the limit or less left.';

const NEAR = ['near-limit', 'denied', 'would-deny'];

/** `counts` is undefined if nothing was counted under the name of the rule. */
export function nearnessOf(counts: Counts = {}): Nearness {
  const sum = (results: readonly string[]) =>
    results.reduce((total, result) => total + (counts[result] ?? 0), 0);
  return { checks: sum(Object.keys(counts)), near: sum(NEAR) };
}
