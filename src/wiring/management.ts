// The admin route, the page and the cron run. They are loaded on first use, so the gateway never pays for them.

import { type AdminServices, createAdminApp } from '../admin/app.ts';
import { CHECK_ONLY, createGate, sessionsOf } from '../admin/auth.ts';
import { createEndedSessions } from '../admin/session.ts';
import { runSmoke } from '../admin/smoke.ts';
import type { Services } from '../gateway/services.ts';
import { render } from '../http/internal-requests.ts';
import { createPage } from '../page/page.tsx';
import { createMetricsStores } from '../redis/metrics-store.ts';
import { readFreshRules } from '../rules/edge/fresh-rules.ts';
import { withDeadline } from '../rules/edge/published.ts';
import { type PublishOptions, publish } from '../rules/publishing/publish.ts';
import { createRuleReader } from '../rules/publishing/rule-reader.ts';
import { createDatabase } from '../rules/tables/repository.ts';
import { type AlertOptions, sendAlerts } from '../telemetry/alerts.ts';
import { PROMETHEUS_TYPE, pushOtlp, toPrometheus } from '../telemetry/exports.ts';
import { readFleet } from '../telemetry/fleet.ts';
import { createSubjects } from '../telemetry/flush.ts';
import { createConsumer, deleteOld, readStoredMetrics, storeBatch } from '../telemetry/store.ts';
import type { IsolateTelemetry } from '../telemetry/telemetry.ts';
import { type Core, reportTo } from './core.ts';
import { MINUTE_MS, runCron } from './cron.ts';
import type { DeploymentParts, DeploymentServices } from './deployment.ts';

export interface ManagementOptions extends DeploymentParts {
  readonly core: Core;
  readonly telemetry: IsolateTelemetry;
}

type Management = Pick<Services, 'admin' | 'adminRefusal' | 'page'> &
  Omit<DeploymentServices, 'services'> & { metrics(): Promise<Response> };

/** A scrape waits this long for the slowest region. A region without an answer is reported as down. */
const READ_MS = 5_000;
/** And this long for Postgres, if it is asked. Prometheus gives a scrape ten seconds. */
const STORED_MS = 3_000;
/** The longest first delay of a batch that could not be written. */
const MOST_RETRY_SECONDS = 10;

export function createManagement(options: ManagementOptions): Management {
  const { config, core, collected, webhook, telemetry, now, onError } = options;
  const { regions, deadlineMs, log, snapshots } = core;
  const {
    RULES: kv,
    ADMIN_HOST: adminHost,
    OTLP_URL: otlpUrl,
    DATABASE_CHECK_MINUTES: checkMinutes,
  } = config;
  const { sums } = collected;
  const reportAs = reportTo(log);
  const database = createDatabase(options.database);
  const publishing: PublishOptions = {
    database,
    reader: createRuleReader(database, { origins: config.origins, now }),
    kv,
    now,
    regions,
    deployment: config.CF_VERSION_METADATA?.id,
    onError: reportAs('publish-incomplete'),
  };
  const stores = createMetricsStores(regions);
  const fleet = () =>
    readFleet(stores, {
      nowMs: now(),
      deadlineMs,
      signal: AbortSignal.timeout(READ_MS),
      own: [core.isolateId(), telemetry.report()],
      readStored,
      // Postgres is awake in these minutes, because the cron run asks it.
      readsStored: Math.floor(now() / MINUTE_MS) % checkMinutes === 0,
    });
  /** Has time of its own: it begins when a region has used up the other. */
  const readStored = () =>
    withDeadline(AbortSignal.timeout(STORED_MS), readStoredMetrics(database)).catch((error) => {
      onError(error);
      return undefined;
    });
  const flush = () => telemetry.flushMetrics(regions);
  const services = {
    ...core,
    auth: { tokens: config.ADMIN_TOKENS, access: config.ADMIN_ACCESS, adminHost },
    origins: config.origins,
    ipv6Prefix: config.IPV6_PREFIX,
    leasedOf: core.limiter.leasedOf,
    storedSubject: createSubjects(options.subjects).stored,
    sessionSecret: config.DATABASE_URL,
    endedSessions: createEndedSessions({ database, now }),
    database,
    fleet,
    rulesInForce: () => readFreshRules({ snapshots, regions, deadlineMs }),
    publish: (how) => publish(publishing, how),
    smoke: () =>
      runSmoke({
        adminHost,
        database,
        kv,
        now,
        regions: regions.map(({ name, client, store }) => ({ name, client, probe: store.probe })),
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
          databaseCheckMinutes: checkMinutes,
          telemetry: {
            deleteOld: () =>
              deleteOld(database, {
                eventsDays: config.EVENTS_DAYS,
                usageDays: config.USAGE_DAYS,
                nowMs: now(),
              }),
            pushMetrics:
              otlpUrl === undefined ? undefined : async () => pushOtlp(otlpUrl, await fleet(), now()),
            sendAlerts: webhook && (() => sendAgain({ database, webhook, now, sums }, flush)),
            onError,
          },
        },
        scheduledTime,
      ),
    metrics: async () =>
      new Response(toPrometheus(await fleet()), {
        headers: { 'Content-Type': PROMETHEUS_TYPE, 'Cache-Control': 'no-store' },
      }),
    consume: createConsumer({
      sums,
      flush,
      onError,
      // No later than the isolate would flush the next batch.
      retrySeconds: Math.min(MOST_RETRY_SECONDS, Math.ceil(config.TELEMETRY_SECONDS)),
      write: (batch) => storeBatch({ database, webhook, now, sums, onError }, batch),
    }),
  };
}

/** Flushes sums itself, because an isolate that only runs the cron trigger has no responses. */
async function sendAgain(options: AlertOptions, flush: () => Promise<void>): Promise<void> {
  let isCounted = true;
  try {
    isCounted = (await sendAlerts(options)) > 0;
  } finally {
    if (isCounted) await flush();
  }
}
