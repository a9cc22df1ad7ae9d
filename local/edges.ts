// Runs the limiter at three edges of the world, without workerd, for tests and benches. Each edge has its own memory
// and its own nearest Redis; the other two are far. Each Redis has two gateways: a near one, and one as slow as a
// connection across an ocean.

import type { Decision } from '../src/core/decision.ts';
import { planRequest } from '../src/core/matching/plan.ts';
import type { Rule, Split } from '../src/core/matching/rule.ts';
import { compileSnapshot, type Snapshot, withCounterIds } from '../src/core/matching/snapshot.ts';
import { type CounterOperations, type CounterStore, operationsBy } from '../src/core/ports/region.ts';
import type { SnapshotSource } from '../src/core/ports/snapshot-source.ts';
import { createBreaker } from '../src/core/regions/breaker.ts';
import { createCensus } from '../src/core/regions/census.ts';
import { createLedger } from '../src/limiter/ledger.ts';
import { createLimiter } from '../src/limiter/limiter.ts';
import type { LimiterRegion, Regions } from '../src/limiter/region.ts';
import { createDistance, createRegionWatch } from '../src/limiter/region.ts';
import { createClient } from '../src/redis/client.ts';
import { createUpstashStore, splitByHashSlot } from '../src/redis/counter-store.ts';
import { createRulesPointer, presentTo } from '../src/redis/region-keys.ts';
import { findOrInstallRedis } from './redis-server.ts';
import { type LocalRegion, startRegions } from './regions.ts';
import { createRule, type LimitedRule, type RuleFields } from './rules.ts';
import { startUpstashGateway, type UpstashGateway } from './upstash-gateway/server.ts';

export const EDGES = ['us', 'eu', 'ap'] as const;
export type EdgeName = (typeof EDGES)[number];

export interface EdgesOptions {
  /** The round trip between two regions. */
  readonly roundTripMs: number;
  readonly deadlineMs?: number;
  /** Whether the first region is a Redis Cluster. */
  readonly cluster?: boolean;
}

export type EdgeRule = RuleFields & Pick<LimitedRule, 'algorithm' | 'limit' | 'windowSeconds'>;

export interface Edge {
  readonly name: EdgeName;
  /** Sends one request of that subject. All rules apply to it. */
  request(subject: string): Promise<Decision>;
}

export type RegionOfEdges = LocalRegion & { readonly far: UpstashGateway };

/** Three edges that use the same rules. */
export interface EdgeSystem {
  /** Puts rules in force everywhere at once. */
  setRules(rules: readonly EdgeRule[], split?: Split): Promise<void>;
  /** Starts another isolate at that edge, with its own memory. */
  openEdge(name: EdgeName): Edge;
  /** Resolves when all work after responses is done. */
  settled(): Promise<void>;
  /** How many calls went to counters of a region that was not the nearest, so far. */
  farCalls(): number;
}

export interface Edges extends AsyncDisposable {
  readonly regions: readonly RegionOfEdges[];
  open(rules: readonly EdgeRule[], split?: Split): Promise<EdgeSystem>;
}

/** Equal parts now, and no other split before. */
export const EVEN: Split = { shares: { us: 1, eu: 1, ap: 1 }, before: [] };

