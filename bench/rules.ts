// Rules on their way to the edge: what matching costs, how large all rules are, and how fast a change arrives.
import { type MatchMicros, measureMatch, measureSnapshot, type SnapshotSize } from './rules/match.ts';
import { measurePropagation, type Propagation } from './rules/propagation.ts';
import type { Bench, Table } from './shared/bench.ts';

const MANY = 10_000;
const USUAL = 100;

export const run: Bench = async ({ say }) => {
  const match = await measureMatch();
  say('matching: measured');
  const snapshot = await measureSnapshot(MANY);
  say('snapshot: measured');
  const propagation = await measurePropagation(USUAL, say);
  const propagationOfMany = await measurePropagation(MANY, say);
  return {
    tables: [
      matchTable(match),
      snapshotTable(snapshot),
      propagationTable({ [USUAL]: propagation, [MANY]: propagationOfMany }),
    ],
    json: { match, snapshot, propagation, propagationOfMany },
  };
};

const matchTable = (match: MatchMicros): Table => ({
  title: 'Finding the rules that apply to a request',
  head: ['rules', 'µs', 'times that of 10'],
  rows: ([10, 1000, 10_000] as const).map((count) => [
    count,
    match[count].toFixed(2),
    (match[count] / match[10]).toFixed(2),
  ]),
  notes: [
    'Each request meets the same rules in all three sets. Wanted: at most 1.5 times with 10,000 rules.',
  ],
});

const snapshotTable = ({ bytes, compileMs }: SnapshotSize): Table => ({
  title: `A snapshot of ${MANY} rules`,
  head: ['', ''],
  rows: [
    ['bytes in KV', bytes],
    ['ms from text to matcher', compileMs.toFixed(1)],
  ],
});

const propagationTable = (measured: Readonly<Record<number, Propagation>>): Table => ({
  title: 'From a PATCH to its enforcement in three isolates and three regions',
  head: ['rules', 'p50 ms', 'max ms'],
  rows: Object.entries(measured).map(([count, { p50, max }]) => [count, p50.toFixed(0), max.toFixed(0)]),
  notes: ['All on one machine, KV included: at the edge, writing to KV and reading from it take longer.'],
});
