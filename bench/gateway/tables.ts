// Prints the figures of all candidates in one table.
import type { Table } from '../shared/bench.ts';
import { uncountedNotes } from '../shared/reasons.ts';
import { fixed } from '../shared/table.ts';
import { CANDIDATES, LABELS } from './candidates.ts';
import { CONCURRENCY } from './fresh-processes.ts';
import type { Measured } from './measure.ts';
import { ORDINARY_HEADERS } from './ordinary-request.ts';

export const loadTable = (measured: Measured, heapPerRequest: number): Table => ({
  title: `The gateway under load, ${CONCURRENCY} connections`,
  head: ['', 'requests/s', 'p50 ms', 'p99 ms', 'CPU µs of workerd', 'over the proxy', 'not counted'],
  rows: CANDIDATES.map((name) => [
    LABELS[name],
    measured.throughput[name].toFixed(0),
    fixed(measured.p50[name]),
    fixed(measured.p99[name]),
    measured.cpu[name].toFixed(0),
    measured.cpuOverProxy[name].toFixed(0),
    measured.uncounted[name],
  ]),
  notes: [
    ...uncountedNotes(measured.reasons),
    'The load, Redis, its gateway, the origin and workerd share one machine: compare within this table only.',
    `Requests have ${Object.keys(ORDINARY_HEADERS).length} ordinary headers and \`cf\`; Weir has three regions unless it is said.`,
    'Each candidate has a `workerd serve` of its own, with the flags of wrangler.toml, and all had as many requests before',
    'the first that is measured. KV is a Map in a Worker of another process; no measured request reads it.',
    'Redis checks the keys of scripts that Weir sends, as Upstash does; those of the peer are not checked.',
    `A request to Weir with one rule allocates ${(heapPerRequest / 1_024).toFixed(1)} KiB of JavaScript objects.`,
  ],
});
