// What an admitted request may wait for and hold: its turn under `throttle`, and its seats under `concurrency`.
import type { AfterResponse } from '../core/ports/telemetry.ts';
import type { SeatHold } from '../limiter/ledger.ts';
import type { ProxyResult } from '../proxy/proxy.ts';

/** False if the client leaves during the wait. */
export function waitForTurn(ms: number, client: AbortSignal): Promise<boolean> {
  if (client.aborted) return Promise.resolve(false);
  if (ms <= 0) return Promise.resolve(true);
  return new Promise((resolve) => {
    const end = (isTurn: boolean) => {
      clearTimeout(timer);
      client.removeEventListener('abort', leave);
      resolve(isTurn);
    };
    const leave = () => end(false);
    const timer = setTimeout(() => end(true), ms);
    client.addEventListener('abort', leave);
  });
}

// A request holds its seats until the last byte of the answer, or until either side closes the WebSocket. Weir closes a
// connection that has lost its seat: somebody else has that seat.

/** The same answer; its seats are given back when it ends. */
export function holdWhileOpen(
  request: Pick<Request, 'method'>,
  { response, isRaw }: Extract<ProxyResult, { kind: 'answered' }>,
  held: SeatHold,
  afterResponse: AfterResponse,
): Response {
  if (response.webSocket) return bridge(response, response.webSocket, held, afterResponse);
  // Nobody reads the body of an answer to HEAD, so its end would never come.
  if (!response.body || request.method === 'HEAD') {
    afterResponse(held.end());
    return response;
  }
  // Only Workers have the faster one.
  const Passage = typeof IdentityTransformStream === 'undefined' ? TransformStream : IdentityTransformStream;
  const { readable, writable } = isRaw ? rawPassage(response.headers) : new Passage();
  const passed = isRaw ? rawAnswer(readable, response) : new Response(readable, withoutLength(response));
  // Last, because the body can be read once: if anything before fails, the client still gets the answer as it came.
  const passing = response.body.pipeTo(writable, { signal: held.lost }).catch(() => {});
  afterResponse(passing.finally(() => held.end()));
  return passed;
}

/** Keeps the length, because without one the client would get the body chunked. */
function rawPassage(headers: Headers) {
  const length = headers.get('Content-Length');
  const isKnown = length !== null && /^\d{1,15}$/.test(length);
  return isKnown ? new FixedLengthStream(Number(length)) : new IdentityTransformStream();
}

const rawAnswer = (body: ReadableStream, { status, statusText, headers }: Response) =>
  new Response(body, { status, statusText, headers, encodeBody: 'manual' });

/** The runtime encodes this body on the way out, so the Content-Length is wrong. */
function withoutLength(response: Response): Response {
  if (response.headers.has('Content-Encoding')) response.headers.delete('Content-Length');
  return response;
}

/** Weir terminates both sockets, because only then does it see which one closes. */
function bridge(
  response: Response,
  origin: WebSocket,
  held: SeatHold,
  afterResponse: AfterResponse,
): Response {
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

function closeWhenLost({ lost }: SeatHold, ...sockets: readonly WebSocket[]): Promise<void> {
  return new Promise((resolve) => {
    const closeAll = () => {
      for (const socket of sockets) close(socket, TRY_AGAIN_LATER, 'this connection has lost its seat');
      resolve();
    };
    if (lost.aborted) closeAll();
    else lost.addEventListener('abort', closeAll, { once: true });
  });
}

/** Passes messages on unchanged. Resolves when `from` has closed or failed and `to` is closed as well. */
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
/** Codes that a runtime reports itself ("no code", "broken connection"). No side may send them. */
const UNSENDABLE = [1005, 1006, 1015];

/** Closes with this code and reason, or with 1011 if the runtime refuses them: a socket without a seat must close. */
function close(socket: WebSocket, code: number, reason: string): void {
  const isClosed = attempt(() => (UNSENDABLE.includes(code) ? socket.close() : socket.close(code, reason)));
  if (!isClosed) attempt(() => socket.close(INTERNAL_ERROR));
}

/** False if it threw: the socket is closed already, or refuses the arguments. */
function attempt(action: () => void): boolean {
  try {
    action();
    return true;
  } catch {
    return false;
  }
}
