// The way of a request, top to bottom: who calls, which rules apply, the decision, then a refusal or the origin's
// answer, and what clients read about it.

import type { Decision } from '../core/counting/decision.ts';
import { randomId } from '../core/digest.ts';
import type { AfterResponse, Caller } from '../core/matching/caller.ts';
import { planAnybody, planRequest } from '../core/matching/plan.ts';
import type { AnsweredRequest } from '../core/ports/telemetry.ts';
import { type Held, holdSeats } from '../limiter/held-seats.ts';
import { createLedger, type Ledger } from '../limiter/ledger.ts';
import type { Regions } from '../limiter/region-ladder.ts';
import type { RequestPlan, Round, Step } from '../limiter/round.ts';
import type { ClientRequest } from './client-request.ts';
import { holdWhileOpen } from './connections.ts';
import { incidentOf, report } from './decision-report.ts';
import { setDecisionHeaders, setIncidentHeaders } from './headers.ts';
import { addressOf, hasCredential, type Identity, identify } from './identity.ts';
import { takeOriginHeaders } from './origin-headers.ts';
import { clientGone, type ProxyResult } from './proxy.ts';
import { refusal } from './refusals.ts';
import { factsOf } from './request-facts.ts';
import type { Services } from './services.ts';
import { waitForTurn, waitOf } from './throttle.ts';

/** The parts that the gateway asks. */
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
  readonly origins: Pick<Services['origins'], 'routeOf'>;
}

export interface GatewayRequest {
  readonly request: ClientRequest;
  readonly regions: Regions;
  readonly matchPath: string;
  readonly afterResponse: AfterResponse;
  /** Sends the request to the origin, or to whatever else lies behind Weir. */
  readonly forward: (caller: Caller | undefined, options: ForwardOptions) => Promise<ProxyResult>;
}

export interface ForwardOptions {
  /** How long the origin may still answer after the client has left. */
  readonly outlivesClientMs?: number | undefined;
}

/** The decision, the caller, and the charges of the request. */
interface Decided {
  readonly decision: Decision;
  readonly identity: Identity | undefined;
  readonly ledger: Ledger;
  /** The name of its route, for metrics and logs. */
  readonly route: string;
}

/** Less than the 30 s for which the runtime keeps `waitUntil` work alive after a client has left. */
const AWAIT_COST_MS = 25_000;

/**
 * Cloudflare's own answers when it cannot connect to an origin: refused, unreachable, no TLS, no name. Only these prove
 * that a request did not reach the origin. A connection that broke may have been open for long.
 */
const NOT_CONNECTED: ReadonlySet<number> = new Set([521, 523, 525, 526, 530]);

export async function handleGateway(services: GatewayServices, asked: GatewayRequest): Promise<Response> {
  const { limiter, log, telemetry } = services;
  const { request, regions, afterResponse } = asked;
  const startedAtMs = telemetry.clockMs();
  const ledger = createLedger((error) => log.error('charge-not-settled', error));
  const toDecide = { regions, operation: 'take', ledger, afterResponse } as const;
  const deciding: Deciding = { asked, identity: undefined };
  let decision: Decision;
  try {
    const first = limiter.begin(toDecide);
    let step = first instanceof Promise ? await first : first;
    // One more round if Redis says that the rules of this isolate are outdated.
    while (step.kind === 'round') {
      const next = takeRound(services, deciding, step);
      step = next instanceof Promise ? await next : next;
    }
    ({ decision } = step);
  } catch (error) {
    decision = limiter.recover(toDecide, error);
  }
  const { identity } = deciding;
  const route = services.origins.routeOf(asked);
  const incident = incidentOf(decision, identity);
  const region = regions[0].name;
  report(services, region, decision, incident);
  telemetry.decided({ decision, incident, region, route, caller: identity?.caller, startedAtMs });
  let response: Response;
  if (!decision.allowed) response = refusal(decision, request.method);
  else if (ledger.needsFollowUp)
    response = await passAndFollowUp(services, asked, { decision, identity, ledger, route });
  else if (request.raw.signal.aborted) response = clientGone();
  else {
    const sent = sentNow(services, { decision, identity, route });
    response = readAnswer(services, sent, await asked.forward(identity?.caller, {})).response;
  }
  if (incident && services.showsDegraded) setIncidentHeaders(response.headers, incident);
  setDecisionHeaders(response.headers, decision, services);
  telemetry.handOver(regions, afterResponse);
  return response;
}

/** A request on its way to a decision. */
interface Deciding {
  readonly asked: GatewayRequest;
  identity: Identity | undefined;
}

/** One round. A promise only if it has to wait. */
function takeRound(services: GatewayServices, deciding: Deciding, round: Round): Step | Promise<Step> {
  const { asked } = deciding;
  if (hasCredential(asked.request, services.identity))
    return orRecover(
      services,
      round,
      whoCalls(services, asked, round).then((identity) => planAndDecide(services, deciding, round, identity)),
    );
  return planAndDecide(services, deciding, round, { caller: addressOf(asked.request, services.identity) });
}

