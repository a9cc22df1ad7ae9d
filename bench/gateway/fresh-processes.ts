// Puts Workers under load, each in a workerd process of its own, in turns and in short slices: a noisy machine slows
// all of them. Two isolates of the same code differ for as long as they live, because V8 compiles and lays out memory
// differently in each. So the bench repeats all of it several times, with fresh processes each time.
import type { BenchOptions } from '../shared/bench.ts';
import { interleave, type Slice } from '../shared/rounds.ts';
import type { Arena } from './arena.ts';
import { type Route, targetAt } from './candidates.ts';
import { cpuMicros } from './cpu.ts';
import type { Load, LoadResult } from './load.ts';
import type { Workerd } from './workerd.ts';

export interface ProcessesOptions<Name extends string> {
  readonly routes: Readonly<Record<Name, Route>>;
  readonly arena: Arena;
  /** Has published the rules. */
  readonly all: Workerd;
  readonly load: Load;
  /** These also take part in `MORE_RUNS`, because their differences are small. None by default. */
  readonly compared?: readonly NoInfer<Name>[];
}

/** One slice of load. */
export interface Round extends LoadResult {
  /** Processor time of the process, all threads together. */
  readonly cpuMicros: number;
}

/** The rounds of one run of fresh processes, by candidate; empty for those that did not take part. */
export type Run<Name extends string> = Readonly<Record<Name, readonly Round[]>>;

export const CONCURRENCY = 16;
/** The short form lets every connection ask. */
export const LEAST_MS = 10;
/** For each candidate. V8 compiles Weir's code until about this number, and the peer's until 9,000. */
export const WARM_UP_REQUESTS = 30_000;

const RUNS = 3;
const MORE_RUNS = 4;
/** Many, because slices of one process differ by half on a noisy machine. */
const ROUNDS = 8;
const SLICE_MS = 500;
/**
 * Before each slice. The process was idle while the others had their slices: its caches are cold, and the system may
 * have taken its pages. At first, a request costs up to half as much again.
 */
const WAKE_MS = 500;

export async function measureProcesses<Name extends string>(
  options: ProcessesOptions<Name>,
  bench: BenchOptions,
): Promise<Run<Name>[]> {
  const { routes, compared = [] } = options;
  const all = Object.keys(routes) as Name[];
  const runs: Run<Name>[] = [];
  const ofAll = bench.scaled(RUNS);
  const count = ofAll + (compared.length > 0 ? bench.scaled(MORE_RUNS, 0) : 0);
  for (let run = 1; run <= count; run += 1) {
    const measured = await measureOnce(run <= ofAll ? all : compared, options, bench);
    runs.push({ ...perName(all, () => []), ...measured });
    bench.say(`run ${run} of ${count}: measured`);
  }
  return runs;
}

async function measureOnce<Name extends string>(
  names: readonly Name[],
  { routes, arena, all, load }: ProcessesOptions<Name>,
  { say, scaled }: BenchOptions,
): Promise<Run<Name>> {
  await using processes = new AsyncDisposableStack();
  const rounds = perName(names, (): Round[] => []);
  const slices: Record<string, Slice> = {};
  const warmUpRequests = scaled(WARM_UP_REQUESTS, CONCURRENCY);
  // The short form starts a process for only one candidate.
  const alone = names.slice(0, scaled(names.length));
  for (const name of names) {
    const route = routes[name];
    const isAlone = alone.includes(name);
    const { pid, urls } = isAlone ? processes.use(await arena.serveAlone(route.worker, all)) : all;
    const target = targetAt(urls, route);
    const ask = (ms: number) =>
      load.run({ target, pace: { connections: CONCURRENCY }, ms: scaled(ms, LEAST_MS) });
    await load.warmUp({ target, connections: CONCURRENCY, warmUpRequests });
    slices[name] = async () => {
      await ask(WAKE_MS);
      const before = await cpuMicros(pid);
      const result = await ask(SLICE_MS);
      return rounds[name].push({ ...result, cpuMicros: (await cpuMicros(pid)) - before });
    };
  }
  await interleave(slices, { rounds: scaled(ROUNDS), say });
  return rounds;
}

/**
 * Processor time for one request, over all slices of a process; NaN if it took part in none. No median of slices: that
 * would leave out a long collection of garbage, which falls into one slice and is paid for by all requests.
 */
export const microsOf = (rounds: readonly Round[]): number =>
  sumOf(rounds, ({ cpuMicros }) => cpuMicros) / sumOf(rounds, ({ latenciesMs }) => latenciesMs.length);

const sumOf = (rounds: readonly Round[], figure: (round: Round) => number): number =>
  rounds.reduce((sum, round) => sum + figure(round), 0);

const perName = <Name extends string, T>(names: readonly Name[], make: (name: Name) => T) =>
  Object.fromEntries(names.map((name) => [name, make(name)])) as Record<Name, T>;
