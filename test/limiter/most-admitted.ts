// How much the definition of an algorithm allows, counted the slow way from all that was admitted.
import type { AlgorithmId } from '../../src/core/counting/algorithms/registry.ts';
import type { Check } from '../../src/core/counting/check.ts';

export interface Admission {
  readonly atMs: number;
  readonly units: number;
}

/** Whether the last of them could be admitted after the others. */
type Definition = (admissions: readonly Admission[], last: Admission, check: Check) => boolean;

const unitsSince = (admissions: readonly Admission[], fromMs: number) =>
  admissions.filter(({ atMs }) => atMs >= fromMs).reduce((total, { units }) => total + units, 0);
const startOf = (atMs: number, cellMs: number) => atMs - (atMs % cellMs);

/** In no time that ends now, more than the burst and what has come in since. */
const bucket: Definition = (admissions, last, { limit, windowMs, extra: burst = limit }) =>
  admissions.every(
    ({ atMs }) => unitsSince(admissions, atMs) * windowMs <= burst * windowMs + (last.atMs - atMs) * limit,
  );

const trueWindow: Definition = (admissions, { atMs }, { limit, windowMs }) =>
  unitsSince(admissions, atMs - windowMs + 1) <= limit;

const DEFINITIONS: Readonly<Record<AlgorithmId, Definition>> = {
  'fixed-window': (admissions, { atMs }, { limit, windowMs }) =>
    unitsSince(admissions, startOf(atMs, windowMs)) <= limit,
  'sliding-window-log': trueWindow,
  'sliding-window-buckets': trueWindow,
  'sliding-window-counter'(admissions, { atMs }, { limit, windowMs }) {
    const startMs = startOf(atMs, windowMs);
    const current = unitsSince(admissions, startMs);
    const previous = unitsSince(admissions, startMs - windowMs) - current;
    return previous * (startMs + windowMs - atMs) + current * windowMs <= limit * windowMs;
  },
  'token-bucket': bucket,
  'leaky-bucket': bucket,
  gcra: bucket,
  // Of leases that are never renewed or released.
  concurrency: trueWindow,
};

/** The first admission that was one too many, in the order of time; undefined if there is none. */
export function firstBeyond(check: Check, admissions: readonly Admission[]): Admission | undefined {
  const allows = DEFINITIONS[check.algorithm];
  return admissions.find((last, i) => !allows(admissions.slice(0, i + 1), last, check));
}
