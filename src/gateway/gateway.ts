// The way of a request, from top to bottom: who calls, which rules apply, the decision, then a refusal or the origin's
// answer, and the headers that clients read.
//
// # What the room promises
//
// A request that the limiter admits reaches the origin, or the client learns why not. A denied request never does. Only
// the decision and the origin are needed for an answer: whatever else fails (finding the caller, reports, headers, the
// follow-up of charges) is reported and left out (http/guard.ts). Weir never sends a request twice.
//
// # In what order things happen
//
//  1. app.ts reads the request: Weir's own routes, one canonical path, loops, the regions.
//  2. This file asks who calls (identity), and the limiter decides by the rules of that caller.
//  3. It reports the decision: incidents to operators (headers.ts), denials and usage to telemetry.
//  4. A denied request is refused (refusals.ts). An admitted one takes its turn and its seats (seats.ts), if rules say
//     so, and goes to the origin (proxy).
//  5. The origin's answer settles charges, and gets the headers of the decision (headers.ts).
//
// # What must never be
//
// A bug admits a denied request, or counts one twice. A seat is kept after its answer has ended. The answer waits for
// work that only operators need.

import { type Decision, delayOf, type Incident } from '../core/decision.ts';
import { randomId } from '../core/digest.ts';
import type { Caller } from '../core/matching/caller.ts';
import type { RequestFacts } from '../core/matching/counted-by.ts';
import { hostOf, type OriginRoute } from '../core/matching/origin-routes.ts';
import { planByIpOnly, planRequest } from '../core/matching/plan.ts';
import type { AfterResponse } from '../core/ports/telemetry.ts';
import type { ShownCredentials } from '../http/credentials.ts';
import { attempt, attemptLater, type ClientRequest, reportBug } from '../http/guard.ts';
import {
  addressOf,
  credentialsShown,
  type Identity,
  identify,
  identifyFromMemory,
  planByIdentity,
} from '../identity/identity.ts';
import { createLedger, holdSeats, type Ledger } from '../limiter/ledger.ts';
import type { RequestPlan, Round } from '../limiter/limiter.ts';
import type { Regions } from '../limiter/region.ts';
import { takeOriginHeaders } from '../proxy/headers.ts';
import { nameOfRoute, type RoutedPath } from '../proxy/origins.ts';
import { clientGone, type ProxyResult } from '../proxy/proxy.ts';
import { incidentOf, report, setDecisionHeaders, setIncidentHeaders } from './headers.ts';
import { describeRefusal, notPassedOn, plainRefusal, type Refusal, refusal } from './refusals.ts';
import { holdWhileOpen, waitForTurn } from './seats.ts';
import type { AppBehind, GatewayServices } from './services.ts';

/** What it takes to pass a request on. */
export interface PassableRequest extends Omit<RoutedPath, 'route'> {
  readonly services: Pick<GatewayServices, 'log' | 'origins'>;
  readonly request: ClientRequest;
  /** The path as rules and routes match it. */
  readonly matchPath: string;
  /** No other Weir has forwarded the request before. */
  readonly isFirst: boolean;
  /** The rest of the app, if Weir is its middleware. Undefined: Weir forwards the request to an origin. */
  readonly next?: AppBehind['next'] | undefined;
}

export interface GatewayRequest extends PassableRequest {
  readonly services: GatewayServices;
  readonly regions: Regions;
  readonly afterResponse: AfterResponse;
  /** The platform sends the request to the zone's origin if Weir now throws. */
  readonly passThrough: () => void;
}

/** What the gateway knows of a request that is decided. */
interface Verdict {
  readonly asked: GatewayRequest;
  readonly decision: Decision;
  readonly incident: Incident | undefined;
  readonly caller: Caller | undefined;
  readonly ledger: Ledger;
  /** Undefined if the request is admitted. */
  readonly refused: Refusal | undefined;
  /** Undefined: no route takes the request, so it goes to the default origin. */
  readonly route: OriginRoute | undefined;
  /** By the clock of telemetry. */
  readonly startedAtMs: number;
}

