// Runs every fault of the catalogue, in the nearest region and in all of them, one outage after the other.
import { type RegionFault, type RegionFaultName, regionFaults } from '../../local/fault-catalogue.ts';
import type { BenchOptions } from '../shared/bench.ts';
import { type Arena, IMPATIENT_PEER, ISOLATES, PEERS } from './arena.ts';
import { judge, noiseOf, peerCap, type Verdict, weirCap } from './judge.ts';
import { type OutageSamples, type OutageScope, sufferOutage, untilCounted } from './outage.ts';
import { DEADLINE_MS } from './rules.ts';

export interface Outage {
  readonly fault: RegionFaultName;
  readonly scope: OutageScope;
  readonly weir: Verdict;
  /** With its default timeout, and with a short one. Where all regions fail, its only one fails, too. */
  readonly peer?: { readonly patient: Verdict; readonly impatient: Verdict } | undefined;
}

export interface Outages {
  readonly outages: readonly Outage[];
  /** After how many outages an isolate had not recovered when the next one began. */
  readonly unsettled: number;
  /** Whether every isolate knew how many there are, so that `local` was judged by the right number. */
  readonly isCensusKnown: boolean;
}

/** These also lose the number of isolates. So they come last, the least harmful first. */
const FORGETFUL: readonly RegionFaultName[] = ['redis-killed', 'redis-restarted-empty'];
/** In deadlines: a healthy region that is asked second has a quarter. */
const TOO_NOISY = 0.25;
const MAX_REPEATS = 6;

export async function measureOutages(arena: Arena, options: BenchOptions): Promise<Outages> {
  const { say, scaled } = options;
  const faults = regionFaults({ slowMs: 2 * DEADLINE_MS });
  const all = Object.groupBy(faults, ({ name }) => (FORGETFUL.includes(name) ? 'forgetful' : 'lasting'));
  // The short form has one of the faults that last.
  const lasting = (all.lasting ?? []).slice(0, scaled(faults.length));
  const forgetful = (all.forgetful ?? []).slice(0, scaled(FORGETFUL.length, 0));
  const quiet = createQuietly(arena, options);
  const outages: Outage[] = [];
  let unsettled = 0;
  const measure = async (those: readonly RegionFault[], scope: OutageScope) => {
    for (const fault of those) {
      const seen = await quiet(fault, scope);
      unsettled += Number(!seen.isSettled);
      const outage = judged(fault, scope, seen);
      for (const line of describe(outage, seen)) say(line);
      outages.push(outage);
    }
  };
  await measure(lasting, 'one');
  const isCensusKnown = await untilCounted(arena, options);
  await measure(lasting, 'all');
  await measure(forgetful, 'all');
  await measure(forgetful, 'one');
  const sorted = faults.flatMap(({ name }) => outages.filter(({ fault }) => fault === name).sort(oneFirst));
  return { outages: sorted, unsettled, isCensusKnown };
}

function* describe({ fault, scope, weir }: Outage, { samples }: OutageSamples) {
  const { limiterErrors, p99OverDeadline, admittedOverCap } = weir;
  yield `${fault}/${scope}: ${limiterErrors} errors, p99 ${p99OverDeadline.toFixed(2)}, ${admittedOverCap} over cap`;
  const errors = samples.flatMap(({ worker, error }) =>
    error !== undefined && ISOLATES.includes(worker as never) ? [error] : [],
  );
  for (const error of new Set(errors)) yield `  ${error}`;
}

const oneFirst = (a: Outage, b: Outage) => b.scope.localeCompare(a.scope);

/** Repeats the measurement if the machine itself was too slow. Requests that no fault can slow down show that. */
function createQuietly(arena: Arena, options: BenchOptions) {
  const mostRepeats = options.scaled(MAX_REPEATS, 0);
  let repeats = 0;
  return async (fault: RegionFault, scope: OutageScope): Promise<OutageSamples> => {
    for (;;) {
      const outage = await sufferOutage(arena, fault, scope, options);
      const noise = noiseOf(outage.samples);
      if (noise <= TOO_NOISY || repeats === mostRepeats) return outage;
      repeats += 1;
      options.say(
        `${fault.name}/${scope}: again, because the machine added ${Math.round(noise * DEADLINE_MS)} ms`,
      );
    }
  };
}

function judged({ name: fault }: RegionFault, scope: OutageScope, samples: OutageSamples): Outage {
  const weir = judge(samples, ISOLATES, weirCap(fault, scope));
  if (scope === 'all') return { fault, scope, weir };
  const patient = judge(samples, [PEERS[0]], peerCap);
  const impatient = judge(samples, [IMPATIENT_PEER], peerCap);
  return { fault, scope, weir, peer: { patient, impatient } };
}
