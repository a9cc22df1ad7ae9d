// The way of a request: identity, lists and matching, decision, then a refusal or what lies behind.
import type { AfterResponse, Caller } from '../core/caller.ts';
import type { Decision } from '../core/decision.ts';
import { toBase64Url } from '../core/digest.ts';
import { planRequest } from '../core/plan.ts';
import { type Charges, createCharges, hasSequel } from '../limiter/charges.ts';
import { type Held, holdLeases, holdWhileOpen } from './connections.ts';
import { setDecisionHeaders } from './headers.ts';
import { type Identity, identify } from './identity.ts';
import { keepApart, takeCost } from './origin-headers.ts';
import { clientGone, type ProxyResult } from './proxy.ts';
import { refusal } from './refusals.ts';
import type { RegionService, Services } from './services.ts';
import { waitForTurn, waitOf } from './turn.ts';

export interface GatewayRequest {
  readonly request: Request;
  readonly region: RegionService;
  readonly matchPath: string;
  readonly afterResponse: AfterResponse;
  /** To the origin, or to whatever else lies behind. */
  readonly forward: (caller: Caller | undefined) => Promise<ProxyResult>;
}

export async function handleGateway(services: Services, asked: GatewayRequest): Promise<Response> {
  const { decision, identity } = await decide(services, asked);
  report(services, asked.region.name, decision);
  const response = decision.allowed
    ? await pass(services, asked, decision, identity?.caller)
    : refusal(decision, asked.request.method);
  // Whoever could not be looked up was counted by IP, in the default tier.
  if (identity?.unknown) response.headers.set('X-Weir-Degraded', 'caller-unknown');
  setDecisionHeaders(response.headers, decision, services);
  return response;
}

async function decide(services: Services, { request, region, matchPath, afterResponse }: GatewayRequest) {
  let identity: Identity | undefined;
  const decision = await services.limiter.decide({
    region,
    afterResponse,
    async plan(snapshot) {
      identity = await identify(request, { ...services.identity, afterResponse });
      if (identity.unverified && services.identity.unverified === 'reject')
        return { kind: 'unverified', credential: identity.unverified };
      const nowMs = services.now();
      const { caller } = identity;
      return planRequest(snapshot, { matchPath, method: request.method, caller, nowMs, leaseId: randomId });
    },
  });
  return { decision, identity };
}

/** 16 characters that no other request has. */
const randomId = () => toBase64Url(crypto.getRandomValues(new Uint8Array(12)));

function report({ log }: Services, region: string, decision: Decision): void {
  if (decision.kind === 'degraded') log.degraded(decision.reason, region);
  else if (decision.isStale) log.degraded('stale-rules', region);
  if (decision.kind !== 'counted') return;
  for (const { check, outcome } of decision.results)
    if (check.log && !outcome.allowed) log.shadow(check.rule.name, region);
}

async function pass(
  services: Services,
  asked: GatewayRequest,
  decision: Decision,
  caller: Caller | undefined,
): Promise<Response> {
  if (!hasSequel(decision)) return apart(services, await asked.forward(caller)).response;
  const charges = createCharges({
    store: asked.region.store,
    decision,
    onError: (error) => services.log.error('charge-not-settled', error),
  });
  const held = holdLeases(charges);
  try {
    return await passWith(charges, held, services, asked, decision, caller);
  } catch (error) {
    if (held) asked.afterResponse(held.end());
    throw error;
  }
}

async function passWith(
  charges: Charges,
  held: Held | undefined,
  services: Services,
  { request, afterResponse, forward }: GatewayRequest,
  decision: Decision,
  caller: Caller | undefined,
): Promise<Response> {
  if (decision.kind === 'counted' && !(await waitForTurn(waitOf(decision), request.signal))) {
    afterResponse(Promise.all([charges.refund(), held?.end()]));
    return clientGone();
  }
  const result = await forward(caller);
  if (result.kind === 'failed') {
    // Whoever leaves by himself has been served: or nobody would have to pay.
    const refunded = result.reason === 'client-gone' ? undefined : charges.refundError();
    afterResponse(Promise.all([refunded, held?.end()]));
    return result.response;
  }
  const { response, cost } = apart(services, result);
  if (cost !== undefined) afterResponse(charges.settle(cost));
  const isRaw = result.isRaw === true;
  return held ? holdWhileOpen({ request, response, isRaw }, held, afterResponse) : response;
}

/** Without what the origin says about limits, which is kept apart from what Weir says. */
function apart({ origin }: Services, { kind, response }: ProxyResult) {
  if (kind === 'failed') return { response, cost: undefined };
  keepApart(response.headers, origin.rateLimitHeaders);
  return { response, cost: takeCost(response.headers, origin.costHeader) };
}
