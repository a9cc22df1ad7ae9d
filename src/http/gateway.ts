// What happens to a request, from top to bottom: who calls, which rules apply, the decision, then a refusal or the
// origin's answer, and the headers that clients read.

import type { Decision } from '../core/decision.ts';
import { randomId } from '../core/digest.ts';
import type { Caller } from '../core/matching/caller.ts';
import type { OriginRoute } from '../core/matching/origin-route.ts';
import { planAnybody, planRequest } from '../core/matching/plan.ts';
import type { AfterResponse } from '../core/ports/after-response.ts';
import { type Held, holdSeats } from '../limiter/held-seats.ts';
import { createLedger, type Ledger } from '../limiter/ledger.ts';
import type { Regions } from '../limiter/region.ts';
import type { RequestPlan, Round } from '../limiter/round.ts';
import type { ClientRequest } from './client-request.ts';
import { holdWhileOpen } from './connections.ts';
import { incidentOf, report } from './decision-report.ts';
import { setDecisionHeaders, setIncidentHeaders } from './headers.ts';
import {
  addressOf,
  hasCredential,
  type Identity,
  identify,
  identifyFromMemory,
  planByIdentity,
} from './identity.ts';
import type { RoutedPath } from './origin-choice.ts';
import { takeOriginHeaders } from './origin-headers.ts';
import { nameOfRoute } from './origins.ts';
import { clientGone, type ProxyResult } from './proxy.ts';
import { refusal } from './refusals.ts';
import { factsOf } from './request-facts.ts';
import type { Services } from './services.ts';
import { waitForTurn, waitOf } from './throttle.ts';

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
  readonly origins: Pick<Services['origins'], 'routeOf' | 'forward'>;
}

export interface GatewayRequest extends Omit<RoutedPath, 'route'> {
  readonly request: ClientRequest;
  /** The path as rules and routes match it. */
  readonly matchPath: string;
  /** No other Weir has forwarded the request before. */
  readonly isFirst: boolean;
  readonly regions: Regions;
  readonly afterResponse: AfterResponse;
  /** The rest of the app, if Weir is its middleware. Undefined: Weir forwards the request to an origin. */
  readonly next?: ((caller: Caller | undefined) => Promise<ProxyResult>) | undefined;
}

/** An admitted request: the decision, the caller, the charges, and where it goes. */
interface Admitted {
  readonly decision: Decision;
  readonly caller: Caller | undefined;
  readonly ledger: Ledger;
  /** Undefined: no route takes the request, so it goes to the default origin. */
  readonly route: OriginRoute | undefined;
}

/** Less than the 30 s for which the runtime keeps `waitUntil` work alive after a client has left. */
const AWAIT_COST_MS = 25_000;

/**
 * Cloudflare's own answers when it cannot connect to an origin: refused, unreachable, no TLS, no name. Only these prove
 * that a request did not reach the origin. A connection that breaks later may have carried the request.
 */
const NOT_CONNECTED: ReadonlySet<number> = new Set([521, 523, 525, 526, 530]);

