// Forwards a request to the origin and streams both bodies. Compressed bodies stay as they are.

import type { ServiceBinding } from '../core/matching/origin-routes.ts';
import type { ClientRequest } from '../http/client-request.ts';
import { attempt } from '../http/guard.ts';
import type { Log } from '../http/log.ts';
import { problem } from '../http/problem.ts';
import { createDeadline, type EndReason, type OriginDeadline } from './deadline.ts';
import type { OriginRecord } from './origin-health.ts';
import { type HeaderPolicy, toOriginHeaders } from './request-headers.ts';

// Streams a request's body to the origin. The runtime pumps it, not JavaScript. Weir only notes when the origin has all
// of it: from then on, the client waits for the origin, and the origin's timeout starts.

interface Passage {
  readonly readable: ReadableStream;
  readonly writable: WritableStream;
}

// Declared here, because tests on Node load this file and only the Workers runtime has the class.
declare const FixedLengthStream: new (length: bigint) => Passage;
declare const IdentityTransformStream: new () => Passage;

export function passBody(body: ReadableStream, length: string | null, onPassed: () => void): ReadableStream {
  // Keeps the length, because without one the origin would get the body chunked.
  const passage = length === null ? new IdentityTransformStream() : new FixedLengthStream(BigInt(length));
  // If the client breaks off, the readable side fails and so does fetch. The caller of fetch handles that.
  body.pipeTo(passage.writable).then(onPassed, () => {});
  return passage.readable;
}

export interface ProxyTarget {
  /** With path and query. */
  readonly url: string;
  /** The network, or another Worker; undefined if that Worker is not bound. */
  readonly via: 'network' | ServiceBinding | undefined;
  /** Headers that tell the origin who calls. They replace what the client sends under these names. */
  readonly identity?: Readonly<Record<string, string>> | undefined;
  /** Names the Weirs that the request has passed. */
  readonly hop: string;
  /** Cloudflare connects to this host instead of the one in the URL. */
  readonly resolveOverride?: string | undefined;
  /** Headers of the route. They replace what the client sends under these names. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly policy: HeaderPolicy;
  /** How long the origin may take for its headers, once it has the whole request. The body has no time limit. */
  readonly timeoutMs: number;
  /** How long the origin may still answer after the client has left. */
  readonly outlivesClientMs?: number | undefined;
  /** Records the result. */
  readonly health: OriginRecord | undefined;
  readonly log: Pick<Log, 'bug'>;
}

export type ProxyFailure = EndReason | 'unreachable' | 'not-bound';

export type ProxyResult =
  /** `isRaw`: the body is as the origin sent it, encoded or not. */
  | { readonly kind: 'answered'; readonly response: Response; readonly isRaw?: boolean }
  | { readonly kind: 'failed'; readonly reason: ProxyFailure; readonly response: Response };

export async function proxy(request: ClientRequest, target: ProxyTarget): Promise<ProxyResult> {
  let result: ProxyResult;
  if (!isReachable(target)) result = failed('not-bound');
  else {
    const deadline = createDeadline(request.raw.signal, target);
    try {
      const answer = await deadline.race(askOrigin(request, target, deadline));
      result = { kind: 'answered', response: toClient(answer), isRaw: true };
    } catch {
      result = failed(deadline.reason() ?? 'unreachable');
    } finally {
      deadline.stop();
    }
  }
  attempt(target.log, note, target.health, result);
  return result;
}

const note = (health: OriginRecord | undefined, result: ProxyResult) => health?.note(result);

const failed = (reason: ProxyFailure): ProxyResult => ({
  kind: 'failed',
  reason,
  response: FAILURES[reason](),
});

interface ReachableTarget extends ProxyTarget {
  readonly via: 'network' | ServiceBinding;
}

const isReachable = (target: ProxyTarget): target is ReachableTarget => target.via !== undefined;

function askOrigin(
  request: ClientRequest,
  target: ReachableTarget,
  deadline: OriginDeadline,
): Promise<Response> {
  const { url, via, resolveOverride } = target;
  const { raw, method } = request;
  const { body } = raw;
  const isRead = method === 'GET' || method === 'HEAD';
  const init = {
    method,
    headers: toOriginHeaders(request, target),
    redirect: 'manual',
    signal: deadline.signal,
    // The runtime neither decodes the body here nor encodes it again for the client.
    encodeResponseBody: 'manual',
    body: isRead || body === null ? null : pass(request, body, deadline),
  } as const;
  const ask = (to: string | Request, how: RequestInit) => {
    const inFull = resolveOverride === undefined ? how : { ...how, cf: { resolveOverride } };
    return via === 'network' ? fetch(to, inFull) : via.fetch(to, inFull);
  };
  if (init.body === null) deadline.start();
  if (!isRead || body === null) return ask(url, init);
  // fetch refuses a GET with a body of its own, so a copy of the client's request carries the body.
  const { headers, redirect, signal, encodeResponseBody } = init;
  return ask(new Request(url, raw), { headers, redirect, signal, encodeResponseBody } as RequestInit);
}

const pass = ({ headers }: ClientRequest, body: ReadableStream, deadline: OriginDeadline): ReadableStream =>
  passBody(body, headers.get('Content-Length'), () => deadline.start());

/** A copy, because the gateway changes headers, and those of a fetched response are immutable. */
function toClient(answer: Response): Response {
  const { status } = answer;
  const hasNoBody = status === 101 || status === 204 || status === 205 || status === 304;
  // The body stays encoded, because the copied headers still name its encoding.
  return new Response(hasNoBody ? null : answer.body, answer);
}

const FAILURES: Readonly<Record<ProxyFailure, () => Response>> = {
  unreachable: () =>
    problem({
      status: 502,
      code: 'origin-unreachable',
      title: 'The origin did not answer',
      detail: 'Weir could not get an answer from the API behind it.',
    }),
  'not-bound': () =>
    problem({
      status: 502,
      code: 'origin-not-bound',
      title: 'The origin is not bound',
      detail: 'The route names a service binding that this Worker does not have.',
    }),
  timeout: () =>
    problem({
      status: 504,
      code: 'origin-timeout',
      title: 'The origin did not answer in time',
      detail: 'The API behind Weir has the request, but has not answered it in time.',
    }),
  'client-gone': clientGone,
};

/** An answer that nobody reads: the client has left. */
export function clientGone(): Response {
  return problem({ status: 499, code: 'client-gone', title: 'The client has left' });
}
