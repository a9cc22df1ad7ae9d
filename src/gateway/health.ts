// GET /_weir/health shows whether all parts work. A caller with a token also sees the version, the rules in force, and
// the state of each part. The answer is 200 even when parts are down, because Weir works without them: a load balancer
// must keep sending requests.
import { version } from '../../package.json';
import type { Snapshot } from '../core/matching/snapshot.ts';
import { CounterStoreError } from '../core/ports/region.ts';
import type { Services } from './services.ts';

/** `script-failed`: the server answers, but cannot run Weir's script. It counts nothing until an operator fixes it. */
interface Component {
  readonly state: 'ok' | 'down' | 'script-failed';
  /** The error of a server that cannot run the script. */
  readonly said?: string;
}

/** Anybody may ask, so the isolate keeps the answer for a moment. Frequent requests then cost the parts nothing. */
const KEEP_MS = 1_000;

const NOT_STORED = { headers: { 'cache-control': 'no-store' } };

export interface HealthOptions {
  /** Only callers with a token see what runs here and what is wrong with it. */
  readonly hasDetails: boolean;
}

export function createHealth(services: Services) {
  let parts: Record<string, Component> = {};
  let checkedAt = Number.NEGATIVE_INFINITY;

  return async (request: Request, { hasDetails }: HealthOptions): Promise<Response> => {
    const [region] = services.regionsOf(request) ?? [];
    const { snapshots } = services;
    const snapshot = snapshots.current() ?? (await snapshots.start((region ?? services.regions[0]).pointer));
    if (services.now() - checkedAt >= KEEP_MS) {
      // Set before the probes, so that requests during the probes get the last answer.
      checkedAt = services.now();
      parts = await probeComponents(services);
    }
    const healthy = snapshot !== undefined && Object.values(parts).every(({ state }) => state === 'ok');
    const status = healthy ? 'ok' : 'degraded';
    if (!hasDetails) return Response.json({ status }, NOT_STORED);
    return Response.json(
      {
        status,
        version,
        region: region?.name ?? null,
        rules: { version: snapshot?.version ?? null, count: snapshot?.ruleCount ?? 0 },
        enforcement: enforcementOf(services, snapshot),
        parts: { rules: snapshot ? 'ok' : 'missing', ...mapValues(parts, ({ state }) => state) },
        errors: mapValues(parts, ({ said }) => said),
        isolate: {
          breakers: breakersOf(services),
          isolates: Object.fromEntries(services.regions.map(({ name, census }) => [name, census.count()])),
          leases: services.limiter.leased(),
          degraded: services.incidentCounts.list(),
          origins: services.origins.report(),
        },
      },
      NOT_STORED,
    );
  };
}

/** Whether rules are enforced, and what decides that: a variable of this deployment, or the published settings. */
const enforcementOf = ({ isLogOnly }: Services, snapshot: Snapshot | undefined) =>
  isLogOnly
    ? { mode: 'log', by: 'ENFORCEMENT' }
    : { mode: snapshot?.isLogOnly ? 'log' : 'on', by: 'settings' };

const breakersOf = ({ regions, now }: Services) =>
  Object.fromEntries(regions.map(({ name, breaker }) => [name, breaker.state(now())]));

async function probeComponents(services: Services): Promise<Record<string, Component>> {
  const signal = AbortSignal.timeout(services.deadlineMs);
  const probes: [string, Promise<void>][] = [
    ...services.regions.map(({ name, store }): [string, Promise<void>] => [
      `redis:${name}`,
      store.probe(signal),
    ]),
  ];
  if (services.pingDatabase) probes.push(['postgres', services.pingDatabase(signal)]);
  const found = probes.map(async ([name, probe]) => [name, await probe.then(() => OK, toComponent)] as const);
  return Object.fromEntries(await Promise.all(found));
}

const OK: Component = { state: 'ok' };

const toComponent = (error: unknown): Component =>
  error instanceof CounterStoreError && error.failure === 'script-failed'
    ? { state: 'script-failed', said: error.message }
    : { state: 'down' };

const mapValues = <V, W>(record: Readonly<Record<string, V>>, change: (value: V) => W): Record<string, W> =>
  Object.fromEntries(Object.entries(record).map(([name, value]) => [name, change(value)]));
