// The traffic of the bench: one subject at three edges sends more than its limit, spread in four ways.
import { EDGES, type EdgeName, type Edges } from '../../local/edges.ts';
import { steadyLoad } from '../../local/steady-load.ts';
import { createMemoryCounters, runChecks } from '../../src/core/counting/counters.ts';
import { partsOf } from '../../src/core/regions/parts.ts';
import { excessOf, type Limit } from './definitions.ts';

export const TRAFFICS = ['oneRegion', 'even', 'skewed', 'moving'] as const;
export type Traffic = (typeof TRAFFICS)[number];

const WEIGHTS: Readonly<Record<Exclude<Traffic, 'moving'>, readonly number[]>> = {
  oneRegion: [1, 0, 0],
  even: [1, 1, 1],
  skewed: [80, 15, 5],
};
/** For how many windows a moving subject stays in each region. */
const STAY_WINDOWS = 2;

/** The limit and load of each subject. */
export interface Size {
  readonly limit: number;
  readonly windowMs: number;
  /** The first window is not judged: a full bucket at the start could not have been used before. */
  readonly windows: number;
}

const TIMES_THE_LIMIT = 2;

/** `atMs` is when the request was judged, by the clock of the counters. */
export type Answer =
  | {
      readonly kind: 'counted';
      readonly allowed: boolean;
      readonly atMs: number;
      /** Whether the nearest region counted it, or memory for that region. */
      readonly isNear?: boolean | undefined;
      readonly remaining?: number | undefined;
    }
  | { readonly kind: 'uncounted'; readonly reason: string };

/** A limiter under this traffic. */
export interface Subject {
  readonly name: string;
  readonly limit: Limit;
  request(edge: EdgeName): Promise<Answer>;
}

export interface RegionSystem {
  readonly subjects: readonly Subject[];
  settled(): Promise<void>;
  /** Calls to regions other than the nearest. Undefined if the gateways count them. */
  farCalls(): number | undefined;
}

export interface Measured {
  readonly requests: number;
  /** Why requests were not counted, one reason for each. Only calls and commands include them. */
  readonly uncounted: readonly string[];
  readonly overAdmitted: number;
  readonly utilization: number;
  readonly farCallsPerRequest: number;
  readonly commandsPerRequest: number;
  /** The time beyond that of a request that never leaves its region. */
  addedMs(quantile: number): number;
  readonly byRule: readonly MeasuredRule[];
}

export interface MeasuredRule {
  readonly name: string;
  readonly overAdmitted: number;
  /**
   * Relative to one counter for all regions, right beside the callers, with the same requests. That counter sees a
   * request when the nearest region did, because a log of six in a second decides by the millisecond in which a request
   * arrives. If another region judged the request, the counter sees it when it was sent.
   */
  readonly utilization: number;
  /** The same for three counters with a part each, if every request found the one with room at once. */
  readonly perfectParts: number;
}

type Sent<A = Answer> = A & {
  readonly tookMs: number;
  readonly sentAtMs: number;
};
type Counted = Sent<Extract<Answer, { kind: 'counted' }>>;

const isCounted = (sent: Sent): sent is Counted => sent.kind === 'counted';