export async function handleGateway(services: GatewayServices, asked: GatewayRequest): Promise<Response> {
  const { limiter, log, telemetry } = services;
  const { request, regions, afterResponse } = asked;
  const startedAtMs = telemetry.clockMs();
  const ledger = createLedger((error) => log.error('charge-not-settled', error));
  const toDecide = { regions, operation: 'take', ledger, afterResponse } as const;
  let identity: Identity | undefined;
  let decision: Decision;
  // Awaits only promises, because awaiting a plain value would delay the rest of the request.
  try {
    const first = limiter.begin(toDecide);
    let step = first instanceof Promise ? await first : first;
    // One more round if Redis says that the rules of this isolate are outdated.
    while (step.kind === 'round') {
      const called = whoCalls(services, asked, step);
      identity = called instanceof Promise ? await called : called;
      const planned = plan(services, asked, step, identity);
      const deciding = limiter.decide(step, planned instanceof Promise ? await planned : planned);
      step = deciding instanceof Promise ? await deciding : deciding;
    }
    ({ decision } = step);
  } catch (error) {
    // The limiter itself never fails. A look-up of the caller, or a digest, might.
    decision = limiter.recover(toDecide, error);
  }
  const caller = identity?.caller;
  const route = services.origins.routeOf(request.url, asked.matchPath);
  const incident = incidentOf(decision, identity);
  const region = regions[0].name;
  report(services, region, decision, incident);
  telemetry.decided({ decision, incident, region, route: nameOfRoute(route), caller, startedAtMs });
  const admitted = { decision, caller, ledger, route };
  let response: Response;
  if (!decision.allowed) response = refusal(decision, request.method);
  else if (ledger.needsFollowUp) response = await passAndFollowUp(services, asked, admitted);
  else if (request.raw.signal.aborted) response = clientGone();
  else {
    const sentAtMs = telemetry.clockMs();
    const result = await forward(services, asked, admitted);
    ({ response } = readAnswer(services, admitted, sentAtMs, result));
  }
  if (incident && services.showsDegraded) setIncidentHeaders(response.headers, incident);
  setDecisionHeaders(response.headers, decision, services);
  telemetry.handOver(regions, afterResponse);
  return response;
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
  const checks = await planAnybody(round.snapshot, plannedFor(services, asked, from));
  return services.limiter.isKnownDenied(round, checks);
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

const forward = (
  { origins }: GatewayServices,
  { request, next, path, query, isFirst }: GatewayRequest,
  { caller, route }: Pick<Admitted, 'caller' | 'route'>,
  outlivesClientMs?: number,
): Promise<ProxyResult> =>
  next?.(caller) ?? origins.forward(request, { path, query, route, isFirst, caller, outlivesClientMs });

/** Forwards a request whose charges may change later, or that holds a seat. */
function passAndFollowUp(
  services: GatewayServices,
  asked: GatewayRequest,
  admitted: Admitted,
): Promise<Response> {
  const { ledger } = admitted;
  const held = holdSeats(ledger);
  // A region that did not answer may still hold a seat.
  if (!held) asked.afterResponse(ledger.release());
  const passing = passWith(held, services, asked, admitted);
  asked.afterResponse(passing.catch(() => held?.end()));
  return passing;
}

async function passWith(
  held: Held | undefined,
  services: GatewayServices,
  asked: GatewayRequest,
  admitted: Admitted,
): Promise<Response> {
  const { request, afterResponse } = asked;
  const { decision, ledger } = admitted;
  if (!(await waitForTurn(waitOf(decision), request.raw.signal))) {
    afterResponse(Promise.all([ledger.refund(), held?.end()]));
    return clientGone();
  }
  const sentAtMs = services.telemetry.clockMs();
  const result = await forward(services, asked, admitted, ledger.awaitsCost ? AWAIT_COST_MS : 0);
  const { response, cost, isRefunded } = readAnswer(services, admitted, sentAtMs, result);
  if (result.kind === 'failed') {
    if (held) afterResponse(held.end());
    return response;
  }
  if (isRefunded) afterResponse(ledger.refundError());
  else if (cost !== undefined) afterResponse(ledger.settle(cost));
  const isRaw = result.isRaw === true;
  return held ? holdWhileOpen({ request, response, isRaw }, held, afterResponse) : response;
}

/** Removes headers that are only for Weir from the answer, and reads the real cost from them. */
function readAnswer(
  { origin, telemetry }: GatewayServices,
  { decision, caller, route }: Omit<Admitted, 'ledger'>,
  startedAtMs: number,
  { kind, response }: ProxyResult,
) {
  const cost = kind === 'failed' ? undefined : takeOriginHeaders(response.headers, origin);
  const { status } = response;
  const isRefunded = kind !== 'failed' && NOT_CONNECTED.has(status);
  telemetry.answered({
    decision,
    route: nameOfRoute(route),
    caller,
    startedAtMs,
    status,
    cost,
    isRefunded,
  });
  return { response, cost, isRefunded };
}
