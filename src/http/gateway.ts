// The way of a request: identity, lists and matching, decision, then a refusal or the origin's answer.
import { planRequest } from '../core/plan.ts';
import { setDecisionHeaders } from './headers.ts';
import { identify } from './identity.ts';
import { proxy } from './proxy.ts';
import { refusal } from './refusals.ts';
import type { RegionService, Services } from './services.ts';

export interface GatewayRequest {
  readonly request: Request;
  readonly region: RegionService;
  readonly path: string;
  readonly matchPath: string;
  readonly query: string;
  readonly afterResponse: (work: Promise<unknown>) => void;
}

export async function handleGateway(services: Services, gatewayRequest: GatewayRequest): Promise<Response> {
  const { request, region, path, query } = gatewayRequest;
  const decision = await decide(services, gatewayRequest);
  if (decision.kind === 'degraded') services.log.degraded(decision.reason, region.name);
  else if (decision.isStale) services.log.degraded('stale-rules', region.name);
  const response = decision.allowed
    ? await proxy(request, { originUrl: services.originUrl, path, query })
    : refusal(decision);
  setDecisionHeaders(response.headers, decision, services);
  return response;
}

function decide(services: Services, { request, region, matchPath, afterResponse }: GatewayRequest) {
  return services.limiter.decide({
    region,
    afterResponse,
    async plan(snapshot) {
      const caller = await identify(request, services.callers, afterResponse);
      const nowMs = services.now();
      return planRequest(snapshot, { matchPath, method: request.method, caller, nowMs });
    },
  });
}
