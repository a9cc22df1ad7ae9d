// What it costs a region that its isolates ask for the announcement, on a gateway that locks as Upstash does: as a key of
// the script, as it once was, and with a GET in the same pipeline.
import { type Asked, type LocksResult, measureLocks } from './locks/measure.ts';
import type { Bench, Table } from './shared/bench.ts';
import { fixed } from './shared/table.ts';

/** Each isolate asks once. */
const ISOLATES = 1_000;
/**
 * How long a script keeps its locks is an assumption. Upstash has told of 1,000 runs on one key in 48 ms; with less than
 * a millisecond, timers here would be what is measured.
 */
const HOLD_MS = 1;
const ROUNDS = 3;

export const run: Bench = async ({ say }) => {
  const measured = await measureLocks({ isolates: ISOLATES, holdMs: HOLD_MS, rounds: ROUNDS, say });
  return { tables: [toTable(measured)], json: { isolates: ISOLATES, holdMs: HOLD_MS, ...measured } };
};

const toTable = ({ inKeys, inPipeline, ratio }: LocksResult): Table => ({
  title: `${ISOLATES} isolates ask at once what is announced, each with a take of its own subject`,
  head: ['announcement', 'ms for all', 'calls/s', 'waits for locks: median ms', 'p99 ms'],
  rows: [rowOf('a key of the script', inKeys), rowOf('GET in the pipeline', inPipeline)],
  notes: [
    `Medians of ${ROUNDS} rounds, in turns. What writes holds its locks for ${HOLD_MS} ms (assumed). Ratio of the times: ${fixed(ratio, 1)}.`,
    `${ISOLATES} isolates ask up to ${4 * ISOLATES} times a second. Client, gateway and Redis share this machine.`,
  ],
});

const rowOf = (form: string, { ms, waitMs, waitP99Ms }: Asked) => [
  form,
  fixed(ms, 0),
  fixed((ISOLATES * 1_000) / ms, 0),
  fixed(waitMs),
  fixed(waitP99Ms),
];
