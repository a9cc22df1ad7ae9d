// One subject that sends more than its limit, for whole windows: how much of its limit it gets, and what its denied
// requests cost.
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { steadyLoad } from '../../local/steady-load.ts';
import { freshIp } from '../../local/weir.ts';
import { createMemoryCounters, runChecks } from '../../src/core/counting/counters.ts';
import type { BenchOptions } from '../shared/bench.ts';
import type { Arena } from './arena.ts';
import { ask, type Reply, troubleOf } from './ask.ts';
import { HOT_LIMIT, HOT_WINDOW_MS, type HotAlgorithm } from './rules.ts';

// Enough windows that one request is less than a percent of what may pass.
const WINDOWS = 20;
/** Load relative to the limit. Each has its own region, so that all three run at once and are billed apart. */
export const FACTORS = [
  { factor: 1.2, region: 'ap' },
  { factor: 5, region: 'eu' },
  { factor: 50, region: 'us' },
] as const;
export type Factor = (typeof FACTORS)[number]['factor'];

/** Starts this long after the beginning of a window, and stops early enough that no request arrives in the next one. */
const EARLY_MS = 20;
const LATE_MS = 150;

export interface HotLoad {
  readonly factor: Factor;
  /** The rate that was really sent. */
  readonly perSecond: number;
  /** Relative to what the algorithm admits of the same requests, if Redis is asked about every one. */
  readonly utilization: number;
  /** Why answers were not counted, one reason for each. They say nothing about remembered denials. */
  readonly uncounted: readonly string[];
  /** Redis commands for one denied request. */
  readonly commandsPerDenied: number;
}

/** Sends to all `workers` in turns. */
export async function sendTooMuch(
  arena: Arena,
  workers: readonly string[],
  algorithm: HotAlgorithm,
  { scaled }: BenchOptions,
): Promise<HotLoad[]> {
  await sleep(HOT_WINDOW_MS - (Date.now() % HOT_WINDOW_MS) + EARLY_MS);
  const ms = scaled(WINDOWS) * HOT_WINDOW_MS - EARLY_MS - LATE_MS;
  return Promise.all(FACTORS.map((load) => sendOne(arena, workers, algorithm, { ...load, ms })));
}

type Sending = (typeof FACTORS)[number] & { readonly ms: number };

async function sendOne(
  arena: Arena,
  workers: readonly string[],
  algorithm: HotAlgorithm,
  { factor, region, ms }: Sending,
): Promise<HotLoad> {
  const ip = freshIp();
  const runsBefore = await scriptRuns(arena, region);
  const results = await steadyLoad({
    perSecond: factor * HOT_LIMIT,
    ms,
    send: (i) => ask(arena, { worker: workers[i % workers.length] ?? '', path: `/${algorithm}`, ip, region }),
  });
  const runs = (await scriptRuns(arena, region)) - runsBefore;
  const replies = results.flatMap(({ value }) => value ?? []);
  const admitted = replies.filter(({ status }) => status === 200).length;
  const tookMs = (replies.at(-1)?.sentAtMs ?? 0) - (replies[0]?.sentAtMs ?? 0);
  return {
    factor,
    perSecond: ((replies.length - 1) * 1_000) / tookMs,
    utilization: admitted / admittedOf(replies, algorithm),
    uncounted: replies.flatMap((reply) => troubleOf(reply) ?? []),
    commandsPerDenied: ((runs - admitted) * COMMANDS_OF_A_DENIAL) / (replies.length - admitted),
  };
}

/** EVALSHA and all its commands: at most this many, for any algorithm (see the bench `engine`). */
const COMMANDS_OF_A_DENIAL = 3;

/**
 * Counts by the model in memory. Redis judged a request at an unknown moment between sending and answer. If the model
 * would admit it at one end and deny it at the other, it does what Redis did.
 */
function admittedOf(replies: readonly Reply[], algorithm: HotAlgorithm): number {
  const counters = createMemoryCounters();
  const check = { key: 'k', id: 'i', algorithm, limit: HOT_LIMIT, windowMs: HOT_WINDOW_MS, cost: 1 };
  const passes = (operation: 'peek' | 'take', atMs: number) =>
    runChecks(operation, [check], atMs, counters).outcomes[0]?.allowed === true;
  let lastMs = 0;
  return replies
    .toSorted((a, b) => a.answeredAtMs - b.answeredAtMs)
    .filter(({ sentAtMs, answeredAtMs, status }) => {
      const [fromMs, toMs] = [Math.max(lastMs, epochMs(sentAtMs)), epochMs(answeredAtMs)];
      const moments = [fromMs, toMs].filter((atMs) => passes('peek', atMs));
      const isAdmitted = moments.length === 2 || (moments.length === 1 && status === 200);
      if (isAdmitted) passes('take', moments.at(-1) ?? toMs);
      if (isAdmitted) lastMs = moments.at(-1) ?? toMs;
      return isAdmitted;
    }).length;
}

const epochMs = (atMs: number) => Math.floor(performance.timeOrigin + atMs);

/** Each run is about one request. Calls for the announcement and the census are no EVALSHA. */
async function scriptRuns({ stack }: Arena, region: string): Promise<number> {
  const url = stack.regions.find(({ name }) => name === region)?.redis.url ?? '';
  const redis = new Redis(url);
  try {
    const stats = await redis.info('commandstats');
    return Number(/^cmdstat_evalsha:calls=(\d+)/m.exec(stats)?.[1] ?? 0);
  } finally {
    redis.disconnect();
  }
}
