// What the code under test states about itself, and how much of its limits callers can use at least.
import type { Traffic } from './traffic.ts';

/** Two clocks never differ by more: docs/regions.md. */
export const CLOCK_BOUND_MS = 5_000;

/** For how long a region cedes its part to another one: see src/limiter/cessions.ts. */
export const termMs = (windowMs: number): number => Math.min(600_000, Math.max(30_000, 4 * windowMs));

/**
 * Of what one counter with the whole limit would have admitted of the same requests, at least so much; where nothing is
 * in the way, and for each algorithm.
 */
export const FLOORS: Readonly<Partial<Record<Traffic, number>>> = { oneRegion: 0.98 };