export async function startEdges({ roundTripMs, deadlineMs = 5_000, cluster }: EdgesOptions): Promise<Edges> {
  await using cleanup = new AsyncDisposableStack();
  await findOrInstallRedis({ say: () => {} });
  const near = await startRegions({ redisPort: 0, upstashPort: 0, cluster }, cleanup);
  const regions: RegionOfEdges[] = [];
  for (const region of near) {
    const { name, redis, gateway } = region;
    const behind = { redisUrl: redis.url, clusterUrls: region.cluster?.urls };
    const options = { port: 0, token: gateway.token, ...behind, name: `${name}, from afar` };
    const far = await startUpstashGateway(options);
    cleanup.defer(() => far.stop());
    await far.faults.set({ latencyMs: roundTripMs });
    regions.push({ ...region, far });
  }
  const owned = cleanup.move();
  return {
    regions,
    async open(rules, split) {
      const system = createSystem(regions, deadlineMs);
      await system.setRules(rules, split);
      return system;
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

let systems = 0;

function createSystem(regions: readonly RegionOfEdges[], deadlineMs: number): EdgeSystem {
  const work = new Set<Promise<unknown>>();
  const afterResponse = (promise: Promise<unknown>) => {
    const done = promise.catch(() => {}).finally(() => work.delete(done));
    work.add(done);
  };
  systems += 1;
  const id = `system-${systems}`;
  let snapshot: Snapshot = compileSnapshot('none', { rules: [], tiers: [], lists: [] });
  let published = 0;
  let farCalls = 0;

  return {
    async setRules(rules, split = EVEN) {
      published += 1;
      const compiled = await withCounterIds(rules.map((rule, i) => completed(rule, i, id)));
      snapshot = compileSnapshot(String(published), { rules: compiled, tiers: [], lists: [], split });
    },
    openEdge(name) {
      const limiter = createLimiter({
        snapshots: always(() => snapshot),
        deadlineMs,
        capPerSecond: 0,
        shares: EVEN.shares,
        isolateId: () => crypto.randomUUID(),
        now: Date.now,
        onShadow: () => {},
        onBug: (error) => {
          throw error;
        },
      });
      const route = routeFrom(name, regions, () => {
        farCalls += 1;
      });
      return {
        name,
        request: async (subject) =>
          limiter.decide(
            { regions: route, operation: 'take', ledger: createLedger(() => {}), afterResponse },
            (round) =>
              planRequest(round.snapshot, {
                matchPath: '/',
                method: 'GET',
                caller: { ip: subject, address: subject },
                nowMs: Date.now(),
                seatId: () => crypto.randomUUID().replaceAll('-', '').slice(0, 16),
              }),
          ),
      };
    },
    async settled() {
      while (work.size > 0) await Promise.all(work);
    },
    farCalls: () => farCalls,
  };
}

/** Gives each system its own rule ids, so that no two systems share a counter. */
const completed = (rule: EdgeRule, ordinal: number, system: string): Rule =>
  createRule({ id: `${system}-${ordinal}`, name: `rule-${ordinal}`, ordinal, ...rule });

/** There are no announcements here: the current rules are always the newest. */
const always = (current: () => Snapshot): SnapshotSource => ({
  current,
  announced: () => current().version,
  probe: () => undefined,
  confirm: () => {},
  fail: () => {},
  isConfirmed: () => true,
  load: async () => true,
  start: async () => current(),
});

/** The regions as an isolate at that edge sees them, nearest first. */
export function routeFrom(name: EdgeName, regions: readonly RegionOfEdges[], onFarCall: () => void): Regions {
  const open = ({ gateway, far, ...region }: RegionOfEdges): LimiterRegion => {
    const { url, token } = region.name === name ? gateway : far;
    const client = createClient({ url, token });
    const pointer = createRulesPointer(client);
    const single = createUpstashStore(client);
    const isCluster = region.cluster !== undefined;
    const upstash = isCluster ? splitByHashSlot(single, pointer) : single;
    const operations: CounterOperations = upstash;
    const store: CounterStore = {
      ...upstash,
      ...operationsBy((operation, call, signal) => {
        if (region.name !== name) onFarCall();
        return operations[operation](call, signal);
      }),
    };
    const breaker = createBreaker({ random: Math.random });
    const distance = createDistance(store, Date.now);
    return {
      name: region.name,
      neighbours: EDGES.filter((other) => other !== region.name),
      store,
      pointer,
      breaker,
      distance,
      watch: createRegionWatch({
        store,
        breaker,
        distance,
        probeMs: 1_000,
        now: () => Date.now(),
        onScriptFailed: () => {},
        onBug: (error) => {
          throw error;
        },
      }),
      census: createCensus({ assumed: 1, present: presentTo(client) }),
      isCluster,
    };
  };
  const owner = regions.filter((region) => region.name === name);
  const others = regions.filter((region) => region.name !== name);
  return [...owner, ...others].map(open) as unknown as Regions;
}
