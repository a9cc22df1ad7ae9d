// GET /_weir/quota shows a caller its own limits and what is left of them. It charges nothing. The isolate keeps each
// answer for a moment and limits its calls to Redis, however often clients ask.
import { createBoundedCache } from '../core/bounded-cache.ts';
import type { CheckResult, Decision, DegradedReason } from '../core/decision.ts';
import type { Caller } from '../core/matching/caller.ts';
import { type Plan, planRequest, type RuleCheck } from '../core/matching/plan.ts';
import type { Snapshot } from '../core/matching/snapshot.ts';
import type { AfterResponse } from '../core/ports/telemetry.ts';
import { createFairBudget } from '../core/time.ts';
import { incidentOf } from '../gateway/decision-report.ts';
import { setIncidentHeaders } from '../gateway/headers.ts';
import { REDUCED_RETRY_SECONDS, refusal, unknownRegion } from '../gateway/refusals.ts';
import type { Services } from '../gateway/services.ts';
import { readClientRequest } from '../http/client-request.ts';
import type { Log } from '../http/log.ts';
import { problem } from '../http/problem.ts';
import { type Identity, type IdentityOptions, identify, planByIdentity } from '../identity/identity.ts';
import { createDeadline } from '../limiter/deadline.ts';
import { createLedger } from '../limiter/ledger.ts';
import type { RequestPlan } from '../limiter/limiter.ts';
import type { Regions } from '../limiter/region-calls.ts';

const KEEP_MS = 1_000;
const MAX_KEPT = 100;
/** Per second and isolate. Addresses share them fairly: see allowance.ts. */
const MAX_PEEKS = 50;
/** Nobody holds a seat with this id: no random id looks like it. */
const noSeat = () => '-'.repeat(16);

export interface QuotaServices
  extends Pick<Services, 'regions' | 'regionsOf' | 'limiter' | 'now' | 'deadlineMs' | 'showsDegraded'>,
    Omit<IdentityOptions, 'afterResponse' | 'deadline'> {
  readonly unverified: 'count' | 'reject';
  readonly log: Pick<Log, 'degraded'>;
}

interface QuotaRequest {
  readonly regions: Regions;
  readonly whoCalls: () => Promise<Identity>;
  readonly afterResponse: AfterResponse;
}

export function createQuota(services: QuotaServices) {
  const { now } = services;
  const kept = createBoundedCache<string>(MAX_KEPT);
  const peeks = createFairBudget(MAX_PEEKS);

  const planFor = (identity: Identity, snapshot: Snapshot): RequestPlan | Promise<RequestPlan> =>
    planByIdentity(identity, snapshot, { unverified: services.unverified, nowMs: now() }) ??
    planAll(snapshot, identity.caller, now());

  const peek = async ({ regions, whoCalls, afterResponse }: QuotaRequest): Promise<Response> => {
    const ledger = createLedger(() => {});
    const request = { regions, operation: 'peek', ledger, afterResponse } as const;
    let identity = await whoCalls();
    let tier: string | undefined;
    const decision = await services.limiter.decide(request, async ({ snapshot }) => {
      // Newer rules may come with newer callers.
      identity = await whoCalls();
      tier = snapshot.tierOf(identity.caller);
      return planFor(identity, snapshot);
    });
    if (decision.kind === 'degraded') {
      services.log.degraded({ reason: decision.reason, region: regions[0].name });
      return unavailable(decision.reason, services);
    }
    if (decision.kind !== 'counted' && !decision.allowed) return refusal(decision);
    const body = JSON.stringify({
      caller: describeCaller(identity.caller, tier),
      limits: limitsIn(decision),
    });
    const incident = incidentOf(decision, identity);
    if (!incident) kept.set(keyOf(identity, regions), body, now() + KEEP_MS);
    return answer(body, services.showsDegraded ? incident : undefined);
  };

  return async (request: Request, afterResponse: AfterResponse): Promise<Response> => {
    if (request.method !== 'GET' && request.method !== 'HEAD') return methodNotAllowed();
    const regions = services.regionsOf(request);
    if (!regions) return unknownRegion(services.regions);
    const deadline = createDeadline(services.deadlineMs, now);
    const whoCalls = () => identify(readClientRequest(request), { ...services, afterResponse, deadline });
    const identity = await whoCalls();
    const known = kept.get(keyOf(identity, regions), now());
    if (known !== undefined) return answer(known);
    return peeks.take(identity.caller.ip, now()) ? peek({ regions, whoCalls, afterResponse }) : busy();
  };
}

/** The key of a cached answer: the whole identity of the caller, and the region, because counters differ by region. */
const keyOf = (identity: Identity, [{ name }]: Regions) => JSON.stringify([name, identity]);

/** Plans a request to which all limits of the caller apply. */
function planAll(snapshot: Snapshot, caller: Caller, nowMs: number): Plan | Promise<Plan> {
  const everywhere: Snapshot = { ...snapshot, match: () => snapshot.limitsOf(caller, nowMs) };
  return planRequest(everywhere, { caller, nowMs, seatId: noSeat, matchPath: '/', method: 'GET' });
}

const describeCaller = ({ userId, apiKeyId, tenantId }: Caller, tier: string | undefined) => ({
  userId: userId ?? null,
  apiKeyId: apiKeyId ?? null,
  tenantId: tenantId ?? null,
  tier: tier ?? null,
});

const limitsIn = (decision: Decision) => (decision.kind === 'counted' ? decision.results.map(toLimit) : []);

const toLimit = ({ check: { rule, full, windowMs }, outcome }: CheckResult<RuleCheck>) => ({
  policy: rule.policy,
  resource: rule.resources.join(', '),
  methods: rule.methods,
  scope: rule.scope,
  limit: full.limit,
  remaining: outcome.remaining,
  resetAt: new Date(outcome.resetAtMs).toISOString(),
  windowSeconds: windowMs / 1_000,
  ...(rule.window && { window: rule.window }),
  allowed: outcome.allowed,
  retryAfterMs: outcome.retryAfterMs ?? null,
});

function answer(body: string, incident?: ReturnType<typeof incidentOf>): Response {
  const headers = new Headers({ 'Content-Type': 'application/json', 'Cache-Control': 'no-store' });
  if (incident) setIncidentHeaders(headers, incident);
  return new Response(body, { headers });
}

const methodNotAllowed = () =>
  problem(
    { status: 405, code: 'method-not-allowed', title: 'Quotas can only be read' },
    { Allow: 'GET, HEAD' },
  );

const busy = () =>
  problem(
    {
      status: 429,
      code: 'quota-busy',
      title: 'Too many quota requests',
      detail: 'Every counted response of the API also carries your limits in its headers.',
    },
    { 'Retry-After': '1' },
  );

const unavailable = (reason: DegradedReason, { showsDegraded }: Pick<Services, 'showsDegraded'>) =>
  problem(
    {
      status: 503,
      code: reason === 'no-rules' ? 'rules-unavailable' : 'counters-unavailable',
      title: 'The remaining quota is not known now',
    },
    {
      'Retry-After': String(REDUCED_RETRY_SECONDS),
      ...(showsDegraded && { 'X-Weir-Degraded': reason }),
    },
  );
