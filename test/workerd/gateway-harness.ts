// The gateway with a limiter that decides on command, and all work that it hands over for after the response.
import type { Decision } from '../../src/core/decision.ts';
import { UNAVAILABLE } from '../../src/core/ports/callers.ts';
import { handleGateway } from '../../src/gateway/gateway.ts';
import type { GatewayServices } from '../../src/gateway/services.ts';
import { readClientRequest } from '../../src/http/guard.ts';
import { createIncidentCounts, type RegionIncident } from '../../src/http/log.ts';
import { createDeadline } from '../../src/limiter/deadline.ts';
import type { Ledger } from '../../src/limiter/ledger.ts';
import type { ProxyResult } from '../../src/proxy/proxy.ts';
import { createRegion } from '../limiter/fake-regions.ts';
import { snapshotOf } from '../limiter/limiter-harness.ts';
import { SILENT, SILENT_LOG } from '../telemetry/silent.ts';

export interface Situation {
  readonly decision: Decision;
  /** What the decision has charged. */
  readonly charge?: (ledger: Ledger) => void;
  readonly showsDegraded?: boolean;
  /** The request has a key, and nobody knows whose. */
  readonly isUnknown?: boolean;
  /** The origin. By default it answers at once. */
  readonly forward?: () => Promise<ProxyResult>;
  /** Whether the client has left before the decision. */
  readonly isGone?: boolean;
}

/** Resolves when all work after the response is done, to the answer and everything that was reported. */
export async function send(situation: Situation) {
  const {
    decision,
    showsDegraded = true,
    isUnknown = false,
    isGone = false,
    forward = answerAtOnce,
  } = situation;
  const incidents: RegionIncident[] = [];
  const shadows: string[] = [];
  const later: Promise<unknown>[] = [];
  const incidentCounts = createIncidentCounts();
  const regions = [createRegion('us', {}), createRegion('eu', {})] as const;
  const deadline = createDeadline(1_000, () => 0);
  const services = {
    limiter: {
      async decide({ ledger }, plan) {
        await plan({ snapshot: snapshotOf('v1'), deadline, isKnownDenied: () => false });
        situation.charge?.(ledger);
        return decision;
      },
      leased: () => ({ counters: 0, units: 0 }),
      leasedOf: () => undefined,
    },
    identity: {
      callers: { ofApiKey: async () => UNAVAILABLE, ofUser: async () => UNAVAILABLE },
      tokens: undefined,
      ipv6Prefix: 64,
      unverified: 'count',
    },
    origins: {
      routeOf: () => undefined,
      isZone: () => false,
      forward,
      refuseLoop: async () => undefined,
      report: () => [],
    },
    origin: { rateLimitHeaders: 'keep', costHeader: 'x-weir-cost' },
    isDevelopment: false,
    showsDegraded,
    now: () => 0,
    incidentCounts,
    telemetry: SILENT,
    log: {
      ...SILENT_LOG,
      degraded: ({ reason, fallback, region }) => void incidents.push({ reason, fallback, region }),
      shadow: (rule, region) => void shadows.push(`${rule} in ${region}`),
    },
  } satisfies GatewayServices;
  const answer = await handleGateway({
    services,
    request: readClientRequest(
      new Request('https://weir.test/', {
        // Names the request, so that two answers to it are the same.
        headers: { 'CF-Ray': '8f2a5c3d1e4b6a70-FRA', ...(isUnknown && { 'X-API-Key': 'k' }) },
        ...(isGone && { signal: AbortSignal.abort() }),
      }),
    ),
    path: '/',
    matchPath: '/',
    query: '',
    isFirst: true,
    regions,
    afterResponse: (work) => void later.push(work),
    passThrough: () => {},
  }).catch(() => new Response(null, { status: 500 }));
  // Reads the body, like a client: seats are held until then.
  const body = await answer.text();
  // Handed-over work may hand over more.
  for (let done = 0; done < later.length; done += 1) await later[done];
  const told = [answer.headers.get('X-Weir-Degraded'), answer.headers.get('X-Weir-Fallback')];
  return { answer, body, told, incidents, shadows, tallied: incidentCounts.list() };
}

const answerAtOnce = async (): Promise<ProxyResult> => ({
  kind: 'answered',
  response: new Response('from the origin'),
});