export async function handleGateway(asked: GatewayRequest): Promise<Response> {
  const { services, request, regions, afterResponse } = asked;
  const { limiter, log, origins, telemetry } = services;
  const startedAtMs = attempt(log, telemetry.clockMs) ?? 0;
  const ledger = attempt(log, createLedger, (error: unknown) => log.error('charge-not-settled', error));
  if (!ledger) return passUncounted(asked);
  let identity: Identity | undefined;
  const planAs = (called: Identity, round: Round) => {
    identity = called;
    return plan(asked, round, called);
  };
  const makePlan = (round: Round) => {
    const called = whoCalls(asked, round);
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
  const route = attempt(log, origins.routeOf, request.url, asked.matchPath);
  const incident = attempt(log, incidentOf, decision, identity);
  const refused = decision.allowed ? undefined : attempt(log, describeRefusal, decision, request);
  const verdict = {
    asked,
    decision,
    incident,
    caller: identity?.caller,
    ledger,
    refused,
    route,
    startedAtMs,
  };
  attempt(log, report, services, regions[0].name, decision, incident);
  attempt(log, countDecision, verdict);
  let response: Response;
  try {
    if (!decision.allowed)
      response = refused ? refusal(decision, refused, services.identity.keyPlaces) : plainRefusal();
    else if (ledger.needsFollowUp) response = await passAndFollowUp(verdict);
    else if (request.raw.signal.aborted) response = clientGone();
    else {
      const sentAtMs = attempt(log, telemetry.clockMs) ?? 0;
      const result = await forward(asked, verdict);
      attempt(log, readAnswer, verdict, sentAtMs, result);
      ({ response } = result);
    }
  } catch (error) {
    response = answerDespite(error, verdict);
  }
  attempt(log, setHeaders, verdict, response);
  attempt(log, telemetry.flush, regions, afterResponse);
  return response;
}

/** The decision if nothing can decide. */
const UNDECIDED: Decision = { kind: 'degraded', allowed: true, fallback: 'open', reason: 'internal-error' };

/** For a request that Weir could not even begin to decide. */
export async function passUncounted(asked: PassableRequest): Promise<Response> {
  const { log, origins } = asked.services;
  const route = attempt(log, origins.routeOf, asked.request.url, asked.matchPath);
  return (await forward(asked, { caller: undefined, route })).response;
}

// Who calls, and which rules apply.

/** Returns a promise only if the client shows a credential. */
function whoCalls(asked: GatewayRequest, round: Round): Identity | Promise<Identity> {
  const { request, services } = asked;
  const shown = credentialsShown(request, services.identity);
  return shown ? lookUpCaller(asked, round, shown) : { caller: addressOf(request, services.identity) };
}

/** Looks up a caller that memory does not know, unless the address is denied anyway. */
async function lookUpCaller(asked: GatewayRequest, round: Round, shown: ShownCredentials): Promise<Identity> {
  const { afterResponse, request, services } = asked;
  const how = { ...services.identity, afterResponse, deadline: round.deadline };
  const known = await identifyFromMemory(request, how, shown);
  if (known) return known;
  const from = { caller: addressOf(request, services.identity) };
  return (await isRefusedAnyway(asked, round, from)) ? from : identify(request, how, shown);
}

async function isRefusedAnyway(asked: GatewayRequest, round: Round, from: Identity): Promise<boolean> {
  const list = round.snapshot.listed(from.caller, asked.services.now());
  // An address on the allow list passes whatever the rules say.
  if (list !== undefined) return list === 'deny';
  return round.isKnownDenied(await planByIpOnly(round.snapshot, plannedFor(asked, from)));
}

function plan(
  asked: GatewayRequest,
  { snapshot }: Round,
  called: Identity,
): RequestPlan | Promise<RequestPlan> {
  const { identity, now } = asked.services;
  return (
    planByIdentity(called, snapshot, { unverified: identity.unverified, nowMs: now() }) ??
    planRequest(snapshot, plannedFor(asked, called))
  );
}

const plannedFor = ({ services, matchPath, request }: GatewayRequest, { caller }: Identity) => ({
  matchPath,
  method: request.method,
  caller,
  nowMs: services.now(),
  facts: factsOf(request),
  isLogOnly: services.isLogOnly,
  seatId: randomId,
});

/**
 * What rules may count by beyond path, method and caller. Each fact is computed when a rule asks. The functions are
 * made once, because every request has facts.
 */
const factsOf = (request: ClientRequest): RequestFacts & FactsSource => ({ request, host, header, place });

interface FactsSource {
  readonly request: ClientRequest;
}

function host(this: FactsSource): string {
  return hostOf(this.request.url);
}

function header(this: FactsSource, name: string): string | null {
  return this.request.headers.get(name);
}

function place(this: FactsSource, kind: 'country' | 'asn' | 'colo'): string {
  const { [kind]: value } = (this.request.raw.cf ?? {}) as Readonly<Record<string, unknown>>;
  return typeof value === 'string' || typeof value === 'number' ? String(value) : '';
}

// What operators learn, and the way of an admitted request.

function countDecision({ asked, decision, incident, route, caller, startedAtMs, refused }: Verdict): void {
  const { services, regions } = asked;
  services.telemetry.decided({
    decision,
    incident,
    region: regions[0].name,
    route: nameOfRoute(route),
    caller,
    startedAtMs,
    refused,
  });
}

const forward = (
  { services, request, next, path, query, isFirst }: PassableRequest,
  verdict: Verdict | { readonly caller: undefined; readonly route: Verdict['route'] },
  outlivesClientMs?: number,
): Promise<ProxyResult> => {
  const { caller, route } = verdict;
  if (next) return next(caller, (headers) => 'decision' in verdict && finishHeaders(verdict, headers));
  return services.origins.forward(request, { path, query, route, isFirst, caller, outlivesClientMs });
};

/**
 * Cloudflare's own answers when it cannot connect to an origin: refused, unreachable, no TLS, no name. Only these prove
 * that a request did not reach the origin. A connection that breaks later may have carried the request.
 */
const NOT_CONNECTED: ReadonlySet<number> = new Set([521, 523, 525, 526, 530]);

/** Removes headers that are only for Weir from the answer. Returns the real cost, if the origin names it. */
function readAnswer(verdict: Verdict, startedAtMs: number, { kind, response }: ProxyResult) {
  const { asked, decision, caller, route } = verdict;
  const { log, origin, telemetry } = asked.services;
  const { status, headers } = response;
  const cost = kind === 'failed' ? undefined : attempt(log, takeOriginHeaders, headers, origin);
  const isRefunded = kind !== 'failed' && NOT_CONNECTED.has(status);
  attempt(log, telemetry.answered, {
    decision,
    route: nameOfRoute(route),
    caller,
    startedAtMs,
    status,
    cost,
    isRefunded,
  });
  return { cost, isRefunded };
}

/** Less than the 30 s for which the runtime keeps `waitUntil` work alive after a client has left. */
const AWAIT_COST_MS = 25_000;

/** Forwards a request whose charges may change later, or that holds a seat. */
function passAndFollowUp(verdict: Verdict): Promise<Response> {
  const { asked, ledger } = verdict;
  const held = attempt(asked.services.log, holdSeats, ledger);
  // A region that did not answer may still hold a seat.
  if (!held) asked.afterResponse(ledger.release());
  const passing = passWith(held, verdict);
  asked.afterResponse(passing.catch(() => held?.end()));
  return passing;
}

async function passWith(held: ReturnType<typeof holdSeats>, verdict: Verdict): Promise<Response> {
  const { asked, ledger } = verdict;
  const { services, request, afterResponse } = asked;
  const { log, telemetry } = services;
  if ((await attemptLater(log, takeTurn, verdict)) === false) {
    afterResponse(Promise.all([ledger.refund(), held?.end()]));
    return clientGone();
  }
  const sentAtMs = attempt(log, telemetry.clockMs) ?? 0;
  const result = await forward(asked, verdict, ledger.awaitsCost ? AWAIT_COST_MS : 0);
  const answer = attempt(log, readAnswer, verdict, sentAtMs, result);
  if (answer) attempt(log, settle, verdict, answer);
  if (!held) return result.response;
  const open =
    result.kind === 'answered'
      ? attempt(log, holdWhileOpen, request, result, held, afterResponse)
      : undefined;
  if (!open) afterResponse(held.end());
  return open ?? result.response;
}

async function takeTurn({ asked, decision }: Verdict): Promise<boolean> {
  return waitForTurn(delayOf(decision), asked.request.raw.signal);
}

function settle({ asked, ledger }: Verdict, { cost, isRefunded }: ReturnType<typeof readAnswer>): void {
  if (isRefunded) asked.afterResponse(ledger.refundError());
  else if (cost !== undefined) asked.afterResponse(ledger.settle(cost));
}

// The answer to the client.

/** For an app that must send its headers itself. */
function finishHeaders(verdict: Verdict, headers: Headers): void {
  const { log, origin } = verdict.asked.services;
  attempt(log, takeOriginHeaders, headers, origin);
  attempt(log, setHeaders, verdict, { headers });
}

function setHeaders({ asked, decision, incident }: Verdict, { headers }: Pick<Response, 'headers'>): void {
  if (incident && asked.services.showsDegraded) setIncidentHeaders(headers, incident);
  setDecisionHeaders(headers, decision, asked.services);
}

/**
 * The refusal could not be made, or the request not be passed on. A denied request stays denied. An error of the rest
 * of the app is for that app. If the origin is the zone's own, the platform can pass on what Weir could not, as long as
 * the origin cannot get it twice.
 */
function answerDespite(error: unknown, { asked, decision, route }: Verdict): Response {
  const { services, request, next, passThrough } = asked;
  const { raw, method } = request;
  if (next && decision.allowed) throw error;
  reportBug(services.log, error);
  if (!decision.allowed) return plainRefusal();
  const isUnsent = raw.body ? !raw.bodyUsed : method === 'GET' || method === 'HEAD';
  if (!isUnsent || !services.origins.isZone(route)) return notPassedOn();
  passThrough();
  throw error;
}
