// One subject that sends more than it may, for whole windows: how much of what it may have it gets, and what those
// requests that are denied cost.
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { steadyLoad } from '../../local/steady-load.ts';
import { freshIp } from '../../local/weir.ts';
import { runChecks } from '../../src/core/counting/counters.ts';
import { createMemoryCounters } from '../../src/core/counting/memory-counters.ts';
import type { BenchOptions } from '../shared/bench.ts';
import type { Arena } from './arena.ts';
import { ask, type Reply, troubleOf } from './ask.ts';
import { HOT_LIMIT, HOT_WINDOW_MS, type HotAlgorithm } from './rules.ts';

// So that one request is less than a percent of what may pass.
const WINDOWS = 20;
/** Times its limit. Each has a region of its own, so that all three are sent at once and billed apart. */
export const FACTORS = [
  { factor: 1.2, region: 'ap' },
  { factor: 5, region: 'eu' },
  { factor: 50, region: 'us' },
] as const;
export type Factor = (typeof FACTORS)[number]['factor'];

/** After the beginning of a window, and so long before the end of one that no request arrives in the next. */
const EARLY_MS = 20;
const LATE_MS = 150;

export interface HotLoad {
  readonly factor: Factor;
  /** What was really sent. */
  readonly perSecond: number;
  /** Of what the algorithm admits of the same requests if every one of them is asked about. */
  readonly utilization: number;
  /** Why answers were not counted, one for each: they say nothing about what is remembered. */
  readonly uncounted: readonly string[];
  /** Redis commands for one denied request. */
  readonly commandsPerDenied: number;
}

/** In turns by all of `workers`. */
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

/** EVALSHA and all that it runs: at most so many, whatever the algorithm (see the bench `engine`). */
const COMMANDS_OF_A_DENIAL = 3;

/**
 * By the model in memory. Redis has judged a request at some moment between sending and answer, which nobody is told: where
 * the model would admit it at one end and deny it at the other, it does as Redis did.
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

/** Each asks about one request. What else is asked of Redis, for the announcement and the census, is no EVALSHA. */
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
