// Seats last as long as what they are for: until the last byte of an answer, or until a WebSocket is closed from
// either side. A connection that has lost its seat is closed: somebody else has it.
import type { AfterResponse } from '../core/matching/caller.ts';
import type { Held } from '../limiter/held-seats.ts';

export interface OpenAnswer {
  readonly request: Request;
  readonly response: Response;
  /** Its body is as the origin sent it, encoded or not. */
  readonly isRaw: boolean;
}

/** The answer, which gives its seats back when it is over. */
export function holdWhileOpen(answer: OpenAnswer, held: Held, afterResponse: AfterResponse): Response {
  const { request, response, isRaw } = answer;
  if (response.webSocket) return bridge(response, response.webSocket, held, afterResponse);
  // The body of an answer to HEAD is never read.
  if (!response.body || request.method === 'HEAD') {
    afterResponse(held.end());
    return response;
  }
  const { readable, writable } = isRaw ? rawPassage(response.headers) : new IdentityTransformStream();
  const passing = response.body.pipeTo(writable, { signal: held.lost }).catch(() => {});
  afterResponse(passing.finally(() => held.end()));
  return isRaw ? rawAnswer(readable, response) : new Response(readable, withoutLength(response));
}

/** Of a known length, or the client would get it chunked. */
function rawPassage(headers: Headers) {
  const length = headers.get('Content-Length');
  const isKnown = length !== null && /^\d{1,15}$/.test(length);
  return isKnown ? new FixedLengthStream(Number(length)) : new IdentityTransformStream();
}

const rawAnswer = (body: ReadableStream, { status, statusText, headers }: Response) =>
  new Response(body, { status, statusText, headers, encodeBody: 'manual' });

/** What is encoded on its way out has another length than it says. */
function withoutLength(response: Response): Response {
  if (response.headers.has('Content-Encoding')) response.headers.delete('Content-Length');
  return response;
}

/** Both sides end here, because only then it is known when one of them closes. */
function bridge(response: Response, origin: WebSocket, held: Held, afterResponse: AfterResponse): Response {
  const { 0: client, 1: server } = new WebSocketPair();
  for (const socket of [origin, server]) {
    socket.binaryType = 'arraybuffer';
    socket.accept();
  }
  const over = Promise.race([
    passOn(origin, server),
    passOn(server, origin),
    closeWhenLost(held, origin, server),
  ]);
  afterResponse(over.finally(() => held.end()));
  return new Response(null, { status: 101, headers: response.headers, webSocket: client });
}

function closeWhenLost({ lost }: Held, ...sockets: readonly WebSocket[]): Promise<void> {
  return new Promise((resolve) => {
    const closeAll = () => {
      for (const socket of sockets) close(socket, TRY_AGAIN_LATER, 'this connection has lost its seat');
      resolve();
    };
    if (lost.aborted) closeAll();
    else lost.addEventListener('abort', closeAll, { once: true });
  });
}

/** Messages as they are; resolves when `from` has closed or failed, and `to` has been told. */
function passOn(from: WebSocket, to: WebSocket): Promise<void> {
  from.addEventListener('message', ({ data }) => attempt(() => to.send(data)));
  return new Promise((resolve) => {
    from.addEventListener('close', ({ code, reason }) => {
      close(to, code, reason);
      resolve();
    });
    from.addEventListener('error', () => {
      close(to, INTERNAL_ERROR, 'the other side failed');
      resolve();
    });
  });
}

const INTERNAL_ERROR = 1011;
const TRY_AGAIN_LATER = 1013;
/** Codes that say that there was none, or that the connection broke: nobody may send them. */
const UNSENDABLE = [1005, 1006, 1015];

/** With the same words if they may be said, but in any case: a seat given back must not stay taken. */
function close(socket: WebSocket, code: number, reason: string): void {
  const isClosed = attempt(() => (UNSENDABLE.includes(code) ? socket.close() : socket.close(code, reason)));
  if (!isClosed) attempt(() => socket.close(INTERNAL_ERROR));
}

/** False if it threw: the socket is closed already, or does not take this. */
function attempt(action: () => void): boolean {
  try {
    action();
    return true;
  } catch {
    return false;
  }
}
