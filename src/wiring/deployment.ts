// Weir with rules in Postgres: the core, rules and callers that come through KV, telemetry, the admin route, the page, the
// cron run and the queue consumer. Modules that most requests never need are loaded when they are needed.
import type { DeploymentConfig } from '../config/config.ts';
import { lazyModule } from '../core/lazy-module.ts';
import { parseOrigin } from '../core/matching/origin-routes.ts';
import type { IdentitySource } from '../core/ports/callers.ts';
import { createTelemetrySums, type TelemetrySums } from '../core/telemetry/metrics.ts';
import type { Services } from '../gateway/services.ts';
import {
  DEFAULT_KEY_PLACES,
  parseKeyPlaces,
  parseSourceHeaders,
  sourceHeadersOf,
} from '../http/credentials.ts';
import { createCallerDirectory } from '../identity/directory.ts';
import { HOP_HEADER } from '../proxy/headers.ts';
import { createLoopGuard } from '../proxy/origins.ts';
import { withDeadline } from '../rules/edge/published.ts';
import { createSnapshotSource } from '../rules/edge/snapshot-source.ts';
import type { DatabaseOptions } from '../rules/tables/repository.ts';
import type { Webhook } from '../telemetry/alerts.ts';
import { createCollector } from '../telemetry/collect.ts';
import type { QueuedBatch, SubjectsOptions } from '../telemetry/flush.ts';
import { createTelemetry } from '../telemetry/telemetry.ts';
import { createConsoleLog, createCore, now, reportTo, weirIdOf } from './core.ts';

export interface DeploymentServices {
  /** All but the origins: Weir forwards a request, or the rest of an app answers it. */
  readonly services: Omit<Services, 'origins'>;
  runCron(scheduledTime: number): Promise<void>;
  /** Consumes a batch of the queue of denials and usage. */
  consume(batch: QueuedBatch): Promise<void>;
}

export function createDeployment(config: DeploymentConfig): DeploymentServices {
  const { RULES: kv, DEADLINE_MS: deadlineMs, ADMIN_HOST: adminHost } = config;
  const log = createConsoleLog();
  const reportAs = reportTo(log);
  const collected = createTelemetrySums(Math.random);
  const clockMs = () => performance.now();
  const collector = createCollector({ ...collected, now, clockMs });
  const parts: DeploymentParts = {
    config,
    now,
    collected,
    subjects: { isHashed: config.SUBJECTS === 'hash', key: config.SUBJECTS_KEY ?? config.DATABASE_URL },
    database: { url: config.DATABASE_URL, httpEndpoint: config.DATABASE_HTTP_ENDPOINT },
    webhook: webhookOf(config),
    onError: reportAs('telemetry-failed'),
  };
  const postgres = lazyModule(
    () => import('./postgres.ts'),
    ({ createPostgres }) => createPostgres(parts),
  );

  const snapshots = createSnapshotSource({ kv, now, onError: reportAs('snapshot-unreadable') });
  const callers = createCallerDirectory({
    rows: {
      key: async (hash) => (await postgres()).callers.key(hash),
      user: async (id) => (await postgres()).callers.user(id),
    },
    kv,
    now,
    deadlineMs,
    revisions: snapshots.callerRevisions,
    onError: reportAs('caller-unknown'),
  });
  const { sums } = collected;
  const ask = lazyModule(
    () => import('../identity/source.ts'),
    ({ createIdentitySource }) =>
      createIdentitySource({
        ...sourceOf(config),
        hop: () => loops.mark(NO_REQUEST, true),
        hopHeader: HOP_HEADER,
        kv,
        now,
        random: Math.random,
        deadlineMs,
        revisions: snapshots.callerRevisions,
        onError: reportAs('identity-failed'),
      }).ask,
  );
  const loops = createLoopGuard({ identity: weirIdOf(config), log });
  const source: IdentitySource | undefined =
    config.IDENTITY === undefined
      ? undefined
      : { headers: sourceHeadersIn(config), ask: async (...asked) => (await ask())(...asked) };
  const core = createCore({
    config,
    log,
    snapshots,
    callers,
    source,
    sums,
    onShadow: collector.shadowed,
  });
  const { regions, limiter } = core;

  const flush = lazyModule(
    () => import('./flush.ts'),
    ({ createIsolateFlush }) =>
      createIsolateFlush({ ...parts, core, write: async (batch) => (await postgres()).storeBatch(batch) }),
  );
  const telemetry = createTelemetry({
    collector,
    collected,
    flush: async (...flushed) => (await flush())(...flushed),
    everyMs: config.TELEMETRY_SECONDS * 1_000,
    now,
    clockMs,
    breakers: () => Object.fromEntries(regions.map(({ name, breaker }) => [name, breaker.state(now())])),
    leased: limiter.leased,
  });
  const management = lazyModule(
    () => import('./management.ts'),
    ({ createManagement }) => createManagement({ ...parts, core, telemetry }),
  );
  return {
    runCron: async (scheduledTime) => (await management()).runCron(scheduledTime),
    consume: async (batch) => (await management()).consume(batch),
    services: {
      ...core,
      adminHost,
      telemetry,
      admin: async (request, context) => (await management()).admin(request, context),
      adminRefusal: async (request) => (await management()).adminRefusal(request),
      page: async (request) => (await management()).page(request),
      metrics: async () => (await management()).metrics(),
      pingDatabase: async (signal) => void (await withDeadline(signal, (await postgres()).ping())),
    },
  };
}

// The operator's own authentication.

const NO_REQUEST = { headers: new Headers() };

function sourceOf({ IDENTITY = '', DATABASE_URL, service }: DeploymentConfig) {
  const origin = parseOrigin(IDENTITY);
  const address = origin?.kind === 'service' ? { service: service(origin.name) } : { url: IDENTITY };
  return { address, name: IDENTITY, secret: `identity ${DATABASE_URL}` };
}

const sourceHeadersIn = ({ API_KEY_HEADERS, IDENTITY_HEADERS }: DeploymentConfig) =>
  parseSourceHeaders(IDENTITY_HEADERS ?? '') ??
  sourceHeadersOf(parseKeyPlaces(API_KEY_HEADERS) ?? DEFAULT_KEY_PLACES);

/** Weir reads several of one name as one text, which is no valid credential. So must the origin. */
export function joinedHeadersOf(config: DeploymentConfig): readonly string[] {
  const places = parseKeyPlaces(config.API_KEY_HEADERS) ?? DEFAULT_KEY_PLACES;
  const read = config.IDENTITY === undefined ? [] : sourceHeadersIn(config);
  return [...new Set([...places, ...read].map(({ header }) => header))].filter((name) => name !== 'cookie');
}

const webhookOf = ({ ALERT_WEBHOOK: url, ALERT_WEBHOOK_SECRET: secret }: DeploymentConfig) =>
  url !== undefined && secret !== undefined ? { url, secret } : undefined;

/** What the modules that are loaded later have in common. */
export interface DeploymentParts {
  readonly config: DeploymentConfig;
  readonly now: () => number;
  readonly collected: TelemetrySums;
  readonly subjects: SubjectsOptions;
  readonly database: DatabaseOptions;
  readonly webhook: Webhook | undefined;
  /** Reports an error of telemetry. */
  readonly onError: (error: unknown) => void;
}
