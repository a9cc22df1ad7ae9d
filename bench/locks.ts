// Measures what it costs a region that all its isolates read the announcement, on a gateway that locks as Upstash does:
// as a key of the script, as in an earlier version, and with a GET in the same pipeline.
import { type Asked, type LocksOptions, type LocksResult, measureLocks } from './locks/measure.ts';
import type { Bench, Table } from './shared/bench.ts';
import { tallyReasons, uncountedNotes } from './shared/reasons.ts';
import { fixed } from './shared/table.ts';

/** Each isolate asks once. */
const ISOLATES = 1_000;
/** The short form has enough isolates to wait for each other. */
const LEAST_ISOLATES = 10;
/**
 * How long a script keeps its locks is an assumption. Upstash has reported 1,000 runs on one key in 48 ms. With less
 * than a millisecond, the bench would measure the timers of this machine.
 */
const HOLD_MS = 1;
const ROUNDS = 3;

export const measures =
  'what it costs that all isolates of a region read one key, on a gateway that locks as Upstash does';

export const keys = [
  ...['isolates', 'holdMs', 'requests', 'uncounted', 'ratio'],
  ...['inKeys', 'inPipeline'].flatMap((form) =>
    ['ms', 'waitMs', 'waitP99Ms'].map((figure) => `${form}.${figure}`),
  ),
];

export const run: Bench = async ({ say, scaled }) => {
  const size = { isolates: scaled(ISOLATES, LEAST_ISOLATES), holdMs: HOLD_MS, rounds: scaled(ROUNDS) };
  const { uncounted, ...measured } = await measureLocks({ ...size, say });
  return {
    tables: [toTable({ uncounted, ...measured }, size)],
    json: {
      ...size,
      ...measured,
      uncounted: uncounted.length,
      uncountedReasons: tallyReasons(uncounted),
    },
  };
};

type Size = Pick<LocksOptions, 'isolates' | 'rounds'>;

const toTable = (
  { inKeys, inPipeline, ratio, uncounted }: LocksResult,
  { isolates, rounds }: Size,
): Table => ({
  title: `${isolates} isolates ask at once what is announced, each with a take of its own subject`,
  head: ['announcement', 'ms for all', 'calls/s', 'waits for locks: median ms', 'p99 ms'],
  rows: [rowOf('a key of the script', inKeys, isolates), rowOf('GET in the pipeline', inPipeline, isolates)],
  notes: [
    ...uncountedNotes(uncounted),
    `Medians of ${rounds} rounds, in turns. What writes holds its locks for ${HOLD_MS} ms (assumed). Ratio of the times: ${fixed(ratio, 1)}.`,
    `${isolates} isolates ask up to ${4 * isolates} times a second. Client, gateway and Redis share this machine.`,
  ],
});

const rowOf = (form: string, { ms, waitMs, waitP99Ms }: Asked, isolates: number) => [
  form,
  fixed(ms, 0),
  fixed((isolates * 1_000) / ms, 0),
  fixed(waitMs),
  fixed(waitP99Ms),
];
