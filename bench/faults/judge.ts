// Judges an outage: its effect on answers, on waiting times, and on the limits.
import type { RegionFaultName } from '../../local/fault-catalogue.ts';
import { median } from '../shared/rounds.ts';
import { ISOLATES } from './arena.ts';
import { isError } from './ask.ts';
import { type OutageSamples, type OutageScope, recoveredAt, type Sample } from './outage.ts';
import { DEADLINE_MS, OUTAGE_LIMIT } from './rules.ts';

export interface Verdict {
  /** Answers of 5xx, and network errors. */
  readonly limiterErrors: number;
  /** What the fault adds to the 99th percentile, in deadlines. */
  readonly p99OverDeadline: number;
  /** The same for requests that no fault can slow down: the delay of the machine itself. */
  readonly noise: number;
  /** Null if it had not recovered when the bench gave up. */
  readonly recoveredMs: number | null;
  /** Requests admitted beyond the cap while the fault lasts, of all measured subjects. */
  readonly admittedOverCap: number;
}

/** How many requests of one subject may pass. */
export type CapOf = (kind: Sample['kind']) => number;

export function judge(
  { samples, endedAtMs }: OutageSamples,
  workers: readonly string[],
  capOf: CapOf,
): Verdict {
  const own = samples.filter(({ worker, kind }) => workers.includes(worker) && kind !== 'control');
  const recovered = workers.map((worker) => recoveredAt(samples, worker));
  const lastAtMs = Math.max(...recovered.map((atMs) => atMs ?? Number.POSITIVE_INFINITY));
  return {
    limiterErrors: own.filter(isError).length,
    p99OverDeadline: addedBy(own),
    noise: noiseOf(samples),
    recoveredMs: Number.isFinite(lastAtMs) ? Math.max(0, lastAtMs - endedAtMs) : null,
    admittedOverCap: overCap(own, capOf),
  };
}

/** Requests that need only the isolate, during the fault; and all others, before it. */
export function noiseOf(samples: readonly Sample[]): number {
  const before = timesOf(samples.filter(({ phase, kind }) => phase === 'before' && kind !== 'control'));
  const addedBefore = (quantile(before, 0.99) - median(before)) / DEADLINE_MS;
  return Math.max(addedBefore, addedBy(samples.filter(({ kind }) => kind === 'control')));
}

const timesOf = (samples: readonly Sample[]) =>
  samples.map(({ sentAtMs, answeredAtMs }) => answeredAtMs - sentAtMs);

/** In deadlines. */
function addedBy(samples: readonly Sample[]): number {
  const healthyMs = median(timesOf(samples.filter(({ phase }) => phase === 'before')));
  return (quantile(timesOf(samples.filter(isDuring)), 0.99) - healthyMs) / DEADLINE_MS;
}

const isDuring = ({ phase }: Sample) => phase !== 'before' && phase !== 'after';

function overCap(samples: readonly Sample[], capOf: CapOf): number {
  const admitted = new Map<string, { kind: Sample['kind']; count: number }>();
  for (const { kind, subject, status } of samples) {
    if (kind === 'roomy' || status !== 200) continue;
    admitted.set(subject, { kind, count: (admitted.get(subject)?.count ?? 0) + 1 });
  }
  return [...admitted.values()].reduce((sum, { kind, count }) => sum + Math.max(0, count - capOf(kind)), 0);
}

/**
 * With these faults a region answers some calls and not others, so a subject can reach its limit in more than one
 * place.
 */
const PARTIAL: readonly RegionFaultName[] = ['slow-at-random', 'redis-restarted-empty'];

/** The cap for Weir. Each region counts exactly; what isolates admit by themselves depends on the rule. */
export function weirCap(fault: RegionFaultName, scope: OutageScope): CapOf {
  const isPartial = PARTIAL.includes(fault);
  const isUncounted = scope === 'all' && fault !== 'scripts-flushed';
  const countingRegions = scope === 'one' ? (isPartial ? 2 : 1) : isPartial ? 3 : isUncounted ? 0 : 1;
  return (kind) => countingRegions * OUTAGE_LIMIT + (isUncounted ? localCap(kind) : 0);
}

const localCap: CapOf = (kind) => {
  const part = kind === 'local' ? Math.max(1, Math.floor(OUTAGE_LIMIT / ISOLATES.length)) : OUTAGE_LIMIT;
  return part * ISOLATES.length;
};

/** The peer has one Redis, and here one isolate. */
export const peerCap: CapOf = () => OUTAGE_LIMIT;

function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.ceil(sorted.length * share) - 1] ?? Number.NaN;
}
