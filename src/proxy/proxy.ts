// Sends an admitted request to its origin, and its answer to the client.
//
// # What the room promises
//
// The origin gets the request as the client sent it: the body byte for byte, compressed or not, and all headers but
// those of one connection and those that only Weir, Cloudflare or a proxy may set (headers.ts). The client gets the
// answer in the same way. No request fails because a part of this room fails that only watches. A request reaches one
// origin once, or Weir answers for it: 502, 504, 508, or 499 if nobody waits.
//
// # In what order it works
//
//  1. origins.ts chooses the origin, its URL and the way to it, and names this Weir to it, so that loops end.
//  2. headers.ts prepares the headers, and says who calls.
//  3. This file asks the origin, within a deadline, and streams both bodies.
//  4. origins.ts notes how the origin has answered. headers.ts cleans the headers of the answer.
//
// # What must never be
//
// A client speaks for Weir to the origin, or an origin for Weir to the client. JavaScript touches the bytes of a body.
// The time limit of the origin runs while the client still sends.

import type { ServiceBinding } from '../core/matching/origin-routes.ts';
import { attempt, type ClientRequest } from '../http/guard.ts';
import type { Log } from '../http/log.ts';
import { type Problem, problem } from '../http/problem.ts';
import { type ForwardedHeaders, toOriginHeaders } from './headers.ts';
import type { OriginRecord } from './origins.ts';

export interface ProxyTarget extends ForwardedHeaders {
  /** With path and query. */
  readonly url: string;
  /** The network, or another Worker; undefined if that Worker is not bound. */
  readonly via: 'network' | ServiceBinding | undefined;
  /** The host that Cloudflare connects to, if the URL has the host that the origin should read. */
  readonly resolveOverride?: string | undefined;
  /** How long the origin may take for its headers, once it has the whole request. The body has no time limit. */
  readonly timeoutMs: number;
  /**
   * How long the origin may still answer after the client has left. Undefined: the call to the origin was not handed
   * over to `waitUntil`, so it ends with the client.
   */
  readonly outlivesClientMs?: number | undefined;
  readonly health: Pick<OriginRecord, 'note'> | undefined;
  readonly log: Pick<Log, 'bug'>;
}

export type ProxyFailure = 'timeout' | 'client-gone' | 'unreachable' | 'not-bound';

export type ProxyResult =
  /** `isRaw`: the body is as the origin sent it, encoded or not. */
  | { readonly kind: 'answered'; readonly response: Response; readonly isRaw?: boolean }
  | { readonly kind: 'failed'; readonly reason: ProxyFailure; readonly response: Response };

