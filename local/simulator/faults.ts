// The faults of an episode, beside single lost calls.
import type { Random } from '../random.ts';
import { between, happens, oneOf, wholeBetween } from './draw.ts';

export type Fault = { readonly atMs: number } & (
  | { readonly kind: 'restart'; readonly region: number }
  | { readonly kind: 'hang'; readonly region: number; readonly ms: number; readonly areKept: boolean }
  | { readonly kind: 'cut'; readonly place: number; readonly region: number; readonly ms: number }
  /** An isolate dies with all it knew, and another one takes its place. */
  | { readonly kind: 'death'; readonly isolate: number }
  /** A person resets the counters of a subject, by its number. */
  | { readonly kind: 'reset'; readonly subject: number }
);

const KINDS = ['restart', 'hang', 'cut', 'cut', 'death', 'death', 'reset'] as const;

export interface FaultyTime {
  readonly startMs: number;
  readonly endsAtMs: number;
  readonly subjects: number;
}

export function drawFaults(random: Random, during: FaultyTime): Fault[] {
  const count = wholeBetween(random, 1, 8);
  return Array.from({ length: count }, () => drawFault(random, during)).toSorted((a, b) => a.atMs - b.atMs);
}

function drawFault(random: Random, { startMs, endsAtMs, subjects }: FaultyTime): Fault {
  const atMs = Math.round(between(random, startMs, endsAtMs));
  const [region, place] = [wholeBetween(random, 0, 2), wholeBetween(random, 0, 2)];
  const ms = Math.round(between(random, 500, 20_000));
  const kind = oneOf(random, KINDS);
  switch (kind) {
    case 'restart':
      return { kind, atMs, region };
    case 'hang':
      return { kind, atMs, region, ms, areKept: happens(random, 0.5) };
    case 'cut':
      return { kind, atMs, place, region, ms };
    case 'death':
      return { kind, atMs, isolate: wholeBetween(random, 0, 8) };
    case 'reset':
      return { kind, atMs, subject: wholeBetween(random, 0, subjects - 1) };
  }
}
