// The parts of a running episode: regions, the network, isolates that come and go, and publications.
import { toRule } from '../../src/core/matching/flat-rule.ts';
import {
  compileSnapshot,
  type PublishedRule,
  type Snapshot,
  withCounterIds,
} from '../../src/core/matching/snapshot.ts';
import { createRandom } from '../random.ts';
import { happens } from './draw.ts';
import type { Fault } from './faults.ts';
import { createIsolate, type Isolate, type IsolateOptions } from './isolate.ts';
import { type Caller, createNetwork, type Network } from './network.ts';
import type { Publication } from './publications.ts';
import { createRegionServer, type RegionServer } from './region-server.ts';
import { type Content, toSplit } from './rule-sets.ts';
import { REGIONS, type Scenario } from './scenario.ts';
import type { VirtualTime } from './virtual-time.ts';

/** A region forgot everything, or the keys of one subject. */
export interface Forgot {
  readonly atMs: number;
  readonly region: number;
  readonly keys?: readonly string[] | undefined;
}

export interface World {
  readonly servers: readonly RegionServer[];
  readonly forgot: readonly Forgot[];
  isolateAt(place: number, number: number): Isolate;
  /** `keysOf` takes the number of a subject. */
  strike(fault: Fault, keysOf: (subject: number) => readonly string[]): void;
  publish(content: number): void;
}

export type WorldWatch = Pick<IsolateOptions, 'onBug' | 'onCall'>;

/** The rules of each content. Naming their counters takes real time, so this is done before the clock starts. */
export const compileRules = (contents: Scenario['contents']): Promise<PublishedRule[][]> =>
  Promise.all(
    contents.map(({ content }) => withCounterIds(content.sets.flatMap(({ rules }) => rules.map(toRule)))),
  );

/** The number of the content that a snapshot was made from. */
export const contentOf = ({ version }: Snapshot): number => Number.parseInt(version, 10);

const RESET_MS = 5_000;
/** How long until a region learns what it missed. */
const CRON_MS = 60_000;

export function createWorld(
  scenario: Scenario,
  rules: readonly (readonly PublishedRule[])[],
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
  /** When every region knew a content, by its number. */
  const toldAtMs: number[] = [];
  const endOf = (by: number) => toldAtMs.slice(by).find((atMs) => atMs !== undefined) ?? null;

  const compile = (number: number): Snapshot => {
    const content = scenario.contents[number]?.content as Content;
    const split = toSplit(content, endOf);
    return compileSnapshot(String(number), { rules: rules[number] ?? [], tiers: [], lists: [], split });
  };
  const announce = (snapshot: Snapshot) => {
    publications.push({ snapshot });
    for (const server of servers) tellLater(server, happens(random, 0.9) ? 300 : CRON_MS);
  };
  const tellLater = (server: RegionServer, mostMs: number) => {
    const newest = publications.length - 1;
    time.after(random() * mostMs, () => {
      server.announced = String(Math.max(newest, Number(server.announced ?? 0)));
      confirm(newest);
    });
  };
  /** Once every region announces the content, the end of the former split is known. The publisher publishes it, too. */
  const confirm = (publication: number) => {
    const number = contentOf((publications[publication] as Publication).snapshot);
    if (number !== contentOf((publications.at(-1) as Publication).snapshot)) return;
    if (toldAtMs[number] !== undefined) return;
    if (servers.some(({ announced }) => Number(announced ?? -1) < publication)) return;
    toldAtMs[number] = time.now();
    announce(compile(number));
  };
  toldAtMs[0] = time.now();
  publications.push({ snapshot: compile(0) });
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
      shares: scenario.contents[0]?.content.shares ?? {},
      publications,
      inForce: publications.length - 1,
      route: routeFrom(place, scenario),
    });
  };
  const isolates = Array.from({ length: REGIONS.length * scenario.isolatesPerPlace }, (_, i) => open(i));

  const reset = (keys: readonly string[]) => {
    for (const region of servers.keys())
      resetAt({
        network,
        caller: admin,
        region,
        keys,
        onRun: () => forgot.push({ atMs: time.now(), region, keys }),
      });
    announce((publications.at(-1) as Publication).snapshot);
  };

  return {
    servers,
    forgot,
    isolateAt: (place, number) =>
      isolates[place + REGIONS.length * (number % scenario.isolatesPerPlace)] as Isolate,
    publish: (content) => announce(compile(content)),
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
  // The admin route reports a failure only to the operator.
  network.call({ caller, region, about: 'reset', signal, execute }).catch(() => {});
}

/** The nearest region first, then the others by distance. */
function routeFrom(place: number, { network: { oneWayMs } }: Scenario): number[] {
  const waysMs = oneWayMs[place] ?? [];
  return [...REGIONS.keys()].toSorted((a, b) => (waysMs[a] ?? 0) - (waysMs[b] ?? 0));
}
