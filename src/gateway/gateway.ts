// What happens to a request, from top to bottom: who calls, which rules apply, the decision, then a refusal or the
// origin's answer, and the headers that clients read.

import type { Decision } from '../core/decision.ts';
import { randomId } from '../core/digest.ts';
import type { Caller } from '../core/matching/caller.ts';
import { planByIpOnly, planRequest } from '../core/matching/plan.ts';
import type { AfterResponse } from '../core/ports/telemetry.ts';
import type { ClientRequest } from '../http/client-request.ts';
import { attempt, reportBug } from '../http/guard.ts';
import {
  addressOf,
  hasCredential,
  type Identity,
  identify,
  identifyFromMemory,
  planByIdentity,
} from '../identity/identity.ts';
import { createLedger } from '../limiter/ledger.ts';
import type { RequestPlan, Round } from '../limiter/limiter.ts';
import type { Regions } from '../limiter/region-calls.ts';
import type { RoutedPath } from '../proxy/origins.ts';
import { nameOfRoute } from '../proxy/origins.ts';
import { clientGone, type ProxyResult } from '../proxy/proxy.ts';
import { incidentOf, report } from './decision-report.ts';
import { setDecisionHeaders, setIncidentHeaders } from './headers.ts';
import { clock, forward, type Handled, type PassedRequest, passAndFollowUp, readAnswer } from './pass-on.ts';
import { notPassedOn, plainRefusal, refusal } from './refusals.ts';
import { factsOf } from './request-facts.ts';
import type { Services } from './services.ts';

/** The services that the gateway uses. */
export interface GatewayServices
  extends Pick<
    Services,
    | 'identity'
    | 'incidentCounts'
    | 'isDevelopment'
    | 'isLogOnly'
    | 'limiter'
    | 'log'
    | 'now'
    | 'origin'
    | 'showsDegraded'
    | 'telemetry'
  > {
  readonly origins: Pick<Services['origins'], 'routeOf' | 'isZone' | 'forward'>;
}

export interface GatewayRequest extends Omit<RoutedPath, 'route'> {
  readonly request: ClientRequest;
  /** The path as rules and routes match it. */
  readonly matchPath: string;
  /** No other Weir has forwarded the request before. */
  readonly isFirst: boolean;
  readonly regions: Regions;
  readonly afterResponse: AfterResponse;
  /** The platform sends the request to the zone's origin if Weir now throws. */
  readonly passThrough: () => void;
  /** The rest of the app, if Weir is its middleware. Undefined: Weir forwards the request to an origin. */
  readonly next?: ((caller: Caller | undefined) => Promise<ProxyResult>) | undefined;
}

/** Only the decision and the origin are needed for an answer. Whatever else fails is reported and left out. */
export async function handleGateway(services: GatewayServices, asked: GatewayRequest): Promise<Response> {
  const { limiter, log } = services;
  const { request, regions, afterResponse } = asked;
  const startedAtMs = attempt(log, clock, services) ?? 0;
  const ledger = attempt(log, createLedger, (error: unknown) => log.error('charge-not-settled', error));
  if (!ledger) return passUncounted(services, asked);
  let identity: Identity | undefined;
  const planAs = (called: Identity, round: Round) => {
    identity = called;
    return plan(services, asked, round, called);
  };
  const makePlan = (round: Round) => {
    const called = whoCalls(services, asked, round);
    return called instanceof Promise ? called.then((one) => planAs(one, round)) : planAs(called, round);
  };
  let decision = UNDECIDED;
  try {
    const deciding = limiter.decide({ regions, operation: 'take', ledger, afterResponse }, makePlan);
    // Awaits only a promise, because awaiting a plain value would delay the rest of the request.
    decision = deciding instanceof Promise ? await deciding : deciding;
  } catch (error) {
    // The limiter recovers from every error, unless it fails while it does so.
    reportBug(log, error);
  }
  const route = attempt(log, services.origins.routeOf, request.url, asked.matchPath);
  const incident = attempt(log, incidentOf, decision, identity);
  const handled = { decision, incident, caller: identity?.caller, ledger, route, startedAtMs };
  attempt(log, report, services, regions[0].name, decision, incident);
  attempt(log, countDecision, services, asked, handled);
  let response: Response;
  try {
    if (!decision.allowed) response = refusal(decision, request.method);
    else if (ledger.needsFollowUp) response = await passAndFollowUp(services, asked, handled);
    else if (request.raw.signal.aborted) response = clientGone();
    else {
      const sentAtMs = attempt(log, clock, services) ?? 0;
      const result = await forward(services, asked, handled);
      attempt(log, readAnswer, services, handled, sentAtMs, result);
      ({ response } = result);
    }
  } catch (error) {
    response = answerDespite(error, services, asked, handled);
  }
  attempt(log, setHeaders, services, handled, response);
  attempt(log, services.telemetry.flush, regions, afterResponse);
  return response;
}

