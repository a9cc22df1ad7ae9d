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

export type RegionObserver = ReturnType<typeof createRegionObserver>;

export function createRegionObserver(region: string, sums: MetricSums) {
  const billed = sums.series('billedCommands', region);
  const took = sums.series('redis', region);
  return {
    store: (store: CounterStore): CounterStore => ({
      ...store,
      ...observed(store, (call) => billed.add(commandsOf(call))),
    }),
    distance: <Distance extends { note(tookMs: number): void }>(distance: Distance): Distance => ({
      ...distance,
      note(tookMs: number) {
        took.add(tookMs);
        distance.note(tookMs);
      },
    }),
    watch: <Watch extends { note(error: unknown): void }>(watch: Watch): Watch => ({
      ...watch,
      note(error: unknown) {
        sums.series('redisErrors', region, reasonOf(error)).add();
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
