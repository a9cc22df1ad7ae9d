// The quota route of one isolate, on a real Redis behind the gateway. The isolate's clock is injected; Redis has its
// own.
import { afterAll, beforeAll, beforeEach } from 'vitest';
import { type RedisServer, startRedisServer } from '../../local/redis-server.ts';
import { startUpstashGateway, type UpstashGateway } from '../../local/upstash-gateway/server.ts';
import { createQuota } from '../../src/checks/quota.ts';
import { createMemoryCounters, runChecks } from '../../src/core/counting/counters.ts';
import { planRequest } from '../../src/core/matching/plan.ts';
import type { ListEntry, Tier } from '../../src/core/matching/rule.ts';
import { type CompiledRule, compileSnapshot, type Snapshot } from '../../src/core/matching/snapshot.ts';
import { ABSENT, answerOf, type CallerRecord } from '../../src/core/ports/callers.ts';
import { type CounterStore, operationsBy } from '../../src/core/ports/region.ts';
import { createBreaker } from '../../src/core/regions/breaker.ts';
import { createCensus } from '../../src/core/regions/census.ts';
import type { Services } from '../../src/gateway/services.ts';
import { createLimiter } from '../../src/limiter/limiter.ts';
import { createDistance, createRegionWatch } from '../../src/limiter/region.ts';
import { type Client, createClient } from '../../src/redis/client.ts';
import { createUpstashStore } from '../../src/redis/counter-store.ts';
import { createRulesPointer } from '../../src/redis/region-keys.ts';
import { SILENT_LOG } from '../telemetry/silent.ts';

const DEADLINE_MS = 5_000;
export const IP = '192.0.2.1';

export interface Limit {
  readonly policy: string;
  readonly remaining: number;
  readonly resetAt: string;
  readonly allowed: boolean;
  readonly retryAfterMs: number | null;
}

export interface World {
  readonly rules?: readonly CompiledRule[];
  readonly tiers?: readonly Tier[];
  readonly lists?: readonly ListEntry[];
  /** By API key. */
  readonly keys?: Readonly<Record<string, CallerRecord>>;
  readonly unverified?: Services['identity']['unverified'];
  readonly isCold?: boolean;
  /** Newer rules are announced, but could not be read. */
  readonly isStale?: boolean;
  readonly showsDegraded?: boolean;
}

export interface Ask {
  readonly method?: string;
  readonly ip?: string;
  readonly key?: string;
  readonly region?: string;
}

/** Call it once in a test file. */
export function useQuota() {
  let server: RedisServer;
  let gateway: UpstashGateway;
  let client: Client;

  beforeAll(async () => {
    server = await startRedisServer({ port: 0, name: 'quota' });
    gateway = await startUpstashGateway({ port: 0, token: 'token', redisUrl: server.url, name: 'quota' });
    client = createClient({ url: gateway.url, token: 'token' });
  });
  afterAll(async () => {
    await gateway.stop();
    await server.stop();
  });
  const send = <T>(command: Parameters<typeof client.send<T>>[1]) =>
    client.send(AbortSignal.timeout(DEADLINE_MS), command);
  beforeEach(() => send((redis) => redis.flushall()));

  function openIsolate({ rules = [], tiers = [], lists = [], keys = {}, ...world }: World) {
    const clock = { ms: 1_000_000 };
    const degraded: string[] = [];
    const snapshot = compileSnapshot('v1', { rules, tiers, lists });
    const store = createUpstashStore(client);
    const breaker = createBreaker({ random: () => 0.5 });
    const distance = createDistance(store, () => clock.ms);
    const reports = {
      onScriptFailed: () => {},
      onBug: (error: unknown) => void degraded.push(String(error)),
    };
    const region = {
      name: 'us',
      neighbours: [],
      store,
      pointer: createRulesPointer(client),
      breaker,
      distance,
      watch: createRegionWatch({
        store,
        breaker,
        distance,
        probeMs: DEADLINE_MS,
        now: () => clock.ms,
        ...reports,
      }),
      // Leaves the census out, so that only the cost of a question is counted.
      census: createCensus({ assumed: 1, present: async () => 1 }),
      isCluster: false,
    };
    // Has its own counters.
    const elsewhere = { ...region, name: 'eu', store: createLocalStore() };
    const now = () => clock.ms;
    const quota = createQuota({
      regions: [region, elsewhere],
      regionsOf: (request) => {
        const wanted = request?.headers.get('X-Weir-Region');
        const played = [region, elsewhere].find(({ name }) => name === wanted);
        return played && [played];
      },
      limiter: createLimiter({
        snapshots: sourceOf(world.isCold ? undefined : snapshot, world.isStale),
        deadlineMs: DEADLINE_MS,
        shares: { us: 1, eu: 1 },
        onShadow: () => {},
        onBug: reports.onBug,
        capPerSecond: 0,
        isolateId: () => 'this-isolate',
        now,
      }),
      now,
      deadlineMs: DEADLINE_MS,
      showsDegraded: world.showsDegraded ?? true,
      log: { ...SILENT_LOG, degraded: ({ reason }) => void degraded.push(reason) },
      identity: {
        callers: { ofApiKey: async (key) => answerOf(keys[key]), ofUser: async () => ABSENT },
        tokens: undefined,
        ipv6Prefix: 64,
        unverified: world.unverified ?? 'count',
      },
    } satisfies Partial<Services> as unknown as Services);

    const ask = ({ method = 'GET', ip = IP, key, region: played = 'us' }: Ask = {}) => {
      const headers = { 'CF-Connecting-IP': ip, 'X-Weir-Region': played, ...(key && { 'X-API-Key': key }) };
      return quota(new Request('https://weir.test/_weir/quota', { method, headers }), () => {});
    };
    return {
      ...{ clock, degraded, ask },
      limits: async (asked?: Ask) => ((await (await ask(asked)).json()) as { limits: Limit[] }).limits,
      /** Charges the limits like a request. */
      async take(matchPath: string, seatId = 'a-seat-of-sixtee') {
        const request = {
          matchPath,
          method: 'GET',
          caller: { ip: IP, address: IP },
          nowMs: 0,
          seatId: () => seatId,
        };
        const plan = await planRequest(snapshot, request);
        const checks = plan.kind === 'checks' ? plan.checks : [];
        return store.take({ checks }, AbortSignal.timeout(DEADLINE_MS));
      },
    };
  }

  return {
    openIsolate,
    send,
    billed: async () => (await gateway.stats()).billed,
    async withFault(fault: object, during: () => Promise<void>) {
      const endpoint = `${gateway.url}/_gateway/faults`;
      await fetch(endpoint, { method: 'PUT', body: JSON.stringify(fault) });
      await during().finally(() => fetch(endpoint, { method: 'DELETE' }));
    },
  };
}

/** Counts in memory. */
function createLocalStore(): CounterStore {
  const counters = createMemoryCounters();
  return {
    ...operationsBy(async (operation, { checks }) => runChecks(operation, checks, 1_000_000, counters)),
    reset: async () => {},
    probe: async () => {},
  };
}

/** Rules that never change. */
const sourceOf = (snapshot: Snapshot | undefined, isStale = false) => ({
  current: () => snapshot,
  announced: () => 'v1',
  start: async () => snapshot,
  probe: () => undefined,
  confirm: () => {},
  fail: () => {},
  isConfirmed: () => !isStale,
  load: async () => true,
});
