// What every Weir is made of, whatever runs it: regions, rules, the limiter, who calls, and the gateway before them. An
// entry adds the rest and calls `createIsolates`:
//
//   entry                 rules and callers            where requests go       besides
//   worker.ts, rpc.ts     deployment.ts (Postgres)     proxy/origins.ts        admin route, page, cron, queue
//   hono.ts, fetch.ts     deployment.ts (Postgres)     the rest of the app     admin route, page, cron, queue
//   the same with rules   library.ts (the code)        the rest of the app     nothing
//
// Everything is made once per isolate for each set of bindings, in an order in which each part needs only earlier ones.
import type { CoreConfig } from '../config/config.ts';
import type { CheckResult } from '../core/decision.ts';
import { randomId } from '../core/digest.ts';
import { lazyModule } from '../core/lazy-module.ts';
import type { RuleCheck } from '../core/matching/plan.ts';
import type { AttemptGuard, CallerDirectory, IdentitySource } from '../core/ports/callers.ts';
import type { SnapshotSource } from '../core/ports/snapshot-source.ts';
import { createBreaker } from '../core/regions/breaker.ts';
import { createCensus } from '../core/regions/census.ts';
import { neighboursIn, routesFrom } from '../core/regions/nearest.ts';
import { createMetricSums, type MetricSums } from '../core/telemetry/metrics.ts';
import { type App, createApp, createNearestRegions } from '../gateway/app.ts';
import { reportShadow } from '../gateway/headers.ts';
import type { Services } from '../gateway/services.ts';
import { parseKeyPlaces } from '../http/credentials.ts';
import { createIncidentCounts, createLog, type Log, type LogEvent } from '../http/log.ts';
import { createTokenVerifier } from '../identity/jwt.ts';
import { createLimiter } from '../limiter/limiter.ts';
import { createDistance, createRegionWatch } from '../limiter/region.ts';
import { createClient } from '../redis/client.ts';
import { createUpstashStore, splitByHashSlot } from '../redis/counter-store.ts';
import { createCheckRecords, createRulesPointer, presentTo } from '../redis/region-keys.ts';
import { createRegionObserver } from '../telemetry/region-observer.ts';

export const now = () => Date.now();

/** Names this Weir: two Workers with the same counters are the same Weir. */
export const weirIdOf = ({ REGIONS }: Pick<CoreConfig, 'REGIONS'>): string =>
  REGIONS.map(({ url }) => url).join(' ');

export const createConsoleLog = (): Log => createLog(now, (line) => console.warn(line));

export const reportTo =
  (log: Log) =>
  (event: LogEvent) =>
  (error: unknown, region?: string): void =>
    log.error(event, error, region);

export interface CoreOptions {
  readonly config: CoreConfig;
  readonly log: Log;
  /** Where rules come from. */
  readonly snapshots: SnapshotSource;
  /** Who knows the callers. */
  readonly callers: CallerDirectory;
  /** Decides who calls instead of keys and tokens. */
  readonly source?: IdentitySource | undefined;
  /** Counts the calls to the regions. Left out: nobody reads these sums. */
  readonly sums?: MetricSums;
  /** Counts what shadow rules would have denied. */
  readonly onShadow?: (results: readonly CheckResult<RuleCheck>[]) => void;
}

export type Core = ReturnType<typeof createCore>;

