// Puts the real parts together, once per isolate. Only this file and the entry see everything.

import type { Bindings } from '../config/bindings.ts';
import { type Config, parseConfig, serviceOf } from '../config/config.ts';
import { randomId } from '../core/digest.ts';
import { lazyModule } from '../core/lazy-module.ts';
import type { AttemptGuard, CallerRevisions } from '../core/ports/callers.ts';
import { createBreaker } from '../core/regions/breaker.ts';
import { createCensus } from '../core/regions/census.ts';
import { neighboursIn, routesFrom } from '../core/regions/nearest.ts';
import { createTelemetrySums, type MetricSums } from '../core/telemetry/metrics.ts';
import { type App, createApp } from '../gateway/app.ts';
import { reportShadow } from '../gateway/decision-report.ts';
import { createNearestRegions } from '../gateway/request-facts.ts';
import type { Services } from '../gateway/services.ts';
import { createIncidentCounts, createLog, type Log, type LogEvent } from '../http/log.ts';
import { createCallerDirectory } from '../identity/directory.ts';
import { createTokenVerifier } from '../identity/jwt.ts';
import { createLimiter } from '../limiter/limiter.ts';
import { createDistance, createRegionWatch } from '../limiter/region-watch.ts';
import { createOrigins, type Origins, type OriginsOptions } from '../proxy/origins.ts';
import { createClient } from '../redis/client.ts';
import { createUpstashStore, splitByHashSlot } from '../redis/counter-store.ts';
import { createCheckRecords, createRulesPointer, presentTo } from '../redis/region-keys.ts';
import { withDeadline } from '../rules/edge/published.ts';
import { createSnapshotSource, type RulesSource } from '../rules/edge/snapshot-source.ts';
import { createRegionObserver } from '../telemetry/region-observer.ts';
import type { QueuedBatch } from '../telemetry/store.ts';
import { createTelemetry } from '../telemetry/telemetry.ts';

/** The parts of an isolate: the services of its requests, the cron run, and the queue consumer. */
export interface IsolateServices {
  readonly services: Services;
  /** If present, requests must await it first. Rejects with a ConfigError if a rule is invalid. */
  ready?(): Promise<unknown>;
  runCron(scheduledTime: number): Promise<void>;
  /** Consumes a batch of the queue of denials and usage. */
  consume(batch: QueuedBatch): Promise<void>;
}

