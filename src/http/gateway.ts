// The way of a request: identity, matching, decision, then a denial or the origin's answer.
import type { Check } from '../core/check.ts';
import { type CountedDecision, type Decision, decisiveResult, denyingResults } from '../core/decision.ts';
import { subjectKey } from '../core/keys.ts';
import type { CompiledRule } from '../core/snapshot.ts';
import { setDecisionHeaders, toSeconds } from './headers.ts';
import { problem } from './problem.ts';
import { proxy } from './proxy.ts';
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
  const response = decision.allowed
    ? await proxy(request, { originUrl: services.originUrl, path, query })
    : denial(decision);
  setDecisionHeaders(response.headers, decision);
  return response;
}

async function decide(
  services: Services,
  { request, region, matchPath, afterResponse }: GatewayRequest,
): Promise<Decision<RuleCheck>> {
  const snapshot = await services.snapshots.current(afterResponse);
  if (!snapshot) return { kind: 'degraded', allowed: true, reason: 'no-rules' };
  const checks = await Promise.all(snapshot.match(matchPath).map((rule) => toCheck(rule, request)));
  return services.limiter.decide(region.store, checks);
}

/** A check that knows the rule it comes from. */
interface RuleCheck extends Check {
  readonly rule: CompiledRule;
}

async function toCheck(rule: CompiledRule, request: Request): Promise<RuleCheck> {
  return {
    rule,
    key: await subjectKey(rule.scope, subjectOf(rule, request), rule.counterGroup),
    id: rule.counterId,
    algorithm: rule.algorithm,
    limit: rule.limit,
    windowMs: rule.windowSeconds * 1000,
    cost: 1,
  };
}

function subjectOf(rule: CompiledRule, request: Request): string {
  // Cloudflare sets this header itself; without it all callers share one bucket rather than escape.
  return rule.scope === 'global' ? 'all' : (request.headers.get('CF-Connecting-IP') ?? 'unknown');
}

function denial(decision: CountedDecision<RuleCheck>): Response {
  const decisive = decisiveResult(decision.results);
  const waitMs = decisive?.outcome.retryAfterMs;
  return problem({
    type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
    status: 429,
    code: 'rate-limited',
    title: 'Too many requests',
    detail:
      waitMs === undefined
        ? 'This request costs more than the limit can ever hold.'
        : `Try again in ${toSeconds(waitMs)} s.`,
    rule: decisive?.check.rule.name,
    'violated-policies': denyingResults(decision.results).map(({ check }) => check.rule.name),
  });
}
