// GET /_weir/health: whether all is well; for those who have a token also which version runs, by which rules, and how
// each part is doing. It answers 200 even when parts are down: requests go on without them, and that is what a load
// balancer must know.
import { version } from '../../package.json';
import type { LimiterRegion } from '../limiter/region-ladder.ts';
import type { Services } from './services.ts';

type PartState = 'ok' | 'down';

/** Anyone may ask, so the answer is kept for a moment: asking often costs the parts nothing. */
const KEEP_MS = 1_000;

const NOT_STORED = { headers: { 'cache-control': 'no-store' } };

export interface HealthOptions {
  /** What runs here, and what is wrong with it, is nobody else's business. */
  readonly hasDetails: boolean;
}

export function createHealth(services: Services) {
  let parts: Record<string, PartState> = {};
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
    const healthy = snapshot !== undefined && Object.values(parts).every((state) => state === 'ok');
    const status = healthy ? 'ok' : 'degraded';
    if (!hasDetails) return Response.json({ status }, NOT_STORED);
    return Response.json(
      {
        status,
        version,
        region: region?.name ?? null,
        rules: { version: snapshot?.version ?? null, count: snapshot?.ruleCount ?? 0 },
        parts: { rules: snapshot ? 'ok' : 'missing', ...parts },
        isolate: {
          breakers: breakersOf(services),
          isolates: Object.fromEntries(services.regions.map(({ name, census }) => [name, census.count()])),
          degraded: services.tally.list(),
        },
      },
      NOT_STORED,
    );
  };
}

const breakersOf = ({ regions, now }: Services) =>
  Object.fromEntries(regions.map(({ name, breaker }) => [name, breaker.state(now())]));

async function probeParts(services: Services): Promise<Record<string, PartState>> {
  const signal = AbortSignal.timeout(services.deadlineMs);
  const probes: [string, Promise<void>][] = [
    ...services.regions.map((region: LimiterRegion): [string, Promise<void>] => [
      `redis:${region.name}`,
      region.store.ping(signal),
    ]),
    ['postgres', services.pingDatabase(signal)],
  ];
  const states = await Promise.all(
    probes.map(
      async ([name, probe]) =>
        [
          name,
          await probe.then(
            () => 'ok',
            () => 'down',
          ),
        ] as const,
    ),
  );
  return Object.fromEntries(states) as Record<string, PartState>;
}
