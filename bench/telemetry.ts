// What telemetry costs: processor time of the built Worker with one rule, with its telemetry and without. Two isolates
// of the same code differ by more than telemetry costs. So the bench compares each isolate with itself, and turns its
// telemetry on and off in turns.

import { CONCURRENCY, LEAST_MS } from './gateway/fresh-processes.ts';
import { ONE_RULE_PATH } from './gateway/limits.ts';
import { type Load, startLoad } from './gateway/load.ts';
import type { Bench, Table } from './shared/bench.ts';
import { tallyReasons, uncountedNotes } from './shared/reasons.ts';
import { median } from './shared/rounds.ts';
import { fixed, percent } from './shared/table.ts';
import { type SwitchedIsolates, startSwitchedIsolates } from './telemetry/isolates.ts';
import {
  FORMS,
  type Form,
  type MeasuredIsolate,
  measureIsolate,
  microsOf,
  pathShareOf,
  turn,
} from './telemetry/measure.ts';
import { profileShare } from './telemetry/profile.ts';

export const measures = 'the part of the processor time of a request that telemetry takes, with one rule';

export const keys = [
  ...['requests', 'uncounted', 'telemetryShare', 'pathShare', 'profileShare'],
  ...FORMS.map((form) => `cpu.${form}`),
];

const ISOLATES = 4;
const PROFILE_MS = 20_000;
const BUDGET = 0.03;

export const run: Bench = async (options) => {
  await using isolates = await startSwitchedIsolates(options.scaled(ISOLATES, 2), options);
  await using load = startLoad();
  const measured: MeasuredIsolate[] = [];
  for (const origin of isolates.urls) {
    measured.push(await measureIsolate({ target: targetAt(origin), load, pid: isolates.pid }, options));
    options.say(`${measured.length} of ${isolates.urls.length} isolates measured`);
  }
  const sampledShare = await profileFirst(isolates, load, options.scaled(PROFILE_MS, LEAST_MS));
  const cpuOf = (form: Form) => median(measured.map((isolate) => microsOf(isolate[form])));
  const slices = measured.flatMap((isolate) => FORMS.flatMap((form) => isolate[form]));
  const reasons = slices.flatMap(({ uncounted }) => uncounted);
  const found = {
    cpu: { oneRule: cpuOf('oneRule'), silentOneRule: cpuOf('silentOneRule') },
    shares: measured.map((isolate) => 1 - microsOf(isolate.silentOneRule) / microsOf(isolate.oneRule)),
    pathShares: measured.map(pathShareOf),
  };
  return {
    tables: [toTable({ ...found, profileShare: sampledShare }, reasons)],
    json: {
      requests: slices.reduce((sum, { requests }) => sum + requests, 0),
      uncounted: reasons.length,
      uncountedReasons: tallyReasons(reasons),
      telemetryShare: median(found.shares),
      pathShare: median(found.pathShares),
      profileShare: sampledShare,
      ...found,
    },
  };
};

const targetAt = (origin: string) => ({ origin, path: `${ONE_RULE_PATH}?bytes=256`, isWeir: true });

async function profileFirst(
  { urls, ...isolates }: SwitchedIsolates,
  load: Load,
  ms: number,
): Promise<number> {
  const target = targetAt(urls[0] ?? '');
  await turn(target.origin, 'oneRule');
  const work = async () => void (await load.run({ target, pace: { connections: CONCURRENCY }, ms }));
  return await profileShare({ ...isolates, work });
}

interface Found {
  readonly profileShare: number;
  readonly cpu: Readonly<Record<Form, number>>;
  /** The figure of each isolate. */
  readonly shares: readonly number[];
  readonly pathShares: readonly number[];
}

const toTable = (
  { cpu, shares, pathShares, profileShare: sampled }: Found,
  reasons: readonly string[],
): Table => ({
  title: `Telemetry in the processor time of a request with one rule, ${shares.length} isolates`,
  head: ['', 'median', 'least', 'most', 'budget'],
  rows: [
    ['CPU µs of workerd, with telemetry', fixed(cpu.oneRule, 0), '', '', ''],
    ['CPU µs of workerd, without', fixed(cpu.silentOneRule, 0), '', '', ''],
    ['the part of telemetry, of all requests', ...spread(shares), percent(BUDGET, 0)],
    ['the part of telemetry, in half of the rounds', ...spread(pathShares), ''],
    ['the part of telemetry, by samples of V8', percent(sampled), '', '', percent(BUDGET, 0)],
  ],
  notes: [
    ...uncountedNotes(reasons),
    'Of all requests: flushes included, twice as often as they are, because telemetry is off half of the time.',
    'In half of the rounds: the median of the rounds, most of which have no flush.',
    'By samples of V8: the first isolate alone, flushes included. The steadiest of the three on a busy machine.',
  ],
});

const spread = (shares: readonly number[]): string[] =>
  [median(shares), Math.min(...shares), Math.max(...shares)].map((share) => percent(share));
