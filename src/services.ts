// Puts the real parts together, once per isolate. Only this file and the entry see everything.
import { sql } from 'drizzle-orm';
import type { Gate } from './admin/auth.ts';
import type { AdminApp, AdminServices } from './admin/services.ts';
import type { Bindings } from './bindings.ts';
import { type Config, parseConfig } from './config.ts';
import { createBreaker } from './core/breaker.ts';
import { createCensus } from './core/census.ts';
import { toBase64Url } from './core/digest.ts';
import { nearestRegion, type RequestOrigin, routesFrom } from './core/regions.ts';
import type { CronParts } from './cron.ts';
import { createLog, type Log, type LogEvent } from './http/log.ts';
import type { Services } from './http/services.ts';
import { createTally } from './http/tally.ts';
import { createTokenVerifier } from './identity/jwt.ts';
import { createDistance } from './limiter/distance.ts';
import { createLimiter } from './limiter/limiter.ts';
import { createRegionWatch } from './limiter/region-watch.ts';
import { splitBySlot } from './limiter/slot-split.ts';
import { createAnnouncementBoard } from './redis/announcement-board.ts';
import { createCensusBoard } from './redis/census.ts';
import { createClient } from './redis/client.ts';
import { createUpstashStore } from './redis/upstash-store.ts';
import type { CallerRevisions } from './rules/caller-revisions.ts';
import { createCallerDirectory } from './rules/callers.ts';
import { createDatabase } from './rules/database.ts';
import { publish } from './rules/publish.ts';
import { createRuleReader } from './rules/rule-reader.ts';
import { createSnapshotSource } from './rules/snapshot-source.ts';
import { withDeadline } from './rules/with-deadline.ts';

/** What an isolate has: the services of its requests, and what the cron run needs. */
export interface Parts extends CronParts {
  readonly services: Services;
}

export function createParts(env: Bindings): Parts {
  const config = parseConfig(env);
  const { deadlineMs, rulesKv: kv, isDevelopment } = config;
  const now = () => Date.now();
  const log = createLog(now, (line) => console.warn(line));
  const database = createDatabase({ url: config.databaseUrl, httpEndpoint: config.databaseHttpEndpoint });
  const regions = createRegions(config, log, now);
  const reportAs = (event: LogEvent) => (error: unknown, region?: string) => log.error(event, error, region);
  const snapshots = createSnapshotSource({ kv, now, onError: reportAs('snapshot-unreadable') });
  const reader = createRuleReader(database);
  const { deployment } = config;
  const publishing = { database, reader, kv, regions, deployment, onError: reportAs('publish-incomplete') };
  const admin: AdminServices = {
    database,
    regions,
    deadlineMs,
    ipv6Prefix: config.ipv6Prefix,
    now,
    log,
    publish: (how) => publish(publishing, how),
    auth: { tokens: config.adminTokens, access: config.adminAccess },
  };
  const callers = createCallerDirectory({
    database,
    kv,
    now,
    deadlineMs,
    revisions: () => revisionsOf(snapshots.callerRevisions()),
    onError: reportAs('caller-unknown'),
  });
  return {
    publishing,
    databaseCheckMinutes: config.databaseCheckMinutes,
    services: {
      origin: {
        url: config.originUrl,
        timeoutMs: config.originTimeoutMs,
        headers: { overrides: config.overrideHeaders, hidesAccess: config.adminAccess !== undefined },
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
      isDevelopment,
      deadlineMs,
      now,
      log,
      regions,
      snapshots,
      regionsOf: createRouting(regions, isDevelopment),
      showsDegraded: config.showsDegraded,
      tally: createTally(),
      limiter: createLimiter({
        snapshots,
        deadlineMs,
        shares: Object.fromEntries(config.regions.map(({ name, share }) => [name, share])),
        onError: reportAs('charge-not-settled'),
        onBug: log.bug,
        capPerSecond: config.isolateCap,
        isolateId: () => toBase64Url(crypto.getRandomValues(new Uint8Array(12))),
        now,
      }),
      ...createAdmin(admin),
      pingDatabase: async (signal) => void (await withDeadline(signal, database.execute(sql`select 1`))),
    },
  };
}

const revisionsOf = ({ epoch, revisions }: CallerRevisions) => ({ epoch, of: (id: string) => revisions[id] });

/** The admin route is loaded when it is first called: the gateway starts without it. */
function createAdmin(services: AdminServices): Pick<Services, 'admin' | 'adminRefusal'> {
  let loaded: { readonly app: AdminApp; readonly gate: Gate } | undefined;
  const load = async () => {
    const [{ createAdminApp }, { createGate }] = await Promise.all([
      import('./admin/app.ts'),
      import('./admin/auth.ts'),
    ]);
    const gate = createGate(services);
    loaded ??= { app: createAdminApp(services, gate), gate };
    return loaded;
  };
  return {
    async admin(request, context) {
      const { app } = loaded ?? (await load());
      const answer = Promise.resolve(app.fetch(request, {}, context));
      // A client that leaves after its change was saved must not keep it from being published.
      context.waitUntil(answer.catch(() => {}));
      return answer;
    },
    async adminRefusal(request) {
      const { gate } = loaded ?? (await load());
      const entry = await gate(request);
      return entry instanceof Response ? entry : undefined;
    },
  };
}

type RegionParts = ReturnType<typeof createRegions>[number];

function createRegions({ regions, isolates, deadlineMs }: Config, log: Log, now: () => number) {
  // A region that is not alone gets no more than half of the deadline.
  const probeMs = regions.length > 1 ? deadlineMs / 2 : deadlineMs;
  const create = ({ url, token, cluster, ...place }: Config['regions'][number]) => {
    const { name } = place;
    const client = createClient({ url, token });
    const board = createAnnouncementBoard(client);
    const store = createUpstashStore(client);
    const breaker = createBreaker({ random: Math.random, onChange: (state) => log.breaker(name, state) });
    const distance = createDistance(store, now);
    return {
      ...place,
      board,
      store: cluster ? splitBySlot(store, board) : store,
      isCluster: cluster,
      breaker,
      distance,
      watch: createRegionWatch({
        store,
        breaker,
        distance,
        probeMs,
        now,
        onScriptFailed: (said, isBroken) => log.script(name, said, isBroken),
        onBug: log.bug,
      }),
      census: createCensus({ assumed: isolates }),
      censusBoard: createCensusBoard(client),
    };
  };
  const [first, ...others] = regions;
  return [create(first), ...others.map(create)] as const;
}

/** The nearest region of a request, then those nearest to that one. */
function createRouting(
  regions: readonly [RegionParts, ...RegionParts[]],
  isDevelopment: boolean,
): Services['regionsOf'] {
  const routes = routesFrom(regions);
  return (request) => {
    const played = isDevelopment ? request.headers.get('X-Weir-Region') : null;
    return routes.get(played ?? nearestRegion(regions, (request.cf ?? {}) as RequestOrigin).name);
  };
}
