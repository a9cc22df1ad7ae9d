// The traffic of the bench: one subject at three edges, more than its limit, in three ways to be spread.
import { EDGES, type EdgeName, type Edges } from '../../local/edges.ts';
import { steadyLoad } from '../../local/steady-load.ts';
import { runChecks } from '../../src/core/counters.ts';
import { createMemoryCounters } from '../../src/core/memory-counters.ts';
import { excessOf, type Limit } from './definitions.ts';

export const TRAFFICS = ['oneRegion', 'even', 'skewed'] as const;
export type Traffic = (typeof TRAFFICS)[number];

const WEIGHTS: Readonly<Record<Traffic, readonly number[]>> = {
  oneRegion: [1, 0, 0],
  even: [1, 1, 1],
  skewed: [80, 15, 5],
};

/** For each subject. */
export const LIMIT = 300;
export const WINDOW_MS = 15_000;
/** The first one is not judged: what is idle in the beginning is full, and could not have been used. */
const WINDOWS = 2;
const TIMES_THE_LIMIT = 2;

export interface Answer {
  readonly allowed: boolean;
  /** By the clock of the counters: when it was judged. */
  readonly atMs: number;
}

/** A limiter under this traffic. */
export interface Subject {
  readonly name: string;
  readonly limit: Limit;
  request(edge: EdgeName): Promise<Answer>;
}

export interface RegionSystem {
  readonly subjects: readonly Subject[];
  settled(): Promise<void>;
}

export interface Measured {
  readonly overAdmitted: number;
  readonly utilization: number;
  readonly remoteCallsPerRequest: number;
  readonly commandsPerRequest: number;
  /** Beyond what a request takes that never leaves its region. */
  addedMs(quantile: number): number;
  readonly byRule: readonly { name: string; overAdmitted: number; utilization: number }[];
}

interface Sent extends Answer {
  readonly tookMs: number;
  readonly sentAtMs: number;
}

/** All subjects at once. */
export async function measureTraffic(
  edges: Edges,
  system: RegionSystem,
  traffic: Traffic,
): Promise<Measured> {
  const before = await callsOf(edges);
  const sent = await Promise.all(system.subjects.map((subject) => send(subject, traffic)));
  await system.settled();
  const after = await callsOf(edges);
  const byRule = system.subjects.map(({ name, limit }, i) => {
    const ofSubject = sent[i] ?? [];
    const admitted = ofSubject.filter(({ allowed }) => allowed).map(({ atMs }) => atMs);
    return {
      name,
      overAdmitted: excessOf(limit, admitted),
      utilization: utilizationOf(limit, ofSubject),
    };
  });
  const took = sent
    .flat()
    .map(({ tookMs }) => tookMs)
    .toSorted((a, b) => a - b);
  const fastest = took[Math.floor(took.length * 0.1)] ?? 0;
  return {
    overAdmitted: byRule.reduce((sum, { overAdmitted }) => sum + overAdmitted, 0),
    utilization: Math.min(...byRule.map(({ utilization }) => utilization)),
    remoteCallsPerRequest: (after.far - before.far) / took.length,
    commandsPerRequest: (after.billed - before.billed) / took.length,
    addedMs: (quantile) => Math.max(0, (took[Math.floor(took.length * quantile)] ?? 0) - fastest),
    byRule,
  };
}

async function send(subject: Subject, traffic: Traffic): Promise<Sent[]> {
  const weights = WEIGHTS[traffic];
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  // From the start of a window.
  await new Promise((resolve) => setTimeout(resolve, WINDOW_MS - (Date.now() % WINDOW_MS)));
  const startedAtMs = Date.now();
  const results = await steadyLoad({
    perSecond: (TIMES_THE_LIMIT * LIMIT * 1_000) / WINDOW_MS,
    // Ends before the next window does, so that all windows are whole.
    ms: WINDOWS * WINDOW_MS - 100,
    send: (i) => subject.request(edgeOf((i * 0.618034) % 1, weights, total)),
  });
  return results.map(({ value, error, tookMs, sentAtMs }) => {
    if (!value) throw error;
    return { ...value, tookMs, sentAtMs: startedAtMs + sentAtMs };
  });
}

/** Evenly mixed, and the same for everybody. */
function edgeOf(point: number, weights: readonly number[], total: number): EdgeName {
  let sum = 0;
  const place = weights.findIndex((weight) => {
    sum += weight / total;
    return point < sum;
  });
  return EDGES[place] ?? 'us';
}

/** Beside what one counter for all regions, without any way to it, would have admitted of the same requests. */
function utilizationOf({ algorithm, limit, windowMs }: Limit, sent: readonly Sent[]): number {
  const counters = createMemoryCounters();
  const check = { key: 'ideal', id: 'ideal', algorithm, limit, windowMs, cost: 1 };
  const judgedFromMs = (sent[0]?.sentAtMs ?? 0) + windowMs;
  let [ideal, admitted] = [0, 0];
  for (const { sentAtMs, allowed } of sent) {
    const passes = runChecks('take', [check], Math.floor(sentAtMs), counters).outcomes[0]?.allowed;
    if (sentAtMs < judgedFromMs) continue;
    ideal += Number(passes);
    admitted += Number(allowed);
  }
  return admitted / ideal;
}

async function callsOf({ regions }: Edges) {
  const stats = await Promise.all(
    regions.map(async ({ gateway, far }) => ({ near: await gateway.stats(), far: await far.stats() })),
  );
  return {
    // Both gateways of a region bill the same Redis.
    billed: stats.reduce((sum, { near }) => sum + near.billed, 0),
    far: stats.reduce((sum, { far }) => sum + far.requests, 0),
  };
}
