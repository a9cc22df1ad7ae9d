// The admin route, the page and the cron run. They are loaded on first use, so the gateway never pays for them.

import { type AdminServices, createAdminApp } from '../admin/app.ts';
import { CHECK_ONLY, createGate, sessionsOf } from '../admin/auth.ts';
import { createEndedSessions } from '../admin/session.ts';
import { runSmoke } from '../admin/smoke.ts';
import type { IsolateReport } from '../core/ports/region.ts';
import type { SnapshotSource } from '../core/ports/snapshot-source.ts';
import type { Services } from '../gateway/services.ts';
import { render } from '../http/internal-problems.ts';
import { createPage } from '../page/page.tsx';
import type { Client } from '../redis/client.ts';
import { createMetricsStores } from '../redis/metrics-store.ts';
import { readFreshRules } from '../rules/edge/fresh-rules.ts';
import { withDeadline } from '../rules/edge/published.ts';
import { type PublishOptions, publish } from '../rules/publishing/publish.ts';
import { reconcile } from '../rules/publishing/reconcile.ts';
import { createRuleReader } from '../rules/publishing/rule-reader.ts';
import { createDatabase, type DatabaseOptions } from '../rules/tables/repository.ts';
import { type AlertOptions, sendAlerts, type Webhook } from '../telemetry/alerts.ts';
import { PROMETHEUS_TYPE, pushOtlp, toPrometheus } from '../telemetry/exports.ts';
import { readFleet } from '../telemetry/fleet.ts';
import { createSubjects, type SubjectsOptions } from '../telemetry/flush.ts';
import {
  type ConsumerOptions,
  createConsumer,
  deleteOld,
  type QueuedBatch,
  type RetentionOptions,
  readStoredMetrics,
  storeBatch,
} from '../telemetry/store.ts';

// The cron run, once a minute. It publishes the rules if Postgres has changed, however the change got there. It also
// pushes metrics, sends failed alerts again, and deletes old records. Mostly there is nothing to do.

const MINUTE_MS = 60_000;
/** The cron run writes everything again once a day, long before announcements (3 days) and KV (30 days) expire. */
const RENEWAL_MINUTES = 24 * 60;
/** The cron run deletes rarely, because that wakes Postgres, and an hour does not matter for month-old records. */
const DELETE_MINUTES = 60;

export interface CronParts {
  readonly publishing: PublishOptions;
  /** How often Postgres is asked for changes. */
  readonly databaseCheckMinutes: number;
  /** Undefined: there is no telemetry. */
  readonly telemetry?: CronTelemetry | undefined;
}

export interface CronTelemetry {
  /** Deletes some of the old denials and usage. */
  readonly deleteOld: () => Promise<unknown>;
  /** Undefined if OTLP_URL is not set. */
  readonly pushMetrics: (() => Promise<void>) | undefined;
  /** Undefined if there is no webhook. */
  readonly sendAlerts?: (() => Promise<unknown>) | undefined;
  readonly onError: (error: unknown) => void;
}

/** Publishes rules first, so that a failure of another task cannot prevent it. */
export async function runCron(parts: CronParts, scheduledTime: number): Promise<void> {
  const minute = Math.floor(scheduledTime / MINUTE_MS);
  try {
    await publishChanges(parts, minute);
  } finally {
    await pushAndDelete(parts, minute);
  }
}

async function pushAndDelete({ telemetry, databaseCheckMinutes }: CronParts, minute: number): Promise<void> {
  if (!telemetry) return;
  const { pushMetrics, sendAlerts, deleteOld, onError } = telemetry;
  await pushMetrics?.().catch(onError);
  // Only when Postgres is awake anyway.
  if (minute % databaseCheckMinutes === 0) await sendAlerts?.().catch(onError);
  if (minute % DELETE_MINUTES === 0) await deleteOld().catch(onError);
}

async function publishChanges(parts: CronParts, minute: number): Promise<void> {
  const publication = await reconcile(parts.publishing, {
    asksPostgres: minute % parts.databaseCheckMinutes === 0,
    renews: minute % RENEWAL_MINUTES === 0,
  });
  if (!publication) return;
  const { version, changed, ruleCount, rejected } = publication;
  if (changed) console.log(JSON.stringify({ event: 'published', version, ruleCount }));
  for (const row of rejected) console.warn(JSON.stringify({ event: 'rule-rejected', ...row }));
}

export interface ManagementOptions {
  readonly postgres: DatabaseOptions;
  readonly snapshots: SnapshotSource;
  readonly admin: Omit<
    AdminServices,
    'database' | 'publish' | 'fleet' | 'rulesInForce' | 'smoke' | 'sessionSecret' | 'endedSessions'
  >;
  readonly publishing: Omit<PublishOptions, 'database' | 'reader'>;
  /** How often Postgres is asked for changes. */
  readonly databaseCheckMinutes: number;
  readonly telemetry: ManagedTelemetry;
}

