// What was admitted of one limit, over all regions, and whether the definition of its algorithm allows it.
//
// The true time is that of the simulator. A region's clock is ahead of it or behind by half of the bound at most, so two of
// them never differ by more than the bound.
// - Algorithms that measure times between admissions (log, buckets, token-bucket, leaky-bucket, gcra) are judged by the
//   true time, and not widened at all: clocks that run at one pace measure the same.
// - Windows that are cut by the epoch begin in each region when its own clock says so. At every moment the regions
//   together count no more than the limit, each by its own clock: that is not widened either. And there must be a
//   way to date each admission, by no more than half of the bound away from the true time, with which the
//   definition holds. Without skew that is the definition itself.
import type { AlgorithmId } from '../../src/core/algorithms/registry.ts';
import { judgeBucket, judgeTrueWindow } from './measured-definitions.ts';
import { judgeDatedWindows, judgeEstimates, judgeWindows } from './window-definitions.ts';

export interface Admission {
  readonly atMs: number;
  /** By number. */
  readonly region: number;
  readonly units: number;
  /** Of the rule as it was when this was admitted. */
  readonly limit: number;
  readonly burst: number | undefined;
  /** When its charge was given back, if it was. */
  refundedAtMs?: number | undefined;
  /** To find it in the history. */
  readonly request: number;
}

/** A region has forgotten what it had counted. */
export interface Forgetting {
  readonly atMs: number;
  readonly region: number;
  /** What it may have given away before and not remember: so much more may be counted, until then. */
  readonly part: number;
  readonly untilMs: number;
}

export interface Counted {
  readonly algorithm: AlgorithmId;
  readonly windowMs: number;
  /** Of each region's clock, ahead of the true time. */
  readonly skewMs: readonly number[];
  /** Of two clocks, at most. */
  readonly boundMs: number;
  readonly forgettings: readonly Forgetting[];
}

export interface Beyond {
  readonly admission: Admission;
  /** Units that were counted with it, and that were allowed. */
  readonly counted: number;
  readonly allowed: number;
}

/** Admissions in order of time, and how many units each may make them. */
export interface History extends Counted {
  readonly admissions: readonly Admission[];
  allowedAt(place: number): { readonly limit: number; readonly burst: number };
}

/** The first admission that was one too many; undefined if there is none. */
export function findBeyond(counted: Counted, unsorted: readonly Admission[]): Beyond | undefined {
  const admissions = unsorted.toSorted((a, b) => a.atMs - b.atMs);
  const history = { ...counted, admissions, allowedAt: createAllowance(admissions, counted.forgettings) };
  switch (counted.algorithm) {
    case 'fixed-window':
      return judgeWindows(history, 'fixed') ?? judgeDatedWindows(history);
    case 'sliding-window-counter':
      return judgeWindows(history, 'estimated') ?? judgeEstimates(history);
    case 'sliding-window-log':
    case 'sliding-window-buckets':
      return judgeTrueWindow(history);
    default:
      return judgeBucket(history);
  }
}

/**
 * While a limit changes, some isolates go by the old one and some by the new one: until the last that was admitted by a
 * limit, it may be the one that counts.
 */
function createAllowance(
  admissions: readonly Admission[],
  forgettings: readonly Forgetting[],
): History['allowedAt'] {
  const versions = new Map<string, { limit: number; burst: number; first: number; last: number }>();
  admissions.forEach(({ limit, burst = limit }, place) => {
    const name = `${limit} ${burst}`;
    const version = versions.get(name);
    if (version) version.last = place;
    else versions.set(name, { limit, burst, first: place, last: place });
  });
  const all = [...versions.values()];
  return (place) => {
    const atMs = admissions[place]?.atMs ?? 0;
    let [limit, burst, extra] = [0, 0, 0];
    for (const version of all) {
      if (place < version.first || place > version.last) continue;
      limit = Math.max(limit, version.limit);
      burst = Math.max(burst, version.burst);
    }
    for (const { atMs: sinceMs, untilMs, part } of forgettings)
      if (atMs >= sinceMs && atMs < untilMs) extra += part;
    return { limit: limit + extra, burst: burst + extra };
  };
}
