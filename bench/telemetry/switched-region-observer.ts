// Replaces src/telemetry/region-observer.ts: does the same, or nothing while turned off.
import { type CounterOperations, operationsBy } from '../../src/core/ports/region.ts';
import type { MetricSums } from '../../src/core/telemetry/metrics.ts';
import { createRegionObserver as create, type RegionObserver } from '../../src/telemetry/region-observer.ts';
import { telling } from './switch.ts';

export function createRegionObserver(region: string, sums: MetricSums): RegionObserver {
  const observer = create(region, sums);
  return {
    ...observer,
    store(store) {
      const observed: CounterOperations = observer.store(store);
      const plain: CounterOperations = store;
      return {
        ...store,
        ...operationsBy((operation, call, signal) =>
          (telling.isOn ? observed : plain)[operation](call, signal),
        ),
      };
    },
    distance(distance) {
      const observed = observer.distance(distance);
      return { ...distance, note: (tookMs) => (telling.isOn ? observed : distance).note(tookMs) };
    },
  };
}