export interface ManagedTelemetry
  extends Pick<ConsumerOptions, 'sums' | 'retrySeconds' | 'flush' | 'onError'>,
    Omit<RetentionOptions, 'nowMs'> {
  readonly clients: ReadonlyMap<string, Client>;
  readonly subjects: SubjectsOptions;
  /** This isolate's id, and its report about itself. */
  readonly own: () => readonly [isolateId: string, report: IsolateReport];
  readonly otlpUrl: string | undefined;
  readonly webhook: Webhook | undefined;
}

export interface Management extends Pick<Services, 'admin' | 'adminRefusal' | 'page'> {
  runCron(scheduledTime: number): Promise<void>;
  metrics(): Promise<Response>;
  consume(batch: QueuedBatch): Promise<void>;
}

/** Flushes sums itself, because an isolate that only runs the cron trigger has no responses. */
async function sendAgain(options: AlertOptions, { flush }: ManagedTelemetry): Promise<void> {
  let isCounted = true;
  try {
    isCounted = (await sendAlerts(options)) > 0;
  } finally {
    if (isCounted) await flush();
  }
}

const toSmoke = ({ admin }: Pick<ManagementOptions, 'admin'>, { clients }: ManagedTelemetry) =>
  admin.regions.flatMap(({ name, store }) => {
    const client = clients.get(name);
    return client ? [{ name, client, probe: store.probe }] : [];
  });

/** A scrape waits this long for the slowest region. A region without an answer is reported as down. */
const READ_MS = 5_000;
/** And this long for Postgres, if it is asked. Prometheus gives a scrape ten seconds. */
const STORED_MS = 3_000;

export function createManagement({
  databaseCheckMinutes,
  telemetry,
  ...options
}: ManagementOptions): Management {
  const database = createDatabase(options.postgres);
  const publishing = {
    ...options.publishing,
    database,
    reader: createRuleReader(database, options.admin),
  };
  const { now } = options.admin;
  const { otlpUrl, webhook } = telemetry;
  const stores = createMetricsStores(telemetry.clients);
  const fleet = () => {
    const signal = AbortSignal.timeout(READ_MS);
    return readFleet(stores, {
      nowMs: now(),
      deadlineMs: options.admin.deadlineMs,
      signal,
      own: telemetry.own(),
      readStored: () => readStored(),
      // Postgres is awake in these minutes, because the cron run asks it.
      readsStored: Math.floor(now() / 60_000) % databaseCheckMinutes === 0,
    });
  };
  /** Has time of its own: it begins when a region has used up the other. */
  const readStored = () =>
    withDeadline(AbortSignal.timeout(STORED_MS), readStoredMetrics(database)).catch((error) => {
      telemetry.onError(error);
      return undefined;
    });
  const services = {
    ...options.admin,
    storedSubject: createSubjects(telemetry.subjects).stored,
    sessionSecret: options.postgres.url,
    endedSessions: createEndedSessions({ database, now }),
    database,
    fleet,
    rulesInForce: () =>
      readFreshRules({
        snapshots: options.snapshots,
        regions: options.publishing.regions,
        deadlineMs: options.admin.deadlineMs,
      }),
    publish: (how) => publish(publishing, how),
    smoke: () =>
      runSmoke({
        ...options.admin,
        adminHost: options.admin.auth.adminHost,
        database,
        kv: publishing.kv,
        regions: toSmoke(options, telemetry),
      }),
  } satisfies AdminServices;
  const sessions = sessionsOf(services);
  const gate = createGate(services, sessions);
  const app = createAdminApp(services, gate);
  return {
    admin(request, context) {
      const answer = Promise.resolve(app.fetch(request, {}, context));
      // The change must be published even if the client leaves after saving it.
      context.waitUntil(answer.catch(() => {}));
      return answer;
    },
    async adminRefusal(request) {
      const entry = await gate(request);
      if (entry instanceof Response) return entry;
      return entry.role === 'check' ? render(CHECK_ONLY) : undefined;
    },
    page: createPage({ gate, sessions }),
    runCron: (scheduledTime) =>
      runCron(
        {
          publishing,
          databaseCheckMinutes,
          telemetry: {
            deleteOld: () => deleteOld(database, { ...telemetry, nowMs: now() }),
            pushMetrics:
              otlpUrl === undefined ? undefined : async () => pushOtlp(otlpUrl, await fleet(), now()),
            sendAlerts:
              webhook && (() => sendAgain({ database, webhook, now, sums: telemetry.sums }, telemetry)),
            onError: telemetry.onError,
          },
        },
        scheduledTime,
      ),
    metrics: async () =>
      new Response(toPrometheus(await fleet()), {
        headers: { 'Content-Type': PROMETHEUS_TYPE, 'Cache-Control': 'no-store' },
      }),
    consume: createConsumer({
      ...telemetry,
      write: (batch) => storeBatch({ ...telemetry, database, now }, batch),
    }),
  };
}
