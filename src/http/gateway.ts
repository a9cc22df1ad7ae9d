// The way of a request: identity, lists and matching, decision, then a refusal or what lies behind.

import type { CheckResult, Decision } from '../core/counting/decision.ts';
import { toBase64Url } from '../core/digest.ts';
import type { AfterResponse, Caller } from '../core/matching/caller.ts';
import { planAnybody, planRequest, type RuleCheck } from '../core/matching/plan.ts';
import { type Charges, createCharges, hasSequel } from '../limiter/charges.ts';
import { type Held, holdLeases } from '../limiter/held-leases.ts';
import type { Regions } from '../limiter/region-ladder.ts';
import { holdWhileOpen } from './connections.ts';
import { setDecisionHeaders, setIncidentHeaders } from './headers.ts';
import { type Address, type Identity, identify } from './identity.ts';
import { takeOriginHeaders } from './origin-headers.ts';
import { clientGone, type ProxyResult } from './proxy.ts';
import { refusal } from './refusals.ts';
import type { Services } from './services.ts';
import type { Incident } from './tally.ts';
import { waitForTurn, waitOf } from './turn.ts';

export interface GatewayRequest {
  readonly request: Request;
  readonly regions: Regions;
  readonly matchPath: string;
  readonly afterResponse: AfterResponse;
  /** To the origin, or to whatever else lies behind. */
  readonly forward: (caller: Caller | undefined, options: ForwardOptions) => Promise<ProxyResult>;
}

export interface ForwardOptions {
  /** For so long the origin may still answer a client that has left. */
  readonly outlivesClientMs?: number | undefined;
}

/** Less than the 30 s that the runtime leaves to what is handed over after a client has left. */
const AWAIT_COST_MS = 25_000;

/**
 * What Cloudflare answers for an origin that it could not connect to: refused, unreachable, no TLS, no name. Nothing
 * else tells that a request did not reach the origin: a connection that broke may have been open for long.
 */
const NOT_CONNECTED: ReadonlySet<number> = new Set([521, 523, 525, 526, 530]);

export async function handleGateway(services: Services, asked: GatewayRequest): Promise<Response> {
  const deciding = decide(services, asked);
  // When a client leaves, the runtime drops all that is not handed over: what was charged or held would stay so.
  asked.afterResponse(deciding);
  const { decision, identity } = await deciding;
  const incident = incidentOf(decision, identity);
  report(services, asked.regions[0].name, decision, incident);
  const response = decision.allowed
    ? await pass(services, asked, decision, identity?.caller)
    : refuse(services, asked, decision);
  if (incident && services.showsDegraded) setIncidentHeaders(response.headers, incident);
  setDecisionHeaders(response.headers, decision, services);
  return response;
}

async function decide(services: Services, { request, regions, matchPath, afterResponse }: GatewayRequest) {
  let identity: Identity | undefined;
  const decision = await services.limiter.decide({
    regions,
    operation: 'take',
    afterResponse,
    onShadow: (results) => reportShadow(services, regions[0].name, results),
    async plan(snapshot, deadline, isKnownDenied) {
      const nowMs = services.now();
      const { method } = request;
      const plannedFor = (caller: Caller) => ({ matchPath, method, caller, nowMs, leaseId: randomId });
      const isListed = (caller: Caller) => snapshot.listed(caller, nowMs) === 'deny';
      const isRefusedAnyway = async (from: Address) =>
        isListed(from) || isKnownDenied(await planAnybody(snapshot, plannedFor(from)));
      const how = { ...services.identity, afterResponse, deadline, isRefusedAnyway };
      identity = await identify(request, how);
      const { caller, unverified } = identity;
      if (unverified && services.identity.unverified === 'reject' && !isListed(caller))
        return { kind: 'unverified', credential: unverified };
      return planRequest(snapshot, { ...plannedFor(caller), nowMs: services.now() });
    },
  });
  return { decision, identity };
}

/** 16 characters that no other request has. */
const randomId = () => toBase64Url(crypto.getRandomValues(new Uint8Array(12)));

/** What is worth telling about how a decision came about: the gravest thing, if several went wrong. */
function incidentOf(
  decision: Decision,
  identity: Identity | undefined,
): Omit<Incident, 'region'> | undefined {
  if (decision.kind === 'degraded') return decision;
  if (decision.kind === 'counted' && decision.failedOver)
    return { reason: decision.failedOver, fallback: 'next-region' };
  if (decision.isStale) return { reason: 'stale-rules' };
  // A caller that could not be looked up was counted by IP, in the default tier.
  return identity?.unknown ? { reason: 'caller-unknown' } : undefined;
}

function report(
  { log, tally }: Services,
  region: string,
  decision: Decision,
  incident: Omit<Incident, 'region'> | undefined,
): void {
  if (incident) {
    tally.add({ ...incident, region });
    log.degraded({ ...incident, region });
  }
  if (decision.kind === 'counted') reportShadow({ log }, region, decision.results);
}

function reportShadow(
  { log }: Pick<Services, 'log'>,
  region: string,
  results: readonly CheckResult<RuleCheck>[],
): void {
  for (const { check, outcome } of results)
    if (check.log && !outcome.allowed) log.shadow(check.rule.name, region);
}

function refuse(
  services: Services,
  { request, afterResponse }: GatewayRequest,
  decision: Decision,
): Response {
  // A region that did not answer in time may hold a lease for it.
  if (hasSequel(decision)) afterResponse(chargesOf(services, decision).release());
  return refusal(decision, request.method);
}

const chargesOf = ({ log }: Services, decision: Decision): Charges =>
  createCharges({ decision, onError: (error) => log.error('charge-not-settled', error) });

async function pass(
  services: Services,
  asked: GatewayRequest,
  decision: Decision,
  caller: Caller | undefined,
): Promise<Response> {
  if (!hasSequel(decision)) {
    if (asked.request.signal.aborted) return clientGone();
    return readAnswer(services, await asked.forward(caller, {})).response;
  }
  const charges = chargesOf(services, decision);
  const held = holdLeases(charges);
  // A region that did not answer may hold one all the same.
  if (!held) asked.afterResponse(charges.release());
  const passing = passWith(charges, held, services, asked, decision, caller);
  asked.afterResponse(passing.catch(() => held?.end()));
  return passing;
}

async function passWith(
  charges: Charges,
  held: Held | undefined,
  services: Services,
  { request, afterResponse, forward }: GatewayRequest,
  decision: Decision,
  caller: Caller | undefined,
): Promise<Response> {
  if (!(await waitForTurn(waitOf(decision), request.signal))) {
    afterResponse(Promise.all([charges.refund(), held?.end()]));
    return clientGone();
  }
  const outlivesClientMs = charges.awaitsCost ? AWAIT_COST_MS : undefined;
  const result = await forward(caller, { outlivesClientMs });
  if (result.kind === 'failed') {
    if (held) afterResponse(held.end());
    return result.response;
  }
  const { response, cost } = readAnswer(services, result);
  if (NOT_CONNECTED.has(response.status)) afterResponse(charges.refundError());
  else if (cost !== undefined) afterResponse(charges.settle(cost));
  const isRaw = result.isRaw === true;
  return held ? holdWhileOpen({ request, response, isRaw }, held, afterResponse) : response;
}

/** With the headers that are for the client, and what the origin says the request cost. */
function readAnswer({ origin }: Services, { kind, response }: ProxyResult) {
  const cost = kind === 'failed' ? undefined : takeOriginHeaders(response.headers, origin);
  return { response, cost };
}
