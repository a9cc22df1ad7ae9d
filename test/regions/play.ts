// Traffic at several edges, and what all of them together have admitted, by the clock of the counters.
import { expect } from 'vitest';
import { excessOf } from '../../bench/regions/definitions.ts';
import type { Edge, EdgeRule } from '../../local/edges.ts';
import { ALGORITHM_IDS } from '../../src/core/counting/algorithms/registry.ts';

/** All algorithms whose limits are split over regions. */
export const SPLIT = ALGORITHM_IDS.filter((id) => id !== 'concurrency');

let subjects = 0;
export const nextSubject = () => `subject-${++subjects}`;

/** When a request was admitted. Undefined if it was denied. */
export async function admittedAt(edge: Edge, subject: string): Promise<number | undefined> {
  const decision = await edge.request(subject);
  if (decision.kind !== 'counted') return undefined;
  return decision.allowed ? decision.nowMs : undefined;
}

/** Sends this many requests, here at once and below one after the other. Returns the times of the admitted ones. */
export async function burst(edge: Edge, subject: string, count: number): Promise<number[]> {
  const answers = await Promise.all(Array.from({ length: count }, () => admittedAt(edge, subject)));
  return answers.filter((atMs) => atMs !== undefined);
}

export async function oneByOne(edge: Edge, subject: string, count: number): Promise<number[]> {
  const times: number[] = [];
  for (let i = 0; i < count; i += 1) {
    const atMs = await admittedAt(edge, subject);
    if (atMs !== undefined) times.push(atMs);
  }
  return times;
}

/** Expects no admission beyond the rule, by its definition and over all regions. */
export function expectWithin(
  { algorithm, limit, windowSeconds }: EdgeRule,
  times: readonly number[],
  what = algorithm,
) {
  const excess = excessOf({ algorithm, limit: limit ?? 0, windowMs: windowSeconds * 1_000 }, times);
  expect({ what, excess }).toEqual({ what, excess: 0 });
}

export const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
