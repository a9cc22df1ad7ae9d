// Fake regions that fail, hang and answer on command. A journal notes each call and its time.
import type { Operation, Outcome } from '../../src/core/counting/check.ts';
import { PROBE_CHECKS } from '../../src/core/counting/counters.ts';
import type { RulesPointer } from '../../src/core/ports/region.ts';
import {
  type CounterStore,
  CounterStoreError,
  type CounterStoreFailure,
} from '../../src/core/ports/region.ts';
import { createBreaker } from '../../src/core/regions/breaker.ts';
import { type CensusOptions, createCensus } from '../../src/core/regions/census.ts';
import type { LimiterRegion, Regions } from '../../src/limiter/region.ts';
import { createDistance, createRegionWatch } from '../../src/limiter/region.ts';
import { type RunAny, storeOperations } from '../shared/any-call.ts';

export const START_MS = 1_800_000_000_000;
export const DEADLINE_MS = 256;

/** The counter is hardly used, so the isolate asks no other region for its part. */
const admitted = { allowed: true, remaining: 10, resetAtMs: 1, retryAfterMs: 0, granted: 0, delayMs: 0 };
type Run = RunAny;
export const fails = (failure: CounterStoreFailure) => () =>
  Promise.reject(new CounterStoreError(failure, 'x'));
export const never = () => new Promise<never>(() => {});
/** Hangs until it is aborted, as a fetch would be. */
export const hangs = (signal: AbortSignal) =>
  new Promise<never>((_, reject) => {
    const end = () => reject(new CounterStoreError('timeout', 'x'));
    if (signal.aborted) end();
    else signal.addEventListener('abort', end);
  });
export const hangingRun: Run = (_, signal) => hangs(signal);
export const answers =
  (outcome: Partial<Outcome> = {}): Run =>
  async ({ checks }) => ({ nowMs: START_MS, outcomes: checks.map(() => ({ ...admitted, ...outcome })) });
export const denies = (retryAfterMs: number) => answers({ allowed: false, retryAfterMs });
export interface Behaviour {
  run: Run;
  /** Sent with the answer if the call asks for it. Undefined if it cannot be read. */
  announces: string | null | undefined;
  read: RulesPointer['read'];
  present: CensusOptions['present'];
}
interface Situation extends Partial<Behaviour> {
  /** By default no other region stands in for this one. */
  readonly neighbours?: readonly string[];
  readonly isCluster?: boolean;
  /** How many isolates share the region, until it tells another number. */
  readonly isolates?: number;
  readonly tell?: (line: string) => void;
}
export interface FakeRegion extends LimiterRegion {
  /** Tests can change this at any time. */
  readonly does: Behaviour;
  /** Opens the breaker, like five failures in a row. */
  readonly trip: () => void;
  /** What the isolate has reported to operators about the region. */
  readonly reported: string[];
  /** Calls after a response that have not been answered yet. */
  readonly inFlight: () => readonly string[];
}

/**
 * Work after a response takes this long, so that work that nobody waits for would be missing. The census comes with
 * many requests, and must not give other work the time to finish.
 */
export const LATE_MS = 10;
const PRESENT_MS = 1;
const DURING_REQUESTS: readonly Operation[] = ['take', 'peek'];

export function createRegion(
  name: string,
  { tell, isCluster = false, neighbours = [], isolates = 1, ...does }: Situation,
): FakeRegion {
  const behaviour: Behaviour = {
    run: answers(),
    announces: 'this',
    read: async () => behaviour.announces ?? undefined,
    present: async () => 1,
    ...does,
  };
  const breaker = createBreaker({ random: () => 0.5 });
  const reported: string[] = [];
  const inFlight: string[] = [];
  const later = async <T>(what: string, work: () => Promise<T>): Promise<T> => {
    inFlight.push(`${name} ${what}`);
    const lateMs = what === 'present' ? PRESENT_MS : LATE_MS;
    await new Promise((resolve) => setTimeout(resolve, lateMs));
    return work().finally(() => inFlight.splice(inFlight.indexOf(`${name} ${what}`), 1));
  };
  const store: CounterStore = {
    ...storeOperations(async (call, signal) => {
      const { operation, withAnnouncement } = call;
      tell?.(`${name} ${operation}${withAnnouncement ? ' with announcement' : ''}`);
      const run = async () => {
        const answer = await behaviour.run(call, signal);
        return withAnnouncement ? { ...answer, announced: behaviour.announces } : answer;
      };
      return DURING_REQUESTS.includes(operation) ? run() : later(operation, run);
    }),
    reset: async () => {},
    async probe(signal) {
      tell?.(`${name} probe`);
      await later('probe', () => behaviour.run({ operation: 'take', checks: PROBE_CHECKS }, signal));
    },
  };
  const distance = createDistance(store, () => Date.now());
  const watch = createRegionWatch({
    store,
    breaker,
    distance,
    probeMs: DEADLINE_MS / 2,
    now: () => Date.now(),
    onScriptFailed: (said, isBroken) => void reported.push(`${isBroken ? 'broken' : 'failed'}: ${said}`),
    onBug: (error) => void reported.push(String(error)),
  });
  return {
    ...{ name, neighbours, isCluster, breaker, distance, store, watch, reported },
    inFlight: () => inFlight,
    does: behaviour,
    trip() {
      for (let i = 0; i < 5; i += 1) breaker.fail(breaker.enter() ?? -1, Date.now());
    },
    pointer: {
      async read(signal) {
        tell?.(`${name} read`);
        return behaviour.read(signal);
      },
      write: async () => {},
      readPublished: async (parts) => parts.map(() => undefined),
      writeParts: async () => {},
    },
    census: createCensus({
      assumed: isolates,
      async present(isolateId, signal) {
        tell?.(`${name} present ${isolateId}`);
        return later('present', () => behaviour.present(isolateId, signal));
      },
    }),
  };
}

/** Each call, and how many milliseconds after the start it was made. */
export function createJournal() {
  const lines: string[] = [];
  return { lines, tell: (line: string) => void lines.push(`${Date.now() - START_MS} ${line}`) };
}

/** `owner` and `next`, and what they do. Without `next` there is only one. */
export function createRegions(owner: Situation, next?: Situation) {
  const { lines, tell } = createJournal();
  const [first, second] = [
    createRegion('owner', { tell, ...owner }),
    createRegion('next', { tell, ...next }),
  ];
  const regions: Regions = next ? [first, second] : [first];
  return { owner: first, next: second, regions, asked: lines, tell };
}
