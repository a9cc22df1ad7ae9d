// Puts one isolate under load, with its telemetry on and off in turns, and measures the processor time of each slice.
import type { Target } from '../gateway/candidates.ts';
import { cpuMicros } from '../gateway/cpu.ts';
import { CONCURRENCY, LEAST_MS, WARM_UP_REQUESTS } from '../gateway/fresh-processes.ts';
import type { Load } from '../gateway/load.ts';
import type { BenchOptions } from '../shared/bench.ts';
import { medianRatio } from '../shared/rounds.ts';

export const FORMS = ['oneRule', 'silentOneRule'] as const;
export type Form = (typeof FORMS)[number];

/** Paths of the switch in worker.ts. */
const SWITCH = { oneRule: '/on', silentOneRule: '/off' } as const;
const ROUNDS = 60;
const SLICE_MS = 250;

export interface Slice {
  readonly requests: number;
  /** Processor time of workerd in this slice. */
  readonly micros: number;
  readonly uncounted: readonly string[];
}

export type MeasuredIsolate = Readonly<Record<Form, readonly Slice[]>>;

export interface IsolateOptions {
  readonly target: Target;
  readonly load: Load;
  /** The process id of workerd. */
  readonly pid: number;
}

export async function measureIsolate(
  { target, load, pid }: IsolateOptions,
  { scaled }: BenchOptions,
): Promise<MeasuredIsolate> {
  const connections = { connections: CONCURRENCY };
  const warmUp = (warmUpRequests: number) => load.warmUp({ target, ...connections, warmUpRequests });
  await warmUp(scaled(WARM_UP_REQUESTS, CONCURRENCY));
  const slices: Record<Form, Slice[]> = { oneRule: [], silentOneRule: [] };
  for (let round = 0; round < scaled(ROUNDS, 2); round += 1)
    for (const form of FORMS) {
      await turn(target.origin, form);
      await warmUp(CONCURRENCY);
      const before = await cpuMicros(pid);
      const asked = { target, pace: connections, ms: scaled(SLICE_MS, LEAST_MS) };
      const { latenciesMs, uncounted } = await load.run(asked);
      const micros = (await cpuMicros(pid)) - before;
      slices[form].push({ requests: latenciesMs.length, micros, uncounted });
    }
  return slices;
}

export async function turn(url: string, form: Form): Promise<void> {
  const { status } = await fetch(`${url}${SWITCH[form]}`, { method: 'PUT' });
  if (status !== 204) throw new Error(`an isolate did not turn its telemetry: ${status}`);
}

/** For one request, over all slices. */
export const microsOf = (slices: readonly Slice[]): number =>
  sumOf(slices, ({ micros }) => micros) / sumOf(slices, ({ requests }) => requests);

/** From the median ratio of all rounds. */
export const pathShareOf = ({ oneRule, silentOneRule }: MeasuredIsolate): number =>
  1 - medianRatio(eachOf(silentOneRule), eachOf(oneRule));

const eachOf = (slices: readonly Slice[]) => slices.map(({ micros, requests }) => micros / requests);

const sumOf = (slices: readonly Slice[], figure: (slice: Slice) => number): number =>
  slices.reduce((sum, slice) => sum + figure(slice), 0);
