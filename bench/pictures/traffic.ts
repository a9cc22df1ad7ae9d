// Runs one sequence of requests through every algorithm, by the engine itself on a given clock.
import { ALGORITHM_IDS, type AlgorithmId } from '../../src/core/counting/algorithms/registry.ts';
import type { Check } from '../../src/core/counting/check.ts';
import { createMemoryCounters, runChecks } from '../../src/core/counting/counters.ts';

export const LIMIT = 10;
export const WINDOW_MS = 10_000;
export const LENGTH_MS = 45_000;
/** The beginning of a window, because windows are aligned to the clock. */
const START_MS = 1_800_000_000_000;
const SAMPLE_MS = 50;
const BURST = 3;
const SEAT_MS = 3_000;

const evenly = (count: number, fromMs: number, untilMs: number) =>
  Array.from({ length: count }, (_, i) => Math.round(fromMs + (i * (untilMs - fromMs)) / count));

/** A burst; a steady stream; two bursts on either side of a window's border; a faster stream. */
const REQUESTS = [
  ...evenly(25, 2_000, 3_000),
  ...evenly(16, 7_000, 15_000),
  ...evenly(10, 29_500, 30_000),
  ...evenly(10, 30_000, 30_500),
  ...evenly(27, 35_000, 44_000),
];

export interface Story {
  readonly algorithm: AlgorithmId;
  /** What is special about the algorithm, in few words. */
  readonly note: string;
  readonly admittedMs: readonly number[];
  readonly deniedMs: readonly number[];
  /** When each waiting request has its turn. */
  readonly turnsMs: readonly number[];
  /** The remaining units, wherever they change. */
  readonly remaining: readonly (readonly [atMs: number, units: number])[];
  /** The most admitted in any window of the true length. */
  readonly most: number;
}

/** An algorithm without a note is drawn without one. */
const NOTES: Readonly<Partial<Record<AlgorithmId, string>>> = {
  'fixed-window': 'windows of 10 s by the clock',
  'sliding-window-log': 'exact',
  'sliding-window-counter': 'estimated from two windows',
  'sliding-window-buckets': 'ten buckets of 1 s',
  'token-bucket': 'one token a second, up to 10',
  'leaky-bucket': 'one leaks a second: ○ its turn',
  gcra: `one a second, bursts of ${BURST}`,
  concurrency: `10 at once, ${SEAT_MS / 1_000} s each`,
};

export const tellStories = (): Story[] => ALGORITHM_IDS.map(tellStory);

function tellStory(algorithm: AlgorithmId): Story {
  const counters = createMemoryCounters();
  const ask = (operation: 'take' | 'peek', atMs: number, name: string) => {
    const check = checkOf(algorithm, name);
    const [outcome] = runChecks(operation, [check], START_MS + atMs, counters).outcomes;
    if (!outcome) throw new Error('a check has one outcome');
    return outcome;
  };
  const [admittedMs, deniedMs, turnsMs]: number[][] = [[], [], []];
  const remaining: [number, number][] = [];
  const moments = [...REQUESTS.map((atMs) => ({ atMs, isRequest: true })), ...samples()];
  for (const { atMs, isRequest } of moments.sort((a, b) => a.atMs - b.atMs)) {
    const outcome = ask(isRequest ? 'take' : 'peek', atMs, isRequest ? `${atMs}` : 'look');
    if (outcome.remaining !== remaining.at(-1)?.[1]) remaining.push([atMs, outcome.remaining]);
    if (!isRequest) continue;
    (outcome.allowed ? admittedMs : deniedMs)?.push(atMs);
    if (outcome.allowed && algorithm === 'leaky-bucket') turnsMs?.push(atMs + outcome.delayMs);
  }
  return {
    algorithm,
    note: NOTES[algorithm] ?? '',
    admittedMs: admittedMs ?? [],
    deniedMs: deniedMs ?? [],
    turnsMs: turnsMs ?? [],
    remaining,
    most: mostInWindow(admittedMs ?? []),
  };
}

const samples = () =>
  Array.from({ length: LENGTH_MS / SAMPLE_MS }, (_, i) => ({ atMs: i * SAMPLE_MS, isRequest: false }));

function checkOf(algorithm: AlgorithmId, name: string): Check {
  const common = { key: 'someone', id: algorithm, algorithm, limit: LIMIT, cost: 1 };
  if (algorithm === 'concurrency') return { ...common, windowMs: SEAT_MS, seatId: name.padStart(16, '-') };
  return { ...common, windowMs: WINDOW_MS, extra: algorithm === 'gcra' ? BURST : undefined };
}

const mostInWindow = (times: readonly number[]) =>
  Math.max(...times.map((end) => times.filter((at) => at <= end && at > end - WINDOW_MS).length));
