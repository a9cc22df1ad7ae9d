// Prints the summary of a run as tables, or as figures.
import { fixed, renderTable } from '../../bench/shared/table.ts';
import { SIMULATED, SIZES } from './rule-sets.ts';
import { belowFloors, hasFailed, type Summary, usedBy, utilizationOf } from './summary.ts';
import { TRAFFICS, type Traffic } from './traffic.ts';
import type { Used } from './usage.ts';

const SIZE_NAMES = SIZES.map(({ limit, windowSeconds }) => `${limit}/${windowSeconds}s`);

export function renderSummary(summary: Summary): string {
  const { requests, episodes } = summary;
  const counts = {
    title: `${requests} requests in ${episodes} episodes`,
    head: ['', 'requests'],
    rows: [
      ...(['admitted', 'denied', 'degraded', 'leased', 'undecided'] as const).map((name) => [
        name,
        summary[name],
      ]),
      ['counted by stand-ins', summary.stoodIn],
      ['degraded where nothing is in the way', summary.degradedInPeace],
      ['far calls a request, faults included', fixed(summary.farCalls / requests, 3)],
      ['limits exceeded', summary.over],
    ],
  };
  const byAlgorithm = tableOf(summary, 'algorithm', SIMULATED);
  const bySize = tableOf(summary, 'size', SIZE_NAMES);
  return [counts, byAlgorithm, bySize].map(renderTable).join('\n\n');
}

const tableOf = (summary: Summary, by: 'algorithm' | 'size', names: readonly string[]) => ({
  title:
    'Used, of what one counter with the whole limit admits; and far calls a request; where nothing is in the way',
  head: [by, ...TRAFFICS.flatMap((traffic) => [traffic, 'far'])],
  rows: names.map((name) => [
    name,
    ...TRAFFICS.flatMap((traffic) => {
      const used = usedBy(summary, traffic, by).get(name);
      return used ? [fixed(utilizationOf(used), 4), fixed(used.farCalls / used.requests, 3)] : ['', ''];
    }),
  ]),
});

export function toJson(summary: Summary, seed: number): object {
  const { used: _, failed, ...counts } = summary;
  const by = (kind: 'algorithm' | 'size', of: (used: Used) => number) =>
    Object.fromEntries(
      TRAFFICS.map((traffic: Traffic) => [
        traffic,
        Object.fromEntries([...usedBy(summary, traffic, kind)].map(([name, used]) => [name, of(used)])),
      ]),
    );
  return {
    seed,
    ...counts,
    passed: !hasFailed(summary),
    farCallsPerRequest: by('algorithm', ({ farCalls, requests }) => farCalls / requests),
    utilization: { algorithm: by('algorithm', utilizationOf), size: by('size', utilizationOf) },
    belowFloors: belowFloors(summary),
    failed,
  };
}
