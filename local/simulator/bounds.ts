// What the code under test states about itself, and how much of its limits callers can use at least.
import { CLOCK_SLACK_MS } from '../../src/core/regions/terms.ts';
import type { Traffic } from './traffic.ts';

/** Two clocks never differ by more: docs/regions.md. */
export const CLOCK_BOUND_MS = CLOCK_SLACK_MS;

/**
 * Of what one counter with the whole limit would have admitted of the same requests, at least so much; where nothing is
 * in the way, and for each algorithm.
 */
export const FLOORS: Readonly<Partial<Record<Traffic, number>>> = { oneRegion: 0.98 };
