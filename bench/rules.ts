// Measures rules on their way to the edge: what matching costs, how large all rules are, and how fast a change arrives.
import { startWeir } from '../local/weir.ts';
import { type MatchMicros, measureMatch, measureSnapshot, type SnapshotSize } from './rules/match.ts';
import { GIVE_UP_MS, measurePropagation, type Propagation } from './rules/propagation.ts';
import type { Bench, Table } from './shared/bench.ts';
import { tallyReasons, uncountedNotes } from './shared/reasons.ts';

const MANY = 10_000;
const USUAL = 100;

export const measures =
  'matching, the size of all rules, and how long a change takes to be in force everywhere';

export const keys = [
  ...[10, 1000, 10_000].map((rules) => `match.${rules}`),
  ...['bytes', 'compileMs'].map((figure) => `snapshot.${figure}`),
  ...['propagation', 'propagationOfMany'].flatMap((set) =>
    ['rules', 'p50', 'max', 'changes', 'unenforced'].map((figure) => `${set}.${figure}`),
  ),
];

export const run: Bench = async (options) => {
  const { say, scaled, parts } = options;
  const match = await measureMatch(options);
  say('matching: measured');
  const snapshot = await measureSnapshot(MANY, options);
  say('snapshot: measured');
  await using weir = await startWeir({}, parts);
  const measured = await measurePropagation(weir, [scaled(USUAL), scaled(MANY)], options);
  const [propagation, propagationOfMany] = measured.map(inNumbers);
  const uncountedReasons = tallyReasons(reasonsOf(measured));
  return {
    tables: [matchTable(match), snapshotTable(snapshot), propagationTable(measured)],
    json: { match, snapshot, propagation, propagationOfMany, uncountedReasons },
  };
};

const inNumbers = (one: Propagation) => ({ ...one, unenforced: one.unenforced.length });
/** The reasons of every place that was too late. */
const reasonsOf = (measured: readonly Propagation[]) =>
  measured.flatMap(({ unenforced }) => unenforced.flat());

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

const propagationTable = (measured: readonly Propagation[]): Table => ({
  title: 'From a PATCH to its enforcement in three isolates and three regions',
  head: ['rules', 'p50 ms', 'max ms', 'changes', 'not in force in time'],
  rows: measured.map(({ rules, p50, max, changes, unenforced }) => [
    rules,
    p50.toFixed(0),
    max.toFixed(0),
    changes,
    unenforced.length,
  ]),
  notes: [
    ...uncountedNotes(reasonsOf(measured)),
    `In time: within ${GIVE_UP_MS / 1_000} s. Changes that take longer are left out of the times.`,
    'All on one machine, KV included: at the edge, writing to KV and reading from it take longer.',
  ],
});
