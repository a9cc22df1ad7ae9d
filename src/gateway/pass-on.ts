// Passes admitted requests on, and does what follows from the answer: settles charges, gives seats back.
import type { Decision } from '../core/decision.ts';
import type { Caller } from '../core/matching/caller.ts';
import type { OriginRoute } from '../core/matching/origin-routes.ts';
import { attempt, attemptLater } from '../http/guard.ts';
import type { Ledger } from '../limiter/ledger.ts';
import { type Held, holdSeats } from '../limiter/ledger.ts';
import { nameOfRoute } from '../proxy/origins.ts';
import { clientGone, type ProxyResult } from '../proxy/proxy.ts';
import { takeOriginHeaders } from '../proxy/response-headers.ts';
import type { incidentOf } from './decision-report.ts';
import type { GatewayRequest, GatewayServices } from './gateway.ts';
import { holdWhileOpen } from './seats.ts';
import { waitForTurn, waitOf } from './throttle.ts';

/** A decided request: the decision, the caller, the charges, and where it goes. */
export interface Handled {
  readonly decision: Decision;
  readonly incident: ReturnType<typeof incidentOf>;
  readonly caller: Caller | undefined;
  readonly ledger: Ledger;
  /** Undefined: no route takes the request, so it goes to the default origin. */
  readonly route: OriginRoute | undefined;
  /** By the clock of telemetry. */
  readonly startedAtMs: number;
}

/** What it takes to pass a request on. */
export type PassedRequest = Pick<
  GatewayRequest,
  'request' | 'path' | 'matchPath' | 'query' | 'isFirst' | 'next'
>;

/** Less than the 30 s for which the runtime keeps `waitUntil` work alive after a client has left. */
const AWAIT_COST_MS = 25_000;

/**
 * Cloudflare's own answers when it cannot connect to an origin: refused, unreachable, no TLS, no name. Only these prove
 * that a request did not reach the origin. A connection that breaks later may have carried the request.
 */
const NOT_CONNECTED: ReadonlySet<number> = new Set([521, 523, 525, 526, 530]);

export const clock = ({ telemetry }: GatewayServices): number => telemetry.clockMs();

export const forward = (
  { origins }: Pick<GatewayServices, 'origins'>,
  { request, next, path, query, isFirst }: PassedRequest,
  { caller, route }: Pick<Handled, 'caller' | 'route'>,
  outlivesClientMs?: number,
): Promise<ProxyResult> =>
  next?.(caller) ?? origins.forward(request, { path, query, route, isFirst, caller, outlivesClientMs });

/** Forwards a request whose charges may change later, or that holds a seat. */
export function passAndFollowUp(
  services: GatewayServices,
  asked: GatewayRequest,
  handled: Handled,
): Promise<Response> {
  const { ledger } = handled;
  const held = attempt(services.log, holdSeats, ledger);
  // A region that did not answer may still hold a seat.
  if (!held) asked.afterResponse(ledger.release());
  const passing = passWith(held, services, asked, handled);
  asked.afterResponse(passing.catch(() => held?.end()));
  return passing;
}

async function passWith(
  held: Held | undefined,
  services: GatewayServices,
  asked: GatewayRequest,
  handled: Handled,
): Promise<Response> {
  const { log } = services;
  const { request, afterResponse } = asked;
  const { decision, ledger } = handled;
  if ((await attemptLater(log, takeTurn, decision, request.raw.signal)) === false) {
    afterResponse(Promise.all([ledger.refund(), held?.end()]));
    return clientGone();
  }
  const sentAtMs = attempt(log, clock, services) ?? 0;
  const result = await forward(services, asked, handled, ledger.awaitsCost ? AWAIT_COST_MS : 0);
  const answer = attempt(log, readAnswer, services, handled, sentAtMs, result);
  if (answer) attempt(log, settle, asked, ledger, answer);
  const { response } = result;
  if (!held) return response;
  const isRaw = result.kind === 'answered' && result.isRaw === true;
  const open =
    result.kind === 'answered'
      ? attempt(log, holdWhileOpen, { request, response, isRaw }, held, afterResponse)
      : undefined;
  if (!open) afterResponse(held.end());
  return open ?? response;
}

const takeTurn = async (decision: Decision, client: AbortSignal): Promise<boolean> =>
  waitForTurn(waitOf(decision), client);

function settle({ afterResponse }: GatewayRequest, ledger: Ledger, { cost, isRefunded }: OriginAnswer): void {
  if (isRefunded) afterResponse(ledger.refundError());
  else if (cost !== undefined) afterResponse(ledger.settle(cost));
}

interface OriginAnswer {
  /** As the origin names it. */
  readonly cost: number | undefined;
  readonly isRefunded: boolean;
}

/** Removes headers that are only for Weir from the answer, and reads the real cost from them. */
export function readAnswer(
  { log, origin, telemetry }: GatewayServices,
  { decision, caller, route }: Handled,
  startedAtMs: number,
  { kind, response }: ProxyResult,
): OriginAnswer {
  const cost = kind === 'failed' ? undefined : attempt(log, takeOriginHeaders, response.headers, origin);
  const { status } = response;
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