function planAndDecide(services: GatewayServices, deciding: Deciding, round: Round, identity: Identity) {
  deciding.identity = identity;
  const planned = plan(services, deciding.asked, round, identity);
  if (!(planned instanceof Promise)) return services.limiter.decide(round, planned);
  return orRecover(
    services,
    round,
    planned.then((ready) => services.limiter.decide(round, ready)),
  );
}

/** The limiter itself never fails. A look-up of the caller, or a digest, might. */
const orRecover = ({ limiter }: GatewayServices, { request }: Round, deciding: Promise<Step>) =>
  deciding.catch((error): Step => ({ kind: 'decided', decision: limiter.recover(request, error) }));

/** Looks up a caller that memory does not know, unless the address is denied anyway. */
async function whoCalls(services: GatewayServices, asked: GatewayRequest, round: Round): Promise<Identity> {
  const { afterResponse, request } = asked;
  const how = { ...services.identity, afterResponse, deadline: round.deadline };
  const known = await identify(request, { ...how, memoryOnly: true });
  if (known.unknown === undefined) return known;
  const from = { caller: addressOf(request, services.identity) };
  return (await isRefusedAnyway(services, asked, round, from)) ? from : identify(request, how);
}

async function isRefusedAnyway(
  services: GatewayServices,
  asked: GatewayRequest,
  round: Round,
  from: Identity,
) {
  if (isDenyListed(services, round, from)) return true;
  const checks = await planAnybody(round.snapshot, plannedFor(services, asked, from));
  return services.limiter.isKnownDenied(round, checks);
}

const isDenyListed = ({ now }: GatewayServices, { snapshot }: Round, { caller }: Identity) =>
  snapshot.listed(caller, now()) === 'deny';

function plan(
  services: GatewayServices,
  asked: GatewayRequest,
  round: Round,
  identity: Identity,
): RequestPlan | Promise<RequestPlan> {
  const { unverified } = identity;
  const isRejected = unverified !== undefined && services.identity.unverified === 'reject';
  if (isRejected && !isDenyListed(services, round, identity))
    return { kind: 'unverified', credential: unverified };
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

/** Lets a request pass whose charges may change later, or that holds a seat. */
function passAndFollowUp(
  services: GatewayServices,
  asked: GatewayRequest,
  decided: Decided,
): Promise<Response> {
  const { ledger } = decided;
  const held = holdSeats(ledger);
  // A region that did not answer may hold a seat all the same.
  if (!held) asked.afterResponse(ledger.release());
  const passing = passWith(held, services, asked, decided);
  asked.afterResponse(passing.catch(() => held?.end()));
  return passing;
}

async function passWith(
  held: Held | undefined,
  services: GatewayServices,
  asked: GatewayRequest,
  decided: Decided,
): Promise<Response> {
  const { request, afterResponse, forward } = asked;
  const { decision, identity, ledger } = decided;
  if (!(await waitForTurn(waitOf(decision), request.raw.signal))) {
    afterResponse(Promise.all([ledger.refund(), held?.end()]));
    return clientGone();
  }
  const outlivesClientMs = ledger.awaitsCost ? AWAIT_COST_MS : 0;
  const sent = sentNow(services, decided);
  const result = await forward(identity?.caller, { outlivesClientMs });
  const { response, cost } = readAnswer(services, sent, result);
  if (result.kind === 'failed') {
    if (held) afterResponse(held.end());
    return response;
  }
  if (NOT_CONNECTED.has(response.status)) afterResponse(ledger.refundError());
  else if (cost !== undefined) afterResponse(ledger.settle(cost));
  const isRaw = result.isRaw === true;
  return held ? holdWhileOpen({ request, response, isRaw }, held, afterResponse) : response;
}

type Sent = Pick<AnsweredRequest, 'decision' | 'route' | 'caller' | 'startedAtMs'>;

const sentNow = (
  { telemetry }: GatewayServices,
  { decision, identity, route }: Omit<Decided, 'ledger'>,
): Sent => ({
  decision,
  route,
  caller: identity?.caller,
  startedAtMs: telemetry.clockMs(),
});

/** Takes headers that are for Weir alone out of the answer, and reads the real cost from them. */
function readAnswer({ origin, telemetry }: GatewayServices, sent: Sent, { kind, response }: ProxyResult) {
  const { decision, route, caller, startedAtMs } = sent;
  const cost = kind === 'failed' ? undefined : takeOriginHeaders(response.headers, origin);
  const { status } = response;
  const isRefunded = kind !== 'failed' && NOT_CONNECTED.has(status);
  telemetry.answered({ decision, route, caller, startedAtMs, status, cost, isRefunded });
  return { response, cost };
}
