// One isolate: the real limiter with its own memory. It reaches the regions through the network.

import { OPERATIONS, type Operation } from '../../src/core/counting/check.ts';
import type { Decision } from '../../src/core/decision.ts';
import type { CallOf, CountCall, CounterStore } from '../../src/core/ports/region.ts';
import { createBreaker } from '../../src/core/regions/breaker.ts';
import { createCensus } from '../../src/core/regions/census.ts';
import { createLimiter, type DecisionRequest, type MakePlan } from '../../src/limiter/limiter.ts';
import type { LimiterRegion, Regions } from '../../src/limiter/region.ts';
import { createDistance, createRegionWatch } from '../../src/limiter/region.ts';
import type { Random } from '../random.ts';
import type { Call, Caller, Network } from './network.ts';
import { createPublishedSource, type Publication } from './publications.ts';
import type { RegionServer } from './region-server.ts';
import type { VirtualTime } from './virtual-time.ts';

export interface IsolateOptions {
  readonly caller: Caller;
  readonly servers: readonly RegionServer[];
  readonly network: Network;
  readonly time: VirtualTime;
  readonly random: Random;
  readonly skewMs: number;
  readonly deadlineMs: number;
  readonly shares: Readonly<Record<string, number>>;
  readonly publications: readonly Publication[];
  readonly inForce: number;
  /** Regions by number, nearest first. */
  readonly route: readonly number[];
  readonly onBug: (error: unknown) => void;
  /** Called for every call that is sent, before its fate is known. */
  readonly onCall: (call: SentCall) => SentCallWatch | undefined;
}

export interface SentCall {
  readonly caller: Caller;
  readonly region: number;
  readonly method: string;
  readonly args: readonly unknown[];
  readonly store: CounterStore;
}

/** Learns the fate of a call. */
export interface SentCallWatch {
  readonly tell?: (line: string) => void;
  readonly onRun?: (answer: unknown) => void;
}

export interface Isolate {
  readonly caller: Caller;
  decide(request: Pick<DecisionRequest, 'ledger' | 'afterResponse'>, plan: MakePlan): Promise<Decision>;
  /** The number of the region. Undefined if the store is this isolate's own. */
  regionOf(store: CounterStore): number | undefined;
  /** Regions that the isolate does not ask now, or that have not answered one of its calls since that moment. */
  unanswering(sinceMs: number): readonly number[];
  /** The true time of a moment by the clock of this isolate. */
  trueMs(ownMs: number): number;
}

const ISOLATES = 4;

export function createIsolate(options: IsolateOptions): Isolate {
  const { caller, time, deadlineMs, onBug, random, publications } = options;
  const now = () => time.now() + options.skewMs;
  const numbers = new Map<CounterStore, number>();
  const givenUpAtMs = new Map<number, number>();
  const regions = options.route.map((number) => {
    const store = createStore(options, number, () => givenUpAtMs.set(number, time.now()));
    numbers.set(store, number);
    return openRegion(options, { number, store, now });
  }) as unknown as Regions;
  const limiter = createLimiter({
    snapshots: createPublishedSource({ publications, now, random }, options.inForce),
    deadlineMs,
    shares: options.shares,
    capPerSecond: 0,
    isolateId: () => `isolate-${caller.number}`,
    now,
    onShadow: () => {},
    onBug,
  });
  return {
    caller,
    decide: async (request, plan) => limiter.decide({ regions, operation: 'take', ...request }, plan),
    regionOf: (store) => numbers.get(store),
    trueMs: (ownMs) => ownMs - options.skewMs,
    unanswering: (sinceMs) =>
      options.route.filter(
        (number, i) =>
          regions[i]?.breaker.state(now()) !== 'closed' || (givenUpAtMs.get(number) ?? 0) >= sinceMs,
      ),
  };
}

interface Opened {
  readonly number: number;
  readonly store: CounterStore;
  readonly now: () => number;
}

function openRegion(options: IsolateOptions, { number, store, now }: Opened): LimiterRegion {
  const { random, onBug, deadlineMs, servers, caller, network } = options;
  const { name } = servers[number] as RegionServer;
  const breaker = createBreaker({ random });
  const distance = createDistance(store, now);
  const call = <T>(signal: AbortSignal, about: string, execute: Call<T>['execute']) =>
    network.call({ caller, region: number, about, signal, execute });
  return {
    name,
    neighbours: neighboursOf(number, servers),
    store,
    breaker,
    distance,
    isCluster: false,
    watch: createRegionWatch({
      store,
      breaker,
      distance,
      probeMs: deadlineMs / 2,
      now,
      onBug,
      onScriptFailed: (said) => onBug(new Error(said)),
    }),
    pointer: {
      read: (signal) => call(signal, 'read', ({ announced }) => announced ?? undefined),
      write: async () => {},
      readPublished: async (parts) => parts.map(() => undefined),
      writeParts: async () => {},
    },
    census: createCensus({
      assumed: ISOLATES,
      present: (_, signal) => call(signal, 'present', ({ isolates }) => isolates),
    }),
  };
}

/** The same order for all isolates: the regions after it, then those before it. */
const neighboursOf = (region: number, servers: readonly RegionServer[]): string[] =>
  [...servers.slice(region + 1), ...servers.slice(0, region)].map(({ name }) => name);

/** Every method of a store is a call whose last argument is its signal. It runs where the region is. */
function createStore(
  { caller, network, onCall }: IsolateOptions,
  region: number,
  onGivenUp: () => void,
): CounterStore {
  const methods = new Map<string | symbol, unknown>();
  const create =
    (method: string) =>
    (...given: unknown[]) => {
      const [args, signal] = [given.slice(0, -1), given.at(-1) as AbortSignal];
      const watch = onCall({ caller, region, method, args, store });
      return network.call({
        caller,
        region,
        about: aboutOf(method, args[0]),
        signal,
        tell: watch?.tell,
        onGivenUp,
        execute(server) {
          const operation = operationOf(method);
          const answer = operation
            ? server.run(operation, args[0] as CallOf<typeof operation>)
            : (server as unknown as Record<string, (...args: unknown[]) => unknown>)[method]?.(...args);
          watch?.onRun?.(answer);
          return answer;
        },
      });
    };
  const store: CounterStore = new Proxy({} as CounterStore, {
    get(_, method) {
      const known = methods.get(method);
      // A promise that resolves to this store looks for a `then`.
      if (known || typeof method === 'symbol' || method === 'then') return known;
      const created = create(method);
      methods.set(method, created);
      return created;
    },
  });
  return store;
}

export const operationOf = (method: string): Operation | undefined =>
  OPERATIONS.find((operation) => operation === method);

const aboutOf = (method: string, first: unknown): string =>
  operationOf(method) ? method + ((first as CountCall).checks[0]?.key ?? '') : method;
