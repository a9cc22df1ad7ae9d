// What was admitted of one limit, over all regions, and whether the definition of its algorithm allows it.
//
// The true time is that of the simulator. A region's clock is ahead of it or behind by half of the bound at most, so two of
// them never differ by more than the bound.
// - Algorithms that measure times between admissions (log, buckets, token-bucket, leaky-bucket, gcra) are judged by the
//   true time, and not widened at all: clocks that run at one pace measure the same.
// - Windows that are cut by the epoch begin in each region when its own clock says so. So there must be a way to date each
//   admission, by no more than half of the bound away from the true time, with which the definition holds. Of
//   fixed-window that is found out exactly; of sliding-window-counter, what no dates can explain is beyond.
//   Where clocks agree, both are the definition itself.
import type { AlgorithmId } from '../../src/core/counting/algorithms/registry.ts';
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

/**
 * The first admission that was one too many; undefined if there is none.
 *
 * While a limit changes, some isolates go by the old one and some by the new one. As long as something counts that was
 * admitted by the larger one, all together may be as many as that allows. What was admitted after the last admission by
 * an old limit must be within the new one by itself.
 */
export function findBeyond(counted: Counted, unsorted: readonly Admission[]): Beyond | undefined {
  const admissions = unsorted.toSorted((a, b) => a.atMs - b.atMs);
  const versions = versionsOf(admissions);
  const beyond = judge({ ...counted, admissions, allowedAt: createAllowance(counted, admissions, versions) });
  if (beyond || versions.length <= 1) return beyond;
  const ended = Math.min(...versions.map(({ last }) => last));
  return findBeyond(counted, admissions.slice(ended + 1));
}

function judge(history: History): Beyond | undefined {
  switch (history.algorithm) {
    case 'fixed-window':
      return history.boundMs > 0 ? judgeDatedWindows(history) : judgeWindows(history, 'fixed');
    case 'sliding-window-counter':
      return history.boundMs > 0 ? judgeEstimates(history) : judgeWindows(history, 'estimated');
    case 'sliding-window-log':
    case 'sliding-window-buckets':
      return judgeTrueWindow(history);
    default:
      return judgeBucket(history);
  }
}

/** A limit, and the first and the last admission by it. */
interface Version {
  readonly limit: number;
  readonly burst: number;
  readonly first: number;
  last: number;
}

function versionsOf(admissions: readonly Admission[]): Version[] {
  const versions: Version[] = [];
  admissions.forEach(({ limit, burst = limit }, place) => {
    const version = versions.find((one) => one.limit === limit && one.burst === burst);
    if (version) version.last = place;
    else versions.push({ limit, burst, first: place, last: place });
  });
  return versions;
}

function createAllowance(
  { windowMs, forgettings }: Counted,
  admissions: readonly Admission[],
  versions: readonly Version[],
): History['allowedAt'] {
  const [only] = versions;
  if (only && versions.length === 1 && forgettings.length === 0) return () => only;
  const endOf = ({ limit, burst, last }: Version) =>
    (admissions[last]?.atMs ?? 0) + windowMs * (2 + Math.ceil(burst / limit));
  return (place) => {
    const atMs = admissions[place]?.atMs ?? 0;
    const active = versions.filter((version) => place >= version.first && atMs < endOf(version));
    const extra = forgettings
      .filter((one) => atMs >= one.atMs && atMs < one.untilMs)
      .reduce((sum, { part }) => sum + part, 0);
    return {
      limit: Math.max(...active.map(({ limit }) => limit)) + extra,
      burst: Math.max(...active.map(({ burst }) => burst)) + extra,
    };
  };
}
