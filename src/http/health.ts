// GET /_weir/health: whether all is well; for those who have a token also which version runs, by which rules, and how
// each part is doing. It answers 200 even when parts are down: requests go on without them, and that is what a load
// balancer must know.
import { version } from '../../package.json';
import type { Snapshot } from '../core/matching/snapshot.ts';
import { CounterStoreError } from '../core/ports/counter-store.ts';
import type { Services } from './services.ts';

/** `script-failed`: the server answers, but cannot run Weir's script. Nothing is counted there until that is mended. */
interface Part {
  readonly state: 'ok' | 'down' | 'script-failed';
  /** What a server said that cannot run the script. */
  readonly said?: string;
}

/** Anyone may ask, so the answer is kept for a moment: asking often costs the parts nothing. */
const KEEP_MS = 1_000;

const NOT_STORED = { headers: { 'cache-control': 'no-store' } };

export interface HealthOptions {
  /** What runs here, and what is wrong with it, is nobody else's business. */
  readonly hasDetails: boolean;
}

export function createHealth(services: Services) {
  let parts: Record<string, Part> = {};
  let checkedAt = Number.NEGATIVE_INFINITY;

  return async (request: Request, { hasDetails }: HealthOptions): Promise<Response> => {
    const [region] = services.regionsOf(request) ?? [];
    const { snapshots } = services;
    const snapshot = snapshots.current() ?? (await snapshots.start((region ?? services.regions[0]).board));
    if (services.now() - checkedAt >= KEEP_MS) {
      // Before the probes: those who ask meanwhile get the last answer.
      checkedAt = services.now();
      parts = await probeParts(services);
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

/** What turns it off, if something does: the variable of this deployment, or the settings that are published. */
const enforcementOf = ({ isLogOnly }: Services, snapshot: Snapshot | undefined) =>
  isLogOnly
    ? { mode: 'log', by: 'ENFORCEMENT' }
    : { mode: snapshot?.isLogOnly ? 'log' : 'on', by: 'settings' };

const breakersOf = ({ regions, now }: Services) =>
  Object.fromEntries(regions.map(({ name, breaker }) => [name, breaker.state(now())]));

async function probeParts(services: Services): Promise<Record<string, Part>> {
  const signal = AbortSignal.timeout(services.deadlineMs);
  const probes: [string, Promise<void>][] = [
    ...services.regions.map(({ name, store }): [string, Promise<void>] => [
      `redis:${name}`,
      store.probe(signal),
    ]),
  ];
  if (services.pingDatabase) probes.push(['postgres', services.pingDatabase(signal)]);
  const found = probes.map(async ([name, probe]) => [name, await probe.then(() => OK, toPart)] as const);
  return Object.fromEntries(await Promise.all(found));
}

const OK: Part = { state: 'ok' };

const toPart = (error: unknown): Part =>
  error instanceof CounterStoreError && error.failure === 'script-failed'
    ? { state: 'script-failed', said: error.message }
    : { state: 'down' };

const mapValues = <V, W>(record: Readonly<Record<string, V>>, change: (value: V) => W): Record<string, W> =>
  Object.fromEntries(Object.entries(record).map(([name, value]) => [name, change(value)]));
