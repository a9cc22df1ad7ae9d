// The bounds that the code under test states about itself, and how much of its limits callers must be able to use.
import { CLOCK_SLACK_MS } from '../../src/core/regions/placement.ts';
import type { Traffic } from './traffic.ts';

/** Two clocks never differ by more than this: docs/regions.md. */
export const CLOCK_BOUND_MS = CLOCK_SLACK_MS;

/**
 * The least use of a limit that callers must reach, relative to one counter with the whole limit and the same requests.
 * It holds for each algorithm, where nothing is in the way.
 */
export const FLOORS: Readonly<Partial<Record<Traffic, number>>> = { oneRegion: 0.98 };
