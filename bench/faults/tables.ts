// Prints the results of the faults bench as tables.
import type { Table } from '../shared/bench.ts';
import { uncountedNotes } from '../shared/reasons.ts';
import { fixed } from '../shared/table.ts';
import { type HotRun, reasonsOf } from './denial-cache.ts';
import type { Verdict } from './judge.ts';
import type { Outage, Outages } from './outages.ts';
import { DEADLINE_MS, HOT_LIMIT, OUTAGE_LIMIT } from './rules.ts';

const msOf = (recoveredMs: number | null) => (recoveredMs === null ? 'never' : recoveredMs.toFixed(0));

export const outageTable = ({ outages, unsettled, isCensusKnown }: Outages): Table => ({
  title: `Weir in an outage, three isolates, DEADLINE_MS ${DEADLINE_MS}`,
  head: ['fault', 'regions', 'errors', 'p99/deadline', '(machine)', 'recovered ms', 'over cap'],
  rows: outages.map(({ fault, scope, weir }) => [
    fault,
    scope,
    weir.limiterErrors,
    fixed(weir.p99OverDeadline),
    `(${fixed(weir.noise)})`,
    msOf(weir.recoveredMs),
    weir.admittedOverCap,
  ]),
  notes: [
    ...(unsettled > 0
      ? [`After ${unsettled} of these, an isolate was not well again when the next began.`]
      : []),
    ...(isCensusKnown ? [] : ['The isolates did not know how many they are: `local` over cap says nothing.']),
    'Steady load on each isolate before, during and after the fault, on real Redis, by rules that are `open` and `local`.',
    'errors: answers of 5xx and network errors. p99/deadline: what the fault adds to the p99, over the p50 before it, in',
    'deadlines; wanted: at most 1. (machine): the same of requests that no fault can slow down, so it is noise.',
    'recovered: from the end of the fault to the first of ten good answers in a row, in the slowest isolate.',
    `over cap: what subjects that send only during the fault got beyond their limit (${OUTAGE_LIMIT} in a window that does not end), if`,
    "one region fails; if all fail, beyond the limit in each isolate (`open`), or beyond each isolate's part (`local`).",
    'slow-at-random and redis-restarted-empty leave a region that counts now and then: there, each region has the limit.',
  ],
});

export const peerTable = (outages: readonly Outage[]): Table => ({
  title: '@upstash/ratelimit in the same outages of its one Redis: timeout 5 s, its default / timeout 250 ms',
  head: ['fault', 'errors', 'p99 ms', 'recovered ms', 'over limit'],
  rows: outages.flatMap(({ fault, peer }) => {
    if (!peer) return [];
    const both = (tell: (verdict: Verdict) => string | number) =>
      `${tell(peer.patient)} / ${tell(peer.impatient)}`;
    return [
      [
        fault,
        both(({ limiterErrors }) => limiterErrors),
        both(({ p99OverDeadline }) => (p99OverDeadline * DEADLINE_MS).toFixed(0)),
        both(({ recoveredMs }) => msOf(recoveredMs)),
        both(({ admittedOverCap }) => admittedOverCap),
      ],
    ];
  }),
  notes: [
    'Served as its documentation shows it: `await ratelimit.limit(id)`, all options but the timeout at their defaults.',
    'What it throws is an error, answered 500. Past its timeout it lets everybody pass; it has no region to turn to.',
  ],
});

export const denialTable = (runs: readonly HotRun[]): Table => ({
  title: `A subject that sends 1.2, 5 and 50 times its limit of ${HOT_LIMIT} a second`,
  head: ['algorithm', '', 'isolates', 'sent/s', 'got of its limit', 'commands/denied at 50×', 'uncounted'],
  rows: runs.map(({ who, isolates, algorithm, loads }) => [
    algorithm,
    who,
    isolates,
    loads.map(({ perSecond }) => perSecond.toFixed(0)).join(' '),
    loads.map(({ utilization }) => fixed(utilization)).join(' '),
    fixed(loads.at(-1)?.commandsPerDenied ?? Number.NaN, 3),
    loads.reduce((sum, { uncounted }) => sum + uncounted.length, 0),
  ]),
  notes: [
    ...uncountedNotes(reasonsOf(runs)),
    'Got of its limit: admitted, over what the algorithm admits of the same requests if none is denied from memory.',
    'More than 1: a request that was late arrived in the next window. The peer has its ephemeral cache, as by default.',
    'Commands: script runs beyond those of admitted requests, with 3 commands each; not the reading of announcements,',
    'which takes a GET every 250 ms. Uncounted: answered without a region; DEADLINE_MS is 5000 here.',
  ],
});
