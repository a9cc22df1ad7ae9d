// The table of `npm run simulate -- --scale`, as text for a page of docs.
import { MAX_ISOLATES, UPSTASH_COMMANDS_PER_SECOND } from './costs.ts';
import { type Needs, needsOf } from './model.ts';
import { type Band, zipfBands } from './zipf.ts';

export const SUBJECTS = 10_000_000;
export const RATES = [1_000, 10_000, 100_000, 1_000_000, 10_000_000];
const REGIONS = [3, 12];
const EVERYBODY: readonly Band[] = [{ subjects: 1, part: 1 }];

export interface Row extends Needs {
  readonly perSecond: number;
  readonly regions: number;
  readonly rule: 'each caller' | 'everybody';
  readonly isLeased: boolean;
  readonly endsFirst: string;
}

export function scaleRows(): Row[] {
  const callers = zipfBands(SUBJECTS);
  const rules = [
    { rule: 'each caller', bands: callers, isLeased: true },
    { rule: 'everybody', bands: EVERYBODY, isLeased: true },
    { rule: 'everybody', bands: EVERYBODY, isLeased: false },
  ] as const;
  return rules.flatMap(({ rule, bands, isLeased }) =>
    REGIONS.flatMap((regions) =>
      RATES.map((perSecond) => {
        const needs = needsOf({ perSecond, regions, bands, isLeased });
        return { perSecond, regions, rule, isLeased, ...needs, endsFirst: endsFirst(needs) };
      }),
    ),
  );
}

/** The resource that runs out first: the one with the largest need relative to what there is. */
function endsFirst({ commands, redisLoad, isolates }: Needs): string {
  const needed = [
    { name: 'commands', of: commands / UPSTASH_COMMANDS_PER_SECOND },
    { name: 'Redis thread', of: redisLoad },
    { name: 'isolates', of: (isolates + 1) / MAX_ISOLATES },
  ].toSorted((a, b) => b.of - a.of);
  const [worst] = needed;
  return worst && worst.of > 1 ? `${worst.name} (${short(worst.of)} ×)` : '–';
}

const HEAD = [
  ...['counted', 'leases', 'requests/s', 'regions', 'isolates', 'commands/s and region', 'commands/request'],
  ...['hottest key, calls/s', 'Redis memory MB', 'dollars a month', 'ends first'],
];

export const renderRows = (rows: readonly Row[]): string =>
  [HEAD, HEAD.map((_, i) => (i < 2 || i === HEAD.length - 1 ? '---' : '--:')), ...rows.map(cellsOf)]
    .map((cells) => `| ${cells.join(' | ')} |`)
    .join('\n');

const cellsOf = (row: Row): string[] => [
  row.rule,
  row.isLeased ? 'on' : 'off',
  short(row.perSecond),
  String(row.regions),
  short(row.isolates),
  short(row.commands),
  short(row.commandsPerRequest),
  short(row.hottestKey),
  short(row.memoryMb),
  short(row.dollarsPerMonth),
  row.endsFirst,
];

/** A model knows no more than two digits. */
const short = (value: number): string =>
  Number(value.toPrecision(2)).toLocaleString('en-US', { maximumFractionDigits: 4 });
