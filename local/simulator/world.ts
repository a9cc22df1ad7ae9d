// The parts of an episode while it runs: regions, the network, isolates that come and go, and what is published.
import type { Snapshot } from '../../src/core/snapshot.ts';
import { compileSnapshot, withCounterIds } from '../../src/core/snapshot.ts';
import { createRandom } from '../random.ts';
import { happens } from './draw.ts';
import type { Fault } from './faults.ts';
import { createIsolate, type Isolate, type IsolateOptions } from './isolate.ts';
import { type Caller, createNetwork, type Network } from './network.ts';
import type { Publication } from './publications.ts';
import { createRegionServer, type RegionServer } from './region-server.ts';
import type { Content } from './rule-sets.ts';
import { REGIONS, type Scenario } from './scenario.ts';
import type { VirtualTime } from './virtual-time.ts';

/** A region forgot everything, or one subject's keys. */
export interface Forgot {
  readonly atMs: number;
  readonly region: number;
  readonly keys?: readonly string[] | undefined;
}

export interface World {
  readonly servers: readonly RegionServer[];
  readonly forgot: readonly Forgot[];
  readonly snapshots: readonly Snapshot[];
  isolateAt(place: number, number: number): Isolate;
  /** `keysOf` a subject, by number. */
  strike(fault: Fault, keysOf: (subject: number) => readonly string[]): void;
  publish(content: number): void;
}

export type WorldWatch = Pick<IsolateOptions, 'onBug' | 'onCall'>;

/** Compiling takes real time, so it is done before the clock of the episode starts. */
export const compileContents = (contents: Scenario['contents']): Promise<Snapshot[]> =>
  Promise.all(contents.map(({ content }, i) => compileContent(content, String(i))));

async function compileContent({ sets, split }: Content, version: string): Promise<Snapshot> {
  const rules = await withCounterIds(sets.flatMap((set) => set.rules));
  return compileSnapshot(version, { rules, tiers: [], lists: [], split });
}

const RESET_MS = 5_000;
/** How long until a region is told what it missed. */
const CRON_MS = 60_000;

export function createWorld(
  scenario: Scenario,
  snapshots: readonly Snapshot[],
  { time, ...watch }: WorldWatch & { readonly time: VirtualTime },
): World {
  const random = createRandom(scenario.seed ^ 0x5eed);
  const servers = REGIONS.map((name, i) =>
    createRegionServer(name, { time, skewMs: scenario.skewMs[i] ?? 0 }),
  );
  const network = createNetwork(scenario.network, servers, time);
  const publications: Publication[] = [];
  const forgot: Forgot[] = [];
  const admin: Caller = { place: 0, number: 1_000, isAlive: true };

  const announce = (snapshot: Snapshot | undefined) => {
    if (!snapshot) return;
    publications.push({ snapshot });
    for (const server of servers) tellLater(server, happens(random, 0.9) ? 300 : CRON_MS);
  };
  const tellLater = (server: RegionServer, mostMs: number) => {
    const newest = publications.length - 1;
    const tell = () => {
      server.announced = String(Math.max(newest, Number(server.announced ?? 0)));
    };
    time.after(random() * mostMs, tell);
  };
  announce(snapshots[0]);
  for (const server of servers) {
    server.announced = '0';
    server.isolates = scenario.isolatesPerPlace;
  }

  const open = (number: number): Isolate => {
    const place = number % REGIONS.length;
    return createIsolate({
      ...watch,
      caller: { place, number, isAlive: true },
      servers,
      network,
      time,
      random,
      skewMs: scenario.isolateSkewMs[number] ?? 0,
      deadlineMs: scenario.deadlineMs,
      shares: scenario.contents[0]?.content.split.shares ?? {},
      publications,
      inForce: publications.length - 1,
      route: routeFrom(place, scenario),
    });
  };
  const isolates = Array.from({ length: REGIONS.length * scenario.isolatesPerPlace }, (_, i) => open(i));

  const reset = (keys: readonly string[]) => {
    for (const region of servers.keys())
      resetAt({ network, caller: admin, region, keys, onRun: () => forgot.push({ atMs: time.now(), region, keys }) });
    announce(publications.at(-1)?.snapshot);
  };

  return {
    servers,
    forgot,
    snapshots,
    isolateAt: (place, number) =>
      isolates[place + REGIONS.length * (number % scenario.isolatesPerPlace)] as Isolate,
    publish: (content) => announce(snapshots[content]),
    strike(fault, keysOf) {
      switch (fault.kind) {
        case 'restart':
          return restart(fault.region);
        case 'hang':
          return hang(fault);
        case 'cut':
          return network.cut({ ...fault, untilMs: time.now() + fault.ms });
        case 'death': {
          const number = fault.isolate % isolates.length;
          (isolates[number] as Isolate).caller.isAlive = false;
          isolates[number] = open(number);
          return;
        }
        case 'reset':
          return reset(keysOf(fault.subject));
      }
    },
  };

  function restart(region: number): void {
    const server = servers[region] as RegionServer;
    server.restart();
    server.announced = null;
    forgot.push({ atMs: time.now(), region });
    tellLater(server, CRON_MS);
  }

  function hang({ region, ms, areKept }: Extract<Fault, { kind: 'hang' }>): void {
    (servers[region] as RegionServer).hangs = { untilMs: time.now() + ms, areKept };
  }
}

interface Reset {
  readonly network: Network;
  readonly caller: Caller;
  readonly region: number;
  readonly keys: readonly string[];
  readonly onRun: () => void;
}

function resetAt({ network, caller, region, keys, onRun }: Reset): void {
  const execute = (server: RegionServer) => {
    server.reset(keys);
    onRun();
  };
  const signal = AbortSignal.timeout(RESET_MS);
  // The admin route tells the operator; nobody else hears of it.
  network.call({ caller, region, about: 'reset', signal, execute }).catch(() => {});
}

/** The nearest region, then the others by how far they are. */
function routeFrom(place: number, { network: { oneWayMs } }: Scenario): number[] {
  const waysMs = oneWayMs[place] ?? [];
  return [...REGIONS.keys()].toSorted((a, b) => (waysMs[a] ?? 0) - (waysMs[b] ?? 0));
}

