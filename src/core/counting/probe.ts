// A call that tests whether a store can count at all: a take under every algorithm, on keys of its own. It writes,
// because a full or read-only database can still be read.
import { ALGORITHM_IDS, type AlgorithmId, traitsOf } from './algorithms/registry.ts';
import type { Check } from './check.ts';
import { groupOf, PROBE_KEY } from './keys.ts';

/** Short, so that a probe leaves nothing behind. Whether it is admitted does not matter. */
const WINDOW_MS = 1_000;
const LIMIT = 100;

export const PROBE_CHECKS: readonly Check[] = ALGORITHM_IDS.map((algorithm) => ({
  key: keyOf(algorithm),
  id: algorithm,
  algorithm,
  limit: LIMIT,
  windowMs: WINDOW_MS,
  cost: 1,
  // No random id looks like this one.
  ...(traitsOf(algorithm).holdsSeats && { seatId: '-'.repeat(16) }),
}));

function keyOf(algorithm: AlgorithmId): string {
  const group = groupOf({ algorithm, counterId: algorithm });
  return group === '' ? PROBE_KEY : `${PROBE_KEY}:${group}`;
}
