// Every fault of the catalogue, in the nearest region and in all of them, one outage after the other.
import { type RegionFault, type RegionFaultName, regionFaults } from '../../local/fault-catalogue.ts';
import { type Arena, IMPATIENT_PEER, ISOLATES, PEERS } from './arena.ts';
import { judge, noiseOf, peerCap, type Verdict, weirCap } from './judge.ts';
import { type OutageSamples, type OutageScope, settle, sufferOutage, untilCounted } from './outage.ts';
import { DEADLINE_MS } from './rules.ts';

export interface Outage {
  readonly fault: RegionFaultName;
  readonly scope: OutageScope;
  readonly weir: Verdict;
  /** With its default timeout, and with a short one. Where all regions fail, its only one does too. */
  readonly peer?: { readonly patient: Verdict; readonly impatient: Verdict } | undefined;
}

/** What is lost with them is also how many isolates there are: they come last, and where they do less harm first. */
const FORGETFUL: readonly RegionFaultName[] = ['redis-killed', 'redis-restarted-empty'];
/** In deadlines: a healthy region that is asked second has a quarter. */
const TOO_NOISY = 0.25;
const MOST_REPEATS = 6;

export async function measureOutages(arena: Arena, say: (line: string) => void): Promise<Outage[]> {
  const faults = regionFaults({ slowMs: 2 * DEADLINE_MS });
  const lasting = faults.filter(({ name }) => !FORGETFUL.includes(name));
  const forgetful = faults.filter(({ name }) => FORGETFUL.includes(name));
  const quiet = createQuietly(arena, say);
  const outages: Outage[] = [];
  const measure = async (some: readonly RegionFault[], scope: OutageScope) => {
    for (const fault of some) {
      const seen = await quiet(fault, scope);
      const outage = judged(fault, scope, seen);
      for (const line of describe(outage, seen)) say(line);
      outages.push(outage);
    }
  };
  await settle(arena);
  await measure(lasting, 'one');
  await untilCounted(arena);
  await measure(lasting, 'all');
  await measure(forgetful, 'all');
  await measure(forgetful, 'one');
  return faults.flatMap(({ name }) => outages.filter(({ fault }) => fault === name).sort(oneFirst));
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

/** Again if the machine itself was too slow, which requests tell that no fault can slow down. */
function createQuietly(arena: Arena, say: (line: string) => void) {
  let repeats = 0;
  return async (fault: RegionFault, scope: OutageScope): Promise<OutageSamples> => {
    for (;;) {
      const outage = await sufferOutage(arena, fault, scope);
      const noise = noiseOf(outage.samples);
      if (noise <= TOO_NOISY || repeats === MOST_REPEATS) return outage;
      repeats += 1;
      say(`${fault.name}/${scope}: again, because the machine added ${Math.round(noise * DEADLINE_MS)} ms`);
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
