// The handlers of Weir's own paths, in one module that an isolate loads with the first request to any of them.
//
// This file has one of them: GET /_weir/health shows whether all parts work. A caller with a token also sees the
// version, the rules in force, and the state of each part. The answer is 200 even when parts are down, because Weir
// works without them: a load balancer must keep sending requests.
import { version } from '../../package.json';
import type { Snapshot } from '../core/matching/snapshot.ts';
import { CounterStoreError } from '../core/ports/region.ts';
import type { Services } from './services.ts';

export { serviceChecks } from '../checks/checks.ts';
export { createQuota } from '../checks/quota.ts';
export { createCheckRoute } from '../checks/route.ts';

/** `script-failed`: the server answers, but cannot run Weir's script. It counts nothing until an operator fixes it. */
interface Component {
  readonly state: 'ok' | 'down' | 'script-failed';
  /** The error of a server that cannot run the script. */
  readonly said?: string;
}

/** Anybody may ask, so the isolate keeps the answer for a moment. Frequent requests then cost the parts nothing. */
const KEEP_MS = 1_000;

const NOT_STORED = { headers: { 'cache-control': 'no-store' } };

/** `hasDetails`: only callers with a token see what runs here and what is wrong with it. */
export function createHealth(services: Services) {
  let parts: Record<string, Component> = {};
  let checkedAt = Number.NEGATIVE_INFINITY;

  return async (request: Request, { hasDetails }: { readonly hasDetails: boolean }): Promise<Response> => {
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
          breakers: ofRegions(services, ({ breaker }) => breaker.state(services.now())),
          isolates: ofRegions(services, ({ census }) => census.count()),
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

const ofRegions = <V>({ regions }: Services, read: (region: Services['regions'][number]) => V) =>
  Object.fromEntries(regions.map((region) => [region.name, read(region)]));

async function probeComponents({ regions, deadlineMs, pingDatabase }: Services) {
  const signal = AbortSignal.timeout(deadlineMs);
  const probes = regions.map(({ name, store }) => [`redis:${name}`, store.probe(signal)] as const);
  const all = pingDatabase ? [...probes, ['postgres', pingDatabase(signal)] as const] : probes;
  const found = all.map(async ([name, probe]) => [name, await probe.then(() => OK, toComponent)] as const);
  return Object.fromEntries(await Promise.all(found));
}

const OK: Component = { state: 'ok' };

const toComponent = (error: unknown): Component =>
  error instanceof CounterStoreError && error.failure === 'script-failed'
    ? { state: 'script-failed', said: error.message }
    : { state: 'down' };

const mapValues = <V, W>(record: Readonly<Record<string, V>>, change: (value: V) => W): Record<string, W> =>
  Object.fromEntries(Object.entries(record).map(([name, value]) => [name, change(value)]));
