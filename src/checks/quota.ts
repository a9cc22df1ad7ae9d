// GET /_weir/quota shows a caller its own limits and what is left of them. It charges nothing. The isolate keeps each
// answer for a moment and limits its calls to Redis, however often clients ask.
import { createBoundedCache } from '../core/bounded-cache.ts';
import { type CheckResult, resultsOf } from '../core/decision.ts';
import type { Caller } from '../core/matching/caller.ts';
import { planLimitsOf, type RuleCheck } from '../core/matching/plan.ts';
import type { Snapshot } from '../core/matching/snapshot.ts';
import type { AfterResponse } from '../core/ports/telemetry.ts';
import { createFairBudget } from '../core/time.ts';
import { incidentOf, setIncidentHeaders } from '../gateway/headers.ts';
import { REDUCED_RETRY_SECONDS, refusal, unknownRegion } from '../gateway/refusals.ts';
import type { AppBehind, Services } from '../gateway/services.ts';
import { readClientRequest } from '../http/guard.ts';
import { problem } from '../http/problem.ts';
import { type Identity, identify, planByIdentity } from '../identity/identity.ts';
import { createDeadline } from '../limiter/deadline.ts';
import { createLedger } from '../limiter/ledger.ts';
import type { RequestPlan } from '../limiter/limiter.ts';
import type { Regions } from '../limiter/region.ts';

const KEEP_MS = 1_000;
const MAX_KEPT = 100;
/** Per second and isolate. Addresses share them fairly: see core/time.ts. */
const MAX_PEEKS = 50;

interface QuotaRequest {
  readonly identity: Identity;
  readonly whoCalls: () => Promise<Identity>;
  readonly regions: Regions;
  readonly afterResponse: AfterResponse;
}

export function createQuota(services: Services) {
  const { now, showsDegraded } = services;
  const { unverified } = services.identity;
  const kept = createBoundedCache<string>(MAX_KEPT);
  const peeks = createFairBudget(MAX_PEEKS);

  const plan = async (identity: Identity, snapshot: Snapshot, nowMs = now()): Promise<RequestPlan> => {
    const { caller } = identity;
    const list = snapshot.listed(caller, nowMs);
    return (
      planByIdentity(identity, snapshot, { unverified, nowMs }) ??
      (list
        ? { kind: 'listed', list }
        : { kind: 'checks', checks: await planLimitsOf(snapshot, caller, nowMs) })
    );
  };

  const peek = async ({ regions, whoCalls, afterResponse, ...asked }: QuotaRequest): Promise<Response> => {
    let { identity } = asked;
    let tier: string | undefined;
    const request = { regions, operation: 'peek', ledger: createLedger(() => {}), afterResponse } as const;
    const decision = await services.limiter.decide(request, async ({ snapshot }) => {
      // Newer rules may come with newer callers.
      identity = await whoCalls();
      tier = snapshot.tierOf(identity.caller);
      return plan(identity, snapshot);
    });
    if (decision.kind === 'degraded') {
      services.log.degraded({ reason: decision.reason, region: regions[0].name });
      const answer = problem(
        unknown(decision.reason === 'no-rules' ? 'rules-unavailable' : 'counters-unavailable'),
      );
      if (showsDegraded) answer.headers.set('X-Weir-Degraded', decision.reason);
      return answer;
    }
    if (decision.kind !== 'counted' && !decision.allowed)
      return refusal(decision, {}, services.identity.keyPlaces);
    const body = JSON.stringify({
      caller: describeCaller(identity.caller, tier),
      limits: resultsOf(decision).map(toLimit),
    });
    const incident = incidentOf(decision, identity);
    if (!incident) kept.set(keyOf(identity, regions), body, now() + KEEP_MS);
    const answer = toResponse(body);
    if (incident && showsDegraded) setIncidentHeaders(answer.headers, incident);
    return answer;
  };

  return async (
    request: Request,
    afterResponse: AfterResponse,
    named?: AppBehind['named'],
  ): Promise<Response> => {
    if (request.method !== 'GET' && request.method !== 'HEAD')
      return problem(NOT_READ, { Allow: 'GET, HEAD' });
    const regions = services.regionsOf(request);
    if (!regions) return unknownRegion(services.regions);
    const client = readClientRequest(request);
    const from = named ? await named(client) : client;
    const deadline = createDeadline(services.deadlineMs, now);
    const how = { ...services.identity, afterResponse, deadline };
    const whoCalls = () => identify(from, how);
    const identity = await whoCalls();
    const known = kept.get(keyOf(identity, regions), now());
    if (known !== undefined) return toResponse(known);
    if (!peeks.take(identity.caller.ip, now())) return problem(BUSY);
    return peek({ identity, whoCalls, regions, afterResponse });
  };
}

/** The key of a cached answer: the whole identity of the caller, and the region, because counters differ by region. */
const keyOf = (identity: Identity, [{ name }]: Regions) => JSON.stringify([name, identity]);

const describeCaller = ({ userId, apiKeyId, tenantId }: Caller, tier: string | undefined) => ({
  userId: userId ?? null,
  apiKeyId: apiKeyId ?? null,
  tenantId: tenantId ?? null,
  tier: tier ?? null,
});

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

const toResponse = (body: string) =>
  new Response(body, { headers: { 'Content-Type': 'application/json', 'Cache-Control': 'no-store' } });

const NOT_READ = { status: 405, code: 'method-not-allowed', title: 'Quotas can only be read' };

const BUSY = {
  status: 429,
  code: 'quota-busy',
  title: 'Too many quota requests',
  detail: 'Every counted response of the API also carries your limits in its headers.',
  'retry-after': 1,
};

const unknown = (code: string) => ({
  status: 503,
  code,
  title: 'The remaining quota is not known now',
  'retry-after': REDUCED_RETRY_SECONDS,
});
