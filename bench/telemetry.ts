// What telemetry costs: processor time of the built Worker with one rule, with its telemetry and without. Two isolates of
// the same code differ by more than telemetry costs. So each isolate is compared with itself: its telemetry is turned on
// and off in turns.
import { ONE_RULE_PATH } from './gateway/limits.ts';
import { startLoad } from './gateway/load.ts';
import type { Bench, Table } from './shared/bench.ts';
import { tallyReasons, uncountedNotes } from './shared/reasons.ts';
import { median } from './shared/rounds.ts';
import { fixed, percent } from './shared/table.ts';
import { startSwitchedIsolates } from './telemetry/isolates.ts';
import {
  FORMS,
  type Form,
  type MeasuredIsolate,
  measureIsolate,
  microsOf,
  pathShareOf,
} from './telemetry/measure.ts';

export const measures = 'the part of the processor time of a request that telemetry takes, with one rule';

export const keys = [
  ...['requests', 'uncounted', 'telemetryShare', 'pathShare'],
  ...FORMS.map((form) => `cpu.${form}`),
];

const ISOLATES = 4;
const BUDGET = 0.03;

export const run: Bench = async (options) => {
  await using isolates = await startSwitchedIsolates(options.scaled(ISOLATES, 2), options);
  await using load = startLoad();
  const measured: MeasuredIsolate[] = [];
  for (const origin of isolates.urls) {
    const target = { origin, path: `${ONE_RULE_PATH}?bytes=256`, isWeir: true };
    measured.push(await measureIsolate({ target, load, pid: isolates.pid }, options));
    options.say(`${measured.length} of ${isolates.urls.length} isolates measured`);
  }
  const cpuOf = (form: Form) => median(measured.map((isolate) => microsOf(isolate[form])));
  const slices = measured.flatMap((isolate) => FORMS.flatMap((form) => isolate[form]));
  const reasons = slices.flatMap(({ uncounted }) => uncounted);
  const found = {
    cpu: { oneRule: cpuOf('oneRule'), silentOneRule: cpuOf('silentOneRule') },
    shares: measured.map((isolate) => 1 - microsOf(isolate.silentOneRule) / microsOf(isolate.oneRule)),
    pathShares: measured.map(pathShareOf),
  };
  return {
    tables: [toTable(found, reasons)],
    json: {
      requests: slices.reduce((sum, { requests }) => sum + requests, 0),
      uncounted: reasons.length,
      uncountedReasons: tallyReasons(reasons),
      telemetryShare: median(found.shares),
      pathShare: median(found.pathShares),
      ...found,
    },
  };
};

interface Found {
  readonly cpu: Readonly<Record<Form, number>>;
  /** Of each isolate. */
  readonly shares: readonly number[];
  readonly pathShares: readonly number[];
}

const toTable = ({ cpu, shares, pathShares }: Found, reasons: readonly string[]): Table => ({
  title: `Telemetry in the processor time of a request with one rule, ${shares.length} isolates`,
  head: ['', 'median', 'least', 'most', 'budget'],
  rows: [
    ['CPU µs of workerd, with telemetry', fixed(cpu.oneRule, 0), '', '', ''],
    ['CPU µs of workerd, without', fixed(cpu.silentOneRule, 0), '', '', ''],
    ['the part of telemetry, of all requests', ...spread(shares), percent(BUDGET, 0)],
    ['the part of telemetry, in half of the rounds', ...spread(pathShares), ''],
  ],
  notes: [
    ...uncountedNotes(reasons),
    'Of all requests: hand-overs included, twice as often as they are, because telemetry is off half of the time.',
    'In half of the rounds: the median of the rounds, most of which have no hand-over.',
  ],
});

const spread = (shares: readonly number[]): string[] =>
  [median(shares), Math.min(...shares), Math.max(...shares)].map((share) => percent(share));