export function createCore({ config, log, snapshots, callers, source, onShadow, ...options }: CoreOptions) {
  const { DEADLINE_MS: deadlineMs, JWT } = config;
  const isDevelopment = config.ENVIRONMENT === 'development';
  const isLogOnly = config.ENFORCEMENT === 'log';
  const reportAs = reportTo(log);
  const ownId = randomId();
  const isolateId = () => ownId;
  const regions = createRegions(config, { log, sums: options.sums ?? createMetricSums() });
  const limiter = createLimiter({
    snapshots,
    deadlineMs,
    shares: Object.fromEntries(regions.map(({ name, share }) => [name, share])),
    onShadow(results, region) {
      reportShadow(log, results, region);
      onShadow?.(results);
    },
    onBug: log.bug,
    capPerSecond: isLogOnly ? 0 : config.ISOLATE_CAP,
    isolateId,
    now,
  });
  const tokens =
    JWT &&
    createTokenVerifier({
      ...JWT,
      secret: config.JWT_SECRET,
      now,
      deadlineMs,
      onError: reportAs('token-unverified'),
    });
  const attempts = lazyModule(
    () => import('../admin/failed-attempts.ts'),
    ({ createAttemptGuard }) => createAttemptGuard({ regions, deadlineMs, now }),
  );
  const guardAttempt: AttemptGuard = async (attempt) => (await attempts())(attempt);
  const core = {
    now,
    log,
    isolateId,
    isDevelopment,
    isLogOnly,
    deadlineMs,
    regions,
    regionsOf: createNearestRegions(regions, { isDevelopment, now }),
    snapshots,
    limiter,
    identity: {
      callers,
      source,
      tokens,
      keyPlaces: parseKeyPlaces(config.API_KEY_HEADERS),
      ipv6Prefix: config.IPV6_PREFIX,
      unverified: config.UNVERIFIED,
    },
    origin: {
      rateLimitHeaders: config.ORIGIN_RATE_LIMIT_HEADERS,
      costHeader: config.COST_HEADER.toLowerCase(),
    },
    showsDegraded: config.DEGRADED_HEADER === 'on',
    incidentCounts: createIncidentCounts(),
    check: {
      tokens: config.ADMIN_TOKENS,
      // Known to every isolate of this Weir, and to nobody else.
      secret: config.REGIONS.map(({ token }) => token).join(' '),
      regions,
    },
    guardAttempt,
  } satisfies Partial<Services> & { readonly isolateId: () => string };
  return core;
}

interface RegionTools {
  readonly log: Log;
  readonly sums: MetricSums;
}

function createRegions({ REGIONS, ISOLATES, DEADLINE_MS }: CoreConfig, { log, sums }: RegionTools) {
  // If there are several regions, each gets at most half of the deadline.
  const probeMs = REGIONS.length > 1 ? DEADLINE_MS / 2 : DEADLINE_MS;
  const routes = routesFrom(REGIONS);
  const create = ({ url, token, cluster, ...place }: CoreConfig['REGIONS'][number]) => {
    const { name } = place;
    const client = createClient({ url, token });
    const pointer = createRulesPointer(client);
    const observer = createRegionObserver(name, sums);
    const store = observer.store(createUpstashStore(client));
    const breaker = createBreaker({ random: Math.random, onChange: (state) => log.breaker(name, state) });
    const distance = observer.distance(createDistance(store, now));
    return {
      ...place,
      neighbours: neighboursIn(routes, name),
      pointer,
      store: cluster ? splitByHashSlot(store, pointer) : store,
      isCluster: cluster,
      breaker,
      distance,
      watch: observer.watch(
        createRegionWatch({
          store,
          breaker,
          distance,
          probeMs,
          now,
          onScriptFailed: (said, isBroken) => log.script(name, said, isBroken),
          onBug: log.bug,
        }),
      ),
      census: createCensus({ assumed: ISOLATES, present: presentTo(client) }),
      checkRecords: createCheckRecords(client),
      client,
    };
  };
  const [first, ...others] = REGIONS;
  return [create(first), ...others.map(create)] as const;
}

/** The parts that an entry makes of its bindings. */
export interface IsolateParts {
  readonly services: Services;
}

export type Isolate<P extends IsolateParts> = P & { readonly app: App };

/** Calls `create` once for each set of bindings. `create` may throw a ConfigError that names every bad variable. */
export function createIsolates<P extends IsolateParts, Env extends object>(
  create: (env: Env) => P,
): (env: Env) => Isolate<P> {
  const isolates = new WeakMap<object, Isolate<P>>();
  /** The bindings of the last request, which are mostly those of the next one. */
  let latest: { readonly env: object; readonly isolate: Isolate<P> } | undefined;
  const make = (env: Env) => {
    const parts = create(env);
    return { ...parts, app: createApp(parts.services) };
  };
  return (env) => {
    if (latest?.env === env) return latest.isolate;
    const isolate = isolates.get(env) ?? make(env);
    isolates.set(env, isolate);
    latest = { env, isolate };
    return isolate;
  };
}