/** `source` provides the rules, if they do not come from Postgres through KV. */
export function createIsolateServices(env: Bindings, source?: RulesSource): IsolateServices {
  const config = parseConfig(env);
  const { deadlineMs, rulesKv: kv, isDevelopment } = config;
  const log = createConsoleLog();
  const database = { url: config.databaseUrl, httpEndpoint: config.databaseHttpEndpoint };
  const collected = createTelemetrySums();
  const regions = createRegions(config, { log, now, sums: collected.sums });
  const reportAs = (event: LogEvent) => (error: unknown, region?: string) => log.error(event, error, region);
  const snapshots = source ?? createSnapshotSource({ kv, now, onError: reportAs('snapshot-unreadable') });
  const postgres = lazyModule(
    () => import('./postgres.ts'),
    ({ createPostgres }) =>
      createPostgres(database, {
        sums: collected.sums,
        webhook: config.telemetry.webhook,
        now,
        onError: reportAs('telemetry-failed'),
      }),
  );
  let ownId: string | undefined;
  const isolateId = () => (ownId ??= randomId());
  const { queue, everyMs, isHashed, subjectsKey, ...kept } = config.telemetry;
  const subjects = { isHashed, key: subjectsKey };
  const clients = new Map(regions.map(({ name, client }) => [name, client]));
  const flush = lazyModule(
    () => import('./flush.ts'),
    ({ createFlush }) =>
      createFlush({
        collected,
        clients,
        subjects,
        queue,
        isolateId,
        now,
        write: async (batch) => (await postgres()).storeBatch(batch),
        onDenied: ({ rule, route, subject }) => log.denied(rule, route, subject),
        onError: reportAs('telemetry-failed'),
      }),
  );
  const telemetry = createTelemetry({
    collected,
    flush: async (...flushed) => (await flush())(...flushed),
    everyMs,
    now,
    clockMs: () => performance.now(),
    breakers: () => Object.fromEntries(regions.map(({ name, breaker }) => [name, breaker.state(now())])),
    leased: () => limiter.leased(),
  });
  const limiter = createLimiter({
    snapshots,
    deadlineMs,
    shares: Object.fromEntries(config.regions.map(({ name, share }) => [name, share])),
    onShadow(results, region) {
      reportShadow(log, results, region);
      telemetry.shadowed(results);
    },
    onBug: log.bug,
    capPerSecond: config.isLogOnly ? 0 : config.isolateCap,
    isolateId,
    now,
  });
  const attempts = lazyModule(
    () => import('../admin/failed-attempts.ts'),
    ({ createAttemptGuard }) => createAttemptGuard({ regions, deadlineMs, now }),
  );
  const guardAttempt: AttemptGuard = async (attempt) => (await attempts())(attempt);
  const management = lazyModule(
    () => import('./management.ts'),
    ({ createManagement }) =>
      createManagement({
        postgres: database,
        snapshots,
        admin: {
          regions,
          deadlineMs,
          ipv6Prefix: config.ipv6Prefix,
          now,
          log,
          auth: { tokens: config.adminTokens, access: config.adminAccess, adminHost: config.adminHost },
          origins: config.origins,
          isLogOnly: config.isLogOnly,
          leasedOf: limiter.leasedOf,
          guardAttempt,
        },
        publishing: {
          kv,
          now,
          regions,
          deployment: config.deployment,
          onError: reportAs('publish-incomplete'),
        },
        databaseCheckMinutes: config.databaseCheckMinutes,
        telemetry: {
          ...kept,
          clients,
          subjects,
          sums: collected.sums,
          // A batch is retried no later than the isolate would flush the next one, and after 10 s at most.
          retrySeconds: Math.min(10, Math.ceil(everyMs / 1_000)),
          own: () => [isolateId(), telemetry.report()] as const,
          flush: () => telemetry.flushMetrics(regions),
          onError: reportAs('telemetry-failed'),
        },
      }),
  );
  const callers = createCallerDirectory({
    rows: {
      key: async (hash) => (await postgres()).callers.key(hash),
      user: async (id) => (await postgres()).callers.user(id),
    },
    kv,
    now,
    deadlineMs,
    revisions: () => revisionsOf(snapshots.callerRevisions()),
    onError: reportAs('caller-unknown'),
  });
  return {
    runCron: async (scheduledTime) => (await management()).runCron(scheduledTime),
    consume: async (batch) => (await management()).consume(batch),
    services: {
      origins: createOriginsOf(config, { env, snapshots, now, log }),
      origin: {
        rateLimitHeaders: config.originRateLimitHeaders,
        costHeader: config.costHeader,
      },
      identity: {
        callers,
        tokens:
          config.jwt &&
          createTokenVerifier({ ...config.jwt, now, deadlineMs, onError: reportAs('token-unverified') }),
        ipv6Prefix: config.ipv6Prefix,
        unverified: config.unverified,
      },
      adminHost: config.adminHost,
      isDevelopment,
      isLogOnly: config.isLogOnly,
      deadlineMs,
      now,
      log,
      regions,
      snapshots,
      regionsOf: createNearestRegions(regions, { isDevelopment, now }),
      showsDegraded: config.showsDegraded,
      incidentCounts: createIncidentCounts(),
      limiter,
      check: {
        tokens: config.adminTokens,
        // Known to every isolate of this Weir, and to nobody else.
        secret: config.regions.map(({ token }) => token).join(' '),
        regions,
      },
      admin: async (request, context) => (await management()).admin(request, context),
      adminRefusal: async (request) => (await management()).adminRefusal(request),
      guardAttempt,
      page: async (request) => (await management()).page(request),
      metrics: async () => (await management()).metrics(),
      telemetry,
      pingDatabase: async (signal) => void (await withDeadline(signal, (await postgres()).ping())),
    },
  };
}

const now = () => Date.now();

export const createConsoleLog = (): Log => createLog(now, (line) => console.warn(line));

interface OriginTools extends Pick<OriginsOptions, 'snapshots' | 'now' | 'log'> {
  readonly env: Bindings;
}

export const createOriginsOf = (config: Config, { env, ...tools }: OriginTools): Origins =>
  createOrigins({
    ...tools,
    defaultOrigin: config.originUrl,
    timeoutMs: config.originTimeoutMs,
    service: (name) => serviceOf(env, name),
    canOverrideHost: !config.isDevelopment,
    headers: { overrides: config.overrideHeaders, hidesAccess: config.adminAccess !== undefined },
    // Two Workers with the same counters are the same Weir.
    identity: config.regions.map(({ url }) => url).join(' '),
  });

const revisionsOf = ({ epoch, revisions }: CallerRevisions) => ({ epoch, of: (id: string) => revisions[id] });

interface RegionTools {
  readonly log: Log;
  readonly now: () => number;
  readonly sums: MetricSums;
}

function createRegions({ regions, isolates, deadlineMs }: Config, { log, now, sums }: RegionTools) {
  // If there are several regions, each gets at most half of the deadline.
  const probeMs = regions.length > 1 ? deadlineMs / 2 : deadlineMs;
  const routes = routesFrom(regions);
  const create = ({ url, token, cluster, ...place }: Config['regions'][number]) => {
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
      census: createCensus({ assumed: isolates, present: presentTo(client) }),
      checkRecords: createCheckRecords(client),
      client,
    };
  };
  const [first, ...others] = regions;
  return [create(first), ...others.map(create)] as const;
}

// All parts of Weir, made once per isolate for each set of bindings.

export type Isolate<P extends IsolateServices = IsolateServices> = P & { readonly app: App };

/** Calls `create` once for each set of bindings. `create` may throw a ConfigError that names every bad variable. */
export function createIsolates<P extends IsolateServices>(
  create: (env: Bindings) => P,
): (env: Bindings) => Isolate<P> {
  const isolates = new WeakMap<object, Isolate<P>>();
  /** The bindings of the last request, which are mostly those of the next one. */
  let latest: { readonly env: object; readonly isolate: Isolate<P> } | undefined;
  const make = (env: Bindings) => {
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

export const isolateOf = createIsolates((env) => createIsolateServices(env));