/** For a request that Weir could not even begin to decide. */
export async function passUncounted(
  services: Pick<GatewayServices, 'log' | 'origins'>,
  asked: PassedRequest,
): Promise<Response> {
  const route = attempt(services.log, services.origins.routeOf, asked.request.url, asked.matchPath);
  return (await forward(services, asked, { caller: undefined, route })).response;
}

/** The decision if nothing can decide. */
const UNDECIDED: Decision = { kind: 'degraded', allowed: true, fallback: 'open', reason: 'internal-error' };

function countDecision({ telemetry }: GatewayServices, { regions }: GatewayRequest, handled: Handled): void {
  const { decision, incident, caller, startedAtMs } = handled;
  const region = regions[0].name;
  telemetry.decided({ decision, incident, region, route: nameOfRoute(handled.route), caller, startedAtMs });
}

function setHeaders(services: GatewayServices, { decision, incident }: Handled, { headers }: Response): void {
  if (incident && services.showsDegraded) setIncidentHeaders(headers, incident);
  setDecisionHeaders(headers, decision, services);
}

/**
 * The refusal could not be made, or the request not be passed on. A denied request stays denied. An error of the rest
 * of the app is for that app. If the origin is the zone's own, the platform can pass on what Weir could not, as long as
 * the origin cannot get it twice.
 */
function answerDespite(
  error: unknown,
  { log, origins }: GatewayServices,
  { request: { raw, method }, next, passThrough }: GatewayRequest,
  { decision, route }: Handled,
): Response {
  if (next && decision.allowed) throw error;
  reportBug(log, error);
  if (!decision.allowed) return plainRefusal();
  const isUnsent = raw.body ? !raw.bodyUsed : method === 'GET' || method === 'HEAD';
  if (!isUnsent || !origins.isZone(route)) return notPassedOn();
  passThrough();
  throw error;
}

/** Returns a promise only if the client shows a credential. */
const whoCalls = (
  services: GatewayServices,
  asked: GatewayRequest,
  round: Round,
): Identity | Promise<Identity> =>
  hasCredential(asked.request, services.identity)
    ? lookUpCaller(services, asked, round)
    : { caller: addressOf(asked.request, services.identity) };

/** Looks up a caller that memory does not know, unless the address is denied anyway. */
async function lookUpCaller(
  services: GatewayServices,
  asked: GatewayRequest,
  round: Round,
): Promise<Identity> {
  const { afterResponse, request } = asked;
  const how = { ...services.identity, afterResponse, deadline: round.deadline };
  const known = await identifyFromMemory(request, how);
  if (known) return known;
  const from = { caller: addressOf(request, services.identity) };
  return (await isRefusedAnyway(services, asked, round, from)) ? from : identify(request, how);
}

async function isRefusedAnyway(
  services: GatewayServices,
  asked: GatewayRequest,
  round: Round,
  from: Identity,
) {
  if (round.snapshot.listed(from.caller, services.now()) === 'deny') return true;
  const checks = await planByIpOnly(round.snapshot, plannedFor(services, asked, from));
  return round.isKnownDenied(checks);
}

function plan(
  services: GatewayServices,
  asked: GatewayRequest,
  round: Round,
  identity: Identity,
): RequestPlan | Promise<RequestPlan> {
  const { unverified } = services.identity;
  const decided = planByIdentity(identity, round.snapshot, { unverified, nowMs: services.now() });
  if (decided) return decided;
  return planRequest(round.snapshot, plannedFor(services, asked, identity));
}

const plannedFor = (
  { now, isLogOnly }: GatewayServices,
  { matchPath, request }: GatewayRequest,
  { caller }: Identity,
) => ({
  matchPath,
  method: request.method,
  caller,
  nowMs: now(),
  facts: factsOf(request),
  isLogOnly,
  seatId: randomId,
});
