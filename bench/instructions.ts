// The instructions that workerd runs for one request, of Weir and of its peers. Processor time on a shared
// machine differs by a third between two processes of the same code. The number of instructions differs less.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Arena, startArena } from './gateway/arena.ts';
import { LABELS, ROUTES, targetAt } from './gateway/candidates.ts';
import { startLoad } from './gateway/load.ts';
import type { Workerd } from './gateway/workerd.ts';
import {
  type Callgrind,
  countInstructions,
  findOrInstallCallgrind,
  underCallgrind,
} from './instructions/callgrind.ts';
import type { Bench, BenchOptions, BenchResult } from './shared/bench.ts';
import { median } from './shared/rounds.ts';
import { fixed } from './shared/table.ts';

export const measures =
  'instructions of workerd for one request, beside @upstash/ratelimit with the same duties';

const NAMES = [
  'proxy',
  'oneRule',
  'oneRegionOneRule',
  'fiveRules',
  'fairUpstashOne',
  'fairUpstashFive',
] as const;
type Name = (typeof NAMES)[number];
type PerName<T> = Readonly<Record<Name, T>>;

/** Compares what each needs more than the proxy. */
const PAIRS = [
  { above: 'oneRule', below: 'fairUpstashOne', atMost: 1 },
  { above: 'oneRegionOneRule', below: 'fairUpstashOne', atMost: 1 },
  { above: 'fiveRules', below: 'fairUpstashFive', atMost: 0.4 },
] as const;
const nameOf = ({ above, below }: (typeof PAIRS)[number]) => `${above}/${below}`;

export const keys = [
  ...NAMES.flatMap((name) => [`instructions.${name}`, `overProxy.${name}`]),
  ...PAIRS.map((pair) => `ratios.${nameOf(pair)}`),
];

/** Processes of the same code differ by what V8 compiles and by where the allocator puts memory. */
const RUNS = 3;
/** V8 has compiled nearly all of Weir's code by then. */
const WARM_UP_REQUESTS = 30_000;
const BEFORE_REQUESTS = 500;
/** So many that several garbage collections of all kinds fall into them. */
const REQUESTS = 4_000;
/** Two processes at once: the counts of one do not depend on the other. */
const AT_ONCE = 2;
const CONNECTIONS = 4;

export const run: Bench = async (options) => {
  const callgrind = await findOrInstallCallgrind(options);
  if (!callgrind) return resultOf({}, ['Valgrind, which counts instructions, runs on Linux only.']);
  await using arena = await startArena(options);
  await using all = await arena.serve();
  const counts: Partial<Record<Name, number[]>> = {};
  // The short form counts only one candidate, because Valgrind takes seconds to start.
  const names = NAMES.slice(0, options.scaled(NAMES.length));
  const waiting = Array.from({ length: options.scaled(RUNS) }, () => names).flat();
  const countAll = async () => {
    for (let name = waiting.shift(); name; name = waiting.shift()) {
      const counted = await count(name, { callgrind, arena, all }, options);
      counts[name] = [...(counts[name] ?? []), counted];
      options.say(`${name}: ${Math.round(counted)} instructions; ${waiting.length} processes to go`);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, countAll));
  return resultOf(counts);
};

interface Counting {
  readonly callgrind: Callgrind;
  readonly arena: Arena;
  readonly all: Workerd;
}

/** For one request. */
async function count(name: Name, { callgrind, arena, all }: Counting, { scaled }: BenchOptions) {
  await using cleanup = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'weir-instructions-bench-'));
  cleanup.defer(() => rm(folder, { recursive: true, force: true }));
  const load = cleanup.use(startLoad());
  const file = join(folder, 'callgrind');
  const under = underCallgrind(callgrind, file);
  const { pid, urls } = cleanup.use(await arena.serveAlone(ROUTES[name].worker, all, { under }));
  const target = targetAt(urls, ROUTES[name]);
  const ask = (requests: number) =>
    load.warmUp({ target, connections: CONNECTIONS, warmUpRequests: requests });
  await ask(scaled(WARM_UP_REQUESTS, CONNECTIONS));
  const requests = scaled(REQUESTS, CONNECTIONS);
  const before = () => ask(scaled(BEFORE_REQUESTS, CONNECTIONS));
  const total = await countInstructions(callgrind, { pid, file, before, work: () => ask(requests) });
  return total / requests;
}

function resultOf(counts: Partial<PerName<number[]>>, notes: readonly string[] = []): BenchResult {
  const instructions = Object.fromEntries(
    NAMES.map((name) => [name, counts[name] ? median(counts[name]) : Number.NaN]),
  ) as PerName<number>;
  const over = (name: Name) => instructions[name] - instructions.proxy;
  const ratios = Object.fromEntries(
    PAIRS.map((pair) => [nameOf(pair), over(pair.above) / over(pair.below)] as const),
  );
  const thousands = (count: number) => (count / 1_000).toFixed(0);
  return {
    tables: [
      {
        title: 'Instructions of workerd for one request, in thousands',
        head: ['', 'all', 'over the proxy', 'all, by process'],
        notes,
        rows: NAMES.map((name) => [
          LABELS[name],
          thousands(instructions[name]),
          thousands(over(name)),
          (counts[name] ?? []).map(thousands).join(' '),
        ]),
      },
      {
        title: 'Instructions over the proxy, compared',
        head: ['', 'times', 'wanted', ''],
        rows: PAIRS.map((pair) => {
          const times = ratios[nameOf(pair)] ?? Number.NaN;
          const isMet = times <= pair.atMost ? 'yes' : 'no';
          return [`${LABELS[pair.above]} / ${LABELS[pair.below]}`, fixed(times), `≤ ${pair.atMost}`, isMet];
        }),
      },
    ],
    json: {
      instructions,
      counts,
      overProxy: Object.fromEntries(NAMES.map((name) => [name, over(name)])),
      ratios,
    },
  };
}