export async function proxy(request: ClientRequest, target: ProxyTarget): Promise<ProxyResult> {
  let result: ProxyResult;
  if (!isReachable(target)) result = failed('not-bound');
  else {
    const deadline = new OriginDeadline(request.raw.signal, target);
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

const note = (health: ProxyTarget['health'], result: ProxyResult) => health?.note(result);

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
    body: isRead || body === null ? null : passBody(request, body, deadline),
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

interface Passage {
  readonly readable: ReadableStream;
  readonly writable: WritableStream;
}

// Declared here, because tests on Node load this file and only the Workers runtime has the class.
declare const FixedLengthStream: new (length: bigint) => Passage;
declare const IdentityTransformStream: new () => Passage;

/**
 * The runtime pumps the body, not JavaScript. Weir only notes when the origin has all of it: from then on, the client
 * waits for the origin, and the origin's time runs.
 */
function passBody(
  { headers }: ClientRequest,
  body: ReadableStream,
  deadline: OriginDeadline,
): ReadableStream {
  // Keeps the length, because without one the origin would get the body chunked.
  const length = headers.get('Content-Length');
  const passage = length === null ? new IdentityTransformStream() : new FixedLengthStream(BigInt(length));
  // If the client breaks off, the readable side fails and so does fetch. The caller of fetch handles that.
  body.pipeTo(passage.writable).then(
    () => deadline.start(),
    () => {},
  );
  return passage.readable;
}

/** A copy, because the gateway changes headers, and those of a fetched response are immutable. */
function toClient(answer: Response): Response {
  const { status } = answer;
  const hasNoBody = status === 101 || status === 204 || status === 205 || status === 304;
  // The body stays encoded, because the copied headers still name its encoding.
  return new Response(hasNoBody ? null : answer.body, answer);
}

/**
 * Ends the request to the origin when the origin is too slow, or when the client has left.
 *
 * A request that ends with its client needs no controller: when the client leaves, its signal or the runtime ends the
 * request, and when the time is over, the runtime ends it once Weir has answered the client. A request that outlives
 * its client ignores the client's signal, so it has a controller.
 *
 * A class, because every request has a deadline, and the methods of a class are made once.
 */
export class OriginDeadline {
  /** See `Deadline` in limiter/deadline.ts. No real signal: older runtimes let no module make one when it is loaded. */
  static readonly kept = new OriginDeadline({} as AbortSignal, { timeoutMs: 0 });

  readonly signal: AbortSignal;
  readonly #client: AbortSignal;
  readonly #controller: AbortController | undefined;
  readonly #timeoutMs: number;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #leaveTimer: ReturnType<typeof setTimeout> | undefined;
  #isStopped = false;
  #reason: 'timeout' | 'client-gone' | undefined;
  #reject: ((error: Error) => void) | undefined;

  constructor(
    client: AbortSignal,
    { timeoutMs, outlivesClientMs }: Pick<ProxyTarget, 'timeoutMs' | 'outlivesClientMs'>,
  ) {
    this.#client = client;
    this.#timeoutMs = timeoutMs;
    this.#controller = outlivesClientMs === undefined ? undefined : new AbortController();
    this.signal = this.#controller?.signal ?? client;
    if (outlivesClientMs !== undefined) this.#outlive(outlivesClientMs);
  }

  /** Why the request has ended, if it has. */
  reason(): 'timeout' | 'client-gone' | undefined {
    return this.#reason ?? (this.signal.aborted ? 'client-gone' : undefined);
  }

  /** Resolves with the origin's answer; rejects if the time is over first. */
  race<T>(answer: Promise<T>): Promise<T> {
    if (this.#controller) return answer;
    return new Promise((resolve, reject) => {
      this.#reject = reject;
      answer.then(resolve, reject);
    });
  }

  /** From now on the origin has its time to answer. */
  start(): void {
    if (!this.#isStopped) this.#timer ??= setTimeout(() => this.#end('timeout'), this.#timeoutMs);
  }

  /** The origin has answered. From now on a client that leaves ends the request. */
  stop(): void {
    this.#isStopped = true;
    if (this.#timer !== undefined) clearTimeout(this.#timer);
    if (this.#leaveTimer !== undefined) clearTimeout(this.#leaveTimer);
    if (this.#controller && this.#client.aborted) this.#end('client-gone');
  }

  #outlive(ms: number): void {
    const leave = () => {
      if (this.#isStopped || ms === 0) this.#end('client-gone');
      else this.#leaveTimer = setTimeout(() => this.#end('client-gone'), ms);
    };
    if (this.#client.aborted) this.#end('client-gone');
    else this.#client.addEventListener('abort', leave, { once: true });
  }

  #end(reason: 'timeout' | 'client-gone'): void {
    this.#reason ??= reason;
    this.#controller?.abort();
    this.#reject?.(new Error('the origin is late'));
  }
}

const FAILURES: Readonly<Record<ProxyFailure, Problem>> = {
  unreachable: {
    status: 502,
    code: 'origin-unreachable',
    title: 'The origin did not answer',
    detail: 'Weir could not get an answer from the API behind it.',
  },
  'not-bound': {
    status: 502,
    code: 'origin-not-bound',
    title: 'The origin is not bound',
    detail: 'The route names a service binding that this Worker does not have.',
  },
  timeout: {
    status: 504,
    code: 'origin-timeout',
    title: 'The origin did not answer in time',
    detail: 'The API behind Weir has the request, but has not answered it in time.',
  },
  'client-gone': { status: 499, code: 'client-gone', title: 'The client has left' },
};

const failed = (reason: ProxyFailure): ProxyResult => ({
  kind: 'failed',
  reason,
  response: problem(FAILURES[reason]),
});

/** An answer that nobody reads: the client has left. */
export const clientGone = (): Response => problem(FAILURES['client-gone']);
