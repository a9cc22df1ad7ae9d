// The rules of a subject in this bench, and the calls of Weir's own script for them.

import { CLOCK } from '../../local/clocked-script.ts';
import type { AlgorithmId } from '../../src/core/counting/algorithms/registry.ts';
import type { Check } from '../../src/core/counting/check.ts';
import { counterId, groupOf, subjectKey } from '../../src/core/counting/keys.ts';
import { loadScript } from '../../src/redis/script.ts';
import { toScriptCall } from '../../src/redis/wire.ts';
import type { BenchRedis, ShaCall } from './bench-redis.ts';

export interface BenchRule {
  readonly algorithm: AlgorithmId;
  readonly limit: number;
  readonly windowMs: number;
  readonly burst?: number;
}

/** The numbers of rules of one subject, in all parts of the bench. */
export const COUNTS = [1, 3, 5] as const;
export type Count = (typeof COUNTS)[number];

const FIVE: readonly Omit<BenchRule, 'limit'>[] = [
  { algorithm: 'fixed-window', windowMs: 60_000 },
  { algorithm: 'sliding-window-counter', windowMs: 60_000 },
  { algorithm: 'token-bucket', windowMs: 60_000 },
  { algorithm: 'sliding-window-counter', windowMs: 10_000 },
  { algorithm: 'token-bucket', windowMs: 3_600_000 },
];

/** One: a sliding-window-counter. Three: the algorithms that the peer has. Five: two of them again. */
export const mixedRules = (count: Count, limit: number): BenchRule[] =>
  (count === 1 ? FIVE.slice(1, 2) : FIVE.slice(0, count)).map((rule) => ({ ...rule, limit }));

/** A set of addresses. No two sets share one. */
export const subjects = (set: number): string[] =>
  Array.from({ length: 1_000 }, (_, i) => `203.${set}.${100 + Math.floor(i / 100)}.${100 + (i % 100)}`);

export interface CheckOptions {
  readonly subject: string;
  readonly cost?: number;
  /** Each take of a `concurrency` rule needs its own seat, with a name of at most 16 characters. */
  readonly seat?: string;
}

/** The checks that the gateway would make from these rules. */
export function checksOf(rules: readonly BenchRule[], options: CheckOptions): Promise<Check[]> {
  const { subject, cost = 1, seat = 'seat' } = options;
  return Promise.all(
    rules.map(async ({ algorithm, limit, windowMs, burst }, i): Promise<Check> => {
      const id = await counterId(`rule-${i}`, algorithm, windowMs);
      const key = await subjectKey('ip', subject, groupOf({ algorithm, counterId: id }));
      const held = algorithm === 'concurrency' ? seat.padEnd(16, '-') : undefined;
      return { key, id, algorithm, limit, windowMs, cost, extra: burst, seatId: held };
    }),
  );
}

/** The script, and the same with a clock that its calls name. */
export interface LoadedScript {
  readonly sha: string;
  readonly clockedSha: string;
}

export async function loadInto(redis: BenchRedis): Promise<LoadedScript> {
  const { text } = await loadScript();
  return { sha: await redis.load(text), clockedSha: await redis.load(text, CLOCK) };
}

/** One decision, by Redis's own clock by default. */
export function takeCall(
  { sha, clockedSha }: LoadedScript,
  checks: readonly Check[],
  nowMs?: number,
): ShaCall {
  const { keys, args } = toScriptCall('take', { checks });
  return nowMs === undefined
    ? { sha, keys, args }
    : { sha: clockedSha, keys, args: [...args, String(nowMs)] };
}
