// Passes a request on to the origin and its answer back, both streamed, compressed bodies as they are.
import { problem } from './problem.ts';
import { passBody } from './proxy/body.ts';
import { createDeadline, type EndReason, type OriginDeadline } from './proxy/deadline.ts';
import { type HeaderPolicy, toOriginHeaders } from './proxy/headers.ts';

export interface ProxyTarget {
  readonly originUrl: string;
  /** Canonical: what was matched is what the origin sees. */
  readonly path: string;
  /** With its question mark, as it was sent. */
  readonly query: string;
  /** Headers that tell the origin who calls. Nothing that the client sends under their names passes. */
  readonly identity?: Readonly<Record<string, string>> | undefined;
  readonly headers: HeaderPolicy;
  /** For the origin's headers, once it has the whole request; its body may take as long as it likes. */
  readonly timeoutMs: number;
  /** For so long the origin may still answer a client that has left. */
  readonly outlivesClientMs?: number | undefined;
}

export type ProxyFailure = EndReason | 'unreachable';

export type ProxyResult =
  /** Raw: its body is as the origin sent it, encoded or not. */
  | { readonly kind: 'answered'; readonly response: Response; readonly isRaw?: boolean }
  | { readonly kind: 'failed'; readonly reason: ProxyFailure; readonly response: Response };

export async function proxy(request: Request, target: ProxyTarget): Promise<ProxyResult> {
  const deadline = createDeadline(request.signal, target);
  try {
    const answer = await askOrigin(request, target, deadline);
    return { kind: 'answered', response: toClient(answer), isRaw: true };
  } catch {
    const reason = deadline.reason ?? 'unreachable';
    return { kind: 'failed', reason, response: FAILURES[reason]() };
  } finally {
    deadline.stop();
  }
}

function askOrigin(request: Request, target: ProxyTarget, deadline: OriginDeadline): Promise<Response> {
  const { originUrl, path, query, identity } = target;
  const init = {
    headers: toOriginHeaders(request, { ...target.headers, isWebSocket: isWebSocket(request), identity }),
    redirect: 'manual',
    signal: deadline.signal,
    // Neither decoded here nor encoded again for the client.
    encodeResponseBody: 'manual',
  } as const;
  const url = `${originUrl}${path}${query}`;
  if (request.body === null) {
    deadline.start();
    return fetch(url, { ...init, method: request.method });
  }
  // Another fetch would refuse a GET with a body; what came with one is passed on with it.
  if (request.method === 'GET' || request.method === 'HEAD') {
    deadline.start();
    return fetch(new Request(url, request), init);
  }
  const length = request.headers.get('Content-Length');
  const body = passBody(request.body, length, () => deadline.start());
  return fetch(url, { ...init, method: request.method, body });
}

/** Nothing but a GET is one: of any other method with this header, fetch would make a GET that no rule has judged. */
const isWebSocket = ({ method, headers }: Request): boolean =>
  method === 'GET' && headers.get('Upgrade')?.toLowerCase() === 'websocket';

/** A copy, because the headers of what fetch returns cannot be changed: the gateway has to. */
function toClient(answer: Response): Response {
  const { status } = answer;
  const hasNoBody = status === 101 || status === 204 || status === 205 || status === 304;
  return hasNoBody ? new Response(null, answer) : rawCopy(answer);
}

function rawCopy({ body, status, statusText, headers }: Response): Response {
  return new Response(body, { status, statusText, headers, encodeBody: 'manual' } as ResponseInit);
}

const FAILURES: Readonly<Record<ProxyFailure, () => Response>> = {
  unreachable: () =>
    problem({
      status: 502,
      code: 'origin-unreachable',
      title: 'The origin did not answer',
      detail: 'Weir could not get an answer from the API behind it.',
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

/** Nobody is there to read it. */
export function clientGone(): Response {
  return problem({ status: 499, code: 'client-gone', title: 'The client has left' });
}
