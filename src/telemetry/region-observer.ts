// Counts the calls to one region by wrapping the parts that see each call anyway. It delays no call and awaits nothing.
import { keysOf } from '../core/counting/check.ts';
import {
  type CountCall,
  type CounterOperations,
  type CounterStore,
  CounterStoreError,
  operationsBy,
} from '../core/ports/region.ts';
import type { MetricSums } from '../core/telemetry/metrics.ts';

interface Observed {
  readonly store: CounterStore;
  readonly distance: { note(tookMs: number): void };
  readonly watch: { note(error: unknown): void };
}

export interface RegionObserver {
  store(store: Observed['store']): CounterStore;
  distance<Distance extends Observed['distance']>(distance: Distance): Distance;
  watch<Watch extends Observed['watch']>(watch: Watch): Watch;
}

export function createRegionObserver(region: string, sums: MetricSums): RegionObserver {
  const billed = sums.counter('billedCommands', region);
  const took = sums.histogram('redis', region);
  return {
    store: (store) => ({
      ...store,
      ...observed(store, (call) => billed.add(commandsOf(call))),
    }),
    distance: (distance) => ({
      ...distance,
      note(tookMs) {
        took.observe(tookMs);
        distance.note(tookMs);
      },
    }),
    watch: (watch) => ({
      ...watch,
      note(error) {
        sums.counter('redisErrors', region, reasonOf(error)).add();
        watch.note(error);
      },
    }),
  };
}

const observed = (operations: CounterOperations, note: (call: CountCall) => void): CounterOperations =>
  operationsBy((operation, call, signal) => {
    note(call);
    return operations[operation](call, signal);
  });

const reasonOf = (error: unknown) => (error instanceof CounterStoreError ? error.failure : 'internal-error');

/** As Upstash bills an admitted call: EVALSHA, TIME, a read, a write for each key. A denied one costs less. */
function commandsOf({ checks, withAnnouncement }: CountCall): number {
  // One check has one key, and most calls have one check.
  const keys = checks.length === 1 ? 1 : keysOf(checks).length;
  return 3 + keys + (withAnnouncement ? 1 : 0);
}
