// The admissions of one limit, over all regions, and whether the definition of its algorithm allows them.
//
// The true time is that of the simulator. A region's clock differs from it by at most half of the bound, so two clocks
// never differ by more than the bound.
// - Algorithms that measure times between admissions (log, buckets, token-bucket, leaky-bucket, gcra) are judged by the
//   true time, without a tolerance: clocks that run at the same pace measure the same times.
// - Windows that are aligned to the epoch begin in each region by its own clock. So there must be a date for each
//   admission, at most half of the bound away from the true time, with which the definition holds. For fixed-window the
//   judgement finds this out exactly. For sliding-window-counter it reports only what no dates can explain.
//   Where clocks agree, both are the definition itself.
import type { AlgorithmId } from '../../src/core/counting/algorithms/registry.ts';
import { hasBurst } from '../../src/core/counting/capacity.ts';
import { judgeBucket, judgeTrueWindow } from './measured-definitions.ts';
import { judgeDatedWindows, judgeEstimates, judgeWindows } from './window-definitions.ts';

export interface Admission {
  readonly atMs: number;
  /** The number of the region. */
  readonly region: number;
  readonly units: number;
  /** The limit of the rule at the time of this admission. */
  readonly limit: number;
  readonly burst: number | undefined;
  /** When the charge was given back, if it was. */
  refundedAtMs?: number | undefined;
  /** The number of the request, to find it in the history. */
  readonly request: number;
}

/** A region has forgotten what it had counted. */
export interface Forgetting {
  readonly atMs: number;
  readonly region: number;
  /**
   * The part that the region may have transferred before, and no longer remembers. Until `untilMs`, as many more units may be
   * counted.
   */
  readonly part: number;
  readonly untilMs: number;
}

export interface Counted {
  readonly algorithm: AlgorithmId;
  readonly windowMs: number;
  /** The largest difference between two clocks. */
  readonly boundMs: number;
  readonly forgettings: readonly Forgetting[];
}

export interface Beyond {
  readonly admission: Admission;
  /** Units counted with this admission, and units allowed. */
  readonly counted: number;
  readonly allowed: number;
}

/** Admissions in order of time, and the limit that holds at each of them. */
export interface History extends Counted {
  readonly admissions: readonly Admission[];
  /** At the time of that admission, or at another time between the admission before it and it. */
  allowedAt(place: number, atMs?: number): { readonly limit: number; readonly burst: number };
  /** When old limits count no more, in order. */
  readonly ends: readonly number[];
}

/**
 * The first admission beyond the limit; undefined if there is none.
 *
 * While a limit changes, some isolates use the old one and some the new one. As long as an admission under the larger
 * limit counts, all admissions together may reach that limit. Those after the last admission under an old limit must
 * keep the new one by themselves.
 */
export function findBeyond(counted: Counted, unsorted: readonly Admission[]): Beyond | undefined {
  const admissions = unsorted.toSorted((a, b) => a.atMs - b.atMs);
  const versions = versionsOf(admissions);
  const beyond = judge({ ...counted, admissions, ...createAllowance(counted, admissions, versions) });
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

/** A limit, and the first and the last admission under it. */
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

/**
 * A part of a bucket has whole requests, and one region has the rest, too. A changed limit can give the rest to another
 * region, while a charge that was made with it has not drained yet: docs/regions.md states that bound.
 */
const restOf = (algorithm: AlgorithmId, admissions: readonly Admission[]): number =>
  hasBurst({ algorithm }) ? Math.max(0, ...admissions.map(({ units }) => units - 1)) : 0;

function createAllowance(
  { algorithm, windowMs, forgettings }: Counted,
  admissions: readonly Admission[],
  versions: readonly Version[],
): Pick<History, 'allowedAt' | 'ends'> {
  const [only] = versions;
  if (only && versions.length === 1 && forgettings.length === 0) return { allowedAt: () => only, ends: [] };
  const rest = restOf(algorithm, admissions);
  const endOf = ({ limit, burst, last }: Version) =>
    (admissions[last]?.atMs ?? 0) + windowMs * (2 + Math.ceil(burst / limit));
  const allowedAt: History['allowedAt'] = (place, atMs = admissions[place]?.atMs ?? 0) => {
    const active = versions.filter((version) => place >= version.first && atMs < endOf(version));
    const extra = forgettings
      .filter((one) => atMs >= one.atMs && atMs < one.untilMs)
      .reduce((sum, { part }) => sum + part, 0);
    return {
      limit: Math.max(...active.map(({ limit }) => limit)) + extra,
      burst: Math.max(...active.map(({ burst }) => burst)) + extra + (active.length > 1 ? rest : 0),
    };
  };
  return { allowedAt, ends: versions.map(endOf).sort((a, b) => a - b) };
}
