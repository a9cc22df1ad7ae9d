// Measures the error of sliding-window-counter with the engine itself. A sliding-window-log keeps the exact count of
// the last window, and judges every request as well.

import { createRandom, type Random } from '../../local/random.ts';
import type { Check } from '../../src/core/counting/check.ts';
import { createMemoryCounters, runChecks } from '../../src/core/counting/counters.ts';
import type { Table } from '../shared/bench.ts';
import { percent } from '../shared/table.ts';

const LIMIT = 100;
const WINDOW_MS = 60_000;
/** The number of sources for each kind of traffic. */
export const SOURCES = 150;
const WINDOWS = 12;
const SEED = 20_260_101;
const PUBLISHED = { wrongShare: 0.00003, meanError: 0.06 };
/** No source reaches this limit: such a counter only measures. */
const NO_LIMIT = 100_000;

const check = (id: string, algorithm: Check['algorithm'], limit: number): Check => {
  return { key: 'source', id, algorithm, limit, windowMs: WINDOW_MS, cost: 1 };
};
const COUNTER = check('counter', 'sliding-window-counter', LIMIT);
const LOG = check('log', 'sliding-window-log', LIMIT);
const ADMITTED = check('admitted', 'sliding-window-log', NO_LIMIT);
const ESTIMATE_OF_ALL = check('estimate-of-all', 'sliding-window-counter', NO_LIMIT);
const ALL = check('all', 'sliding-window-log', NO_LIMIT);

/** The times of one source's requests in ms, oldest first. `load` is its average rate, relative to the limit. */
type Traffic = (load: number, random: Random) => number[];

const steady: Traffic = (load, random) => {
  const times: number[] = [];
  for (let at = 0; at < WINDOWS * WINDOW_MS; ) {
    at += -Math.log(1 - random()) * (WINDOW_MS / (LIMIT * load));
    times.push(Math.floor(at));
  }
  return times;
};

/** Quiet for a while, then a tenth to half of a limit within two seconds. */
const bursty: Traffic = (load, random) => {
  const times: number[] = [];
  for (let at = 0; at < WINDOWS * WINDOW_MS; ) {
    const size = Math.ceil(LIMIT * (0.1 + 0.4 * random()));
    at += (-Math.log(1 - random()) * (WINDOW_MS * size)) / (LIMIT * load);
    for (let i = 0; i < size; i++) times.push(Math.floor(at + random() * 2_000));
  }
  return times.sort((a, b) => a - b);
};

const TRAFFIC = { steady, bursty };
/** Average rates relative to the limit: far below, like most real sources; and near it, where errors matter. */
const LOADS = { quiet: [0.02, 0.5], busy: [0.5, 2] } as const;

interface Tally {
  requests: number;
  /** How often the estimate and the exact count disagree on whether a request is over the limit. */
  wrong: number;
  /** The sum of their differences, each relative to the exact count. */
  error: number;
  /** Admitted by a limiter that counts what it admits, as Weir does, and by one that does so exactly. */
  admitted: number;
  admittedByLog: number;
  /** The most in any window of the true length. */
  mostAdmitted: number;
}

export interface Accuracy {
  readonly requests: number;
  readonly wrongShare: number;
  readonly meanError: number;
  /** Requests admitted by sliding-window-counter, relative to those admitted by the exact log. */
  readonly admittedRatio: number;
  readonly mostAdmitted: number;
}

export interface AccuracyResult extends Accuracy {
  readonly traffic: Readonly<Record<string, Accuracy>>;
}

export function measureAccuracy(sources: number): AccuracyResult {
  const random = createRandom(SEED);
  const tallies: [string, Tally][] = [];
  for (const [load, [low, high]] of Object.entries(LOADS))
    for (const [kind, make] of Object.entries(TRAFFIC)) {
      const tally = emptyTally();
      for (let source = 0; source < sources; source++)
        follow(make(low * (high / low) ** random(), random), random, tally);
      tallies.push([`${kind}, ${load}`, tally]);
    }
  const all = tallies.map(([, tally]) => tally).reduce(add);
  return {
    ...conclude(all),
    traffic: Object.fromEntries(tallies.map(([name, tally]) => [name, conclude(tally)])),
  };
}

const emptyTally = (): Tally => ({
  requests: 0,
  wrong: 0,
  error: 0,
  admitted: 0,
  admittedByLog: 0,
  mostAdmitted: 0,
});

const add = (a: Tally, b: Tally): Tally => ({
  requests: a.requests + b.requests,
  wrong: a.wrong + b.wrong,
  error: a.error + b.error,
  admitted: a.admitted + b.admitted,
  admittedByLog: a.admittedByLog + b.admittedByLog,
  mostAdmitted: Math.max(a.mostAdmitted, b.mostAdmitted),
});

function follow(times: readonly number[], random: Random, tally: Tally): void {
  const counters = createMemoryCounters();
  // Windows are aligned to the clock. Sources are not.
  const startMs = 1_800_000_000_000 + Math.floor(random() * WINDOW_MS);
  for (const at of times) {
    const take = (of: Check) => {
      const [outcome] = runChecks('take', [of], startMs + at, counters).outcomes;
      return { allowed: outcome?.allowed === true, count: of.limit - (outcome?.remaining ?? 0) };
    };
    const estimate = take(ESTIMATE_OF_ALL).count;
    const exact = take(ALL).count;
    tally.requests += 1;
    if (estimate > LIMIT !== exact > LIMIT) tally.wrong += 1;
    tally.error += Math.abs(estimate - exact) / exact;
    if (take(LOG).allowed) tally.admittedByLog += 1;
    if (take(COUNTER).allowed) {
      tally.admitted += 1;
      tally.mostAdmitted = Math.max(tally.mostAdmitted, take(ADMITTED).count);
    }
  }
}

const conclude = (tally: Tally): Accuracy => ({
  requests: tally.requests,
  wrongShare: tally.wrong / tally.requests,
  meanError: tally.error / tally.requests,
  admittedRatio: tally.admitted / tally.admittedByLog,
  mostAdmitted: tally.mostAdmitted,
});

export function accuracyTable({ traffic, ...all }: AccuracyResult): Table {
  const row = (name: string, one: Accuracy) => [
    name,
    one.requests,
    percent(one.wrongShare, 3),
    percent(one.meanError, 1),
    percent(one.admittedRatio, 1),
    one.mostAdmitted,
  ];
  return {
    title: `Accuracy of sliding-window-counter against the exact log (limit ${LIMIT} a minute, seed ${SEED})`,
    head: ['traffic', 'requests', 'wrong', 'mean error', 'admitted of exact', 'most in a window'],
    rows: [...Object.entries(traffic).map(([name, one]) => row(name, one)), row('all', all)],
    notes: [
      'wrong: over the limit by the estimated count of all requests and not by the exact one, or the reverse.',
      `quiet: sources with ${LOADS.quiet.join(' to ')} times the limit on average; busy: ${LOADS.busy.join(' to ')} times.`,
      'admitted of exact, most in a window: by a limiter that counts only what it admits, as Weir does by default.',
      `Cloudflare published ${percent(PUBLISHED.wrongShare, 3)} wrong and ${percent(PUBLISHED.meanError, 0)} mean error for 400 million requests of 270,000 real`,
      'sources, of which few came near a limit. Here half are made to: the figure is for the worst traffic, not the usual.',
    ],
  };
}