/** All subjects at once. */
export async function measureTraffic(
  edges: Edges,
  system: RegionSystem,
  traffic: Traffic,
  windows: number,
): Promise<Measured> {
  const before = await callsOf(edges);
  const sent = await Promise.all(system.subjects.map((subject) => send(subject, traffic, windows)));
  await system.settled();
  const after = await callsOf(edges);
  const byRule = system.subjects.map(({ name, limit }, i) => {
    const own = sent[i] ?? [];
    const ofSubject = own.filter(isCounted);
    const judgedFromMs = (own[0]?.sentAtMs ?? 0) + limit.windowMs;
    const admitted = ofSubject.filter(({ allowed }) => allowed).map(({ atMs }) => atMs);
    return {
      name,
      overAdmitted: excessOf(limit, admitted),
      ...utilizationOf(limit, ofSubject, judgedFromMs),
    };
  });
  const all = sent.flat();
  const took = all
    .filter(isCounted)
    .map(({ tookMs }) => tookMs)
    .toSorted((a, b) => a - b);
  const fastest = took[Math.floor(took.length * 0.1)] ?? 0;
  return {
    requests: all.length,
    uncounted: all.flatMap((one) => (one.kind === 'uncounted' ? one.reason : [])),
    overAdmitted: byRule.reduce((sum, { overAdmitted }) => sum + overAdmitted, 0),
    utilization: Math.min(...byRule.map(({ utilization }) => utilization)),
    farCallsPerRequest: (system.farCalls() ?? after.far - before.far) / all.length,
    commandsPerRequest: (after.billed - before.billed) / all.length,
    addedMs: (quantile) => Math.max(0, (took[Math.floor(took.length * quantile)] ?? 0) - fastest),
    byRule,
  };
}

async function send(subject: Subject, traffic: Traffic, windows: number): Promise<Sent[]> {
  const { limit, windowMs } = subject.limit;
  // Waits for the start of a window.
  await new Promise((resolve) => setTimeout(resolve, windowMs - (Date.now() % windowMs)));
  const startedAtMs = Date.now();
  const results = await steadyLoad({
    perSecond: (TIMES_THE_LIMIT * limit * 1_000) / windowMs,
    // Ends before the next window does, so that all windows are whole.
    ms: windows * windowMs - Math.min(100, windowMs / 10),
    send: (i) => subject.request(edgeOf(traffic, i, TIMES_THE_LIMIT * limit)),
  });
  return results.map(({ value, error, tookMs, sentAtMs }) => {
    const answer = value ?? { kind: 'uncounted', reason: String(error) };
    return { ...answer, tookMs, sentAtMs: startedAtMs + sentAtMs };
  });
}

/** Mixes the edges evenly, and in the same way for all. */
function edgeOf(traffic: Traffic, i: number, perWindow: number): EdgeName {
  if (traffic === 'moving') return EDGES[Math.floor(i / perWindow / STAY_WINDOWS) % EDGES.length] ?? 'us';
  const weights = WEIGHTS[traffic];
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  const point = (i * 0.618034) % 1;
  let sum = 0;
  const place = weights.findIndex((weight) => {
    sum += weight / total;
    return point < sum;
  });
  return EDGES[place] ?? 'us';
}

/** By one counter with the whole limit, and by three with a part each. */
function utilizationOf(limit: Limit, sent: readonly Counted[], judgedFromMs: number) {
  const whole = openCounter(limit, limit.limit);
  const parts = [...partsOf({ ...limit, cost: 1 }, EVEN_SHARES).values()].map((part) =>
    openCounter(limit, part.limit),
  );
  const judged = { ideal: 0, admitted: 0, byParts: 0 };
  const seen = sent.map(({ sentAtMs, atMs, isNear, allowed }) => ({
    seenAtMs: isNear ? atMs : sentAtMs,
    allowed,
  }));
  for (const { seenAtMs, allowed } of seen.toSorted((a, b) => a.seenAtMs - b.seenAtMs)) {
    const [byWhole, byParts] = [whole(seenAtMs), parts.some((takes) => takes(seenAtMs))];
    if (seenAtMs < judgedFromMs) continue;
    judged.ideal += Number(byWhole);
    judged.admitted += Number(allowed);
    judged.byParts += Number(byParts);
  }
  return { utilization: judged.admitted / judged.ideal, perfectParts: judged.byParts / judged.ideal };
}

const EVEN_SHARES = EDGES.map((name) => ({ name, share: 1 }));

/** Takes one unit at that moment, if there is room. */
function openCounter({ algorithm, windowMs }: Limit, limit: number): (atMs: number) => boolean {
  const counters = createMemoryCounters();
  const check = { key: 'ideal', id: 'ideal', algorithm, limit, windowMs, cost: 1 };
  return (atMs) => runChecks('take', [check], Math.floor(atMs), counters).outcomes[0]?.allowed === true;
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
