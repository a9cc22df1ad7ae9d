// Leases last as long as what they are for: until the last byte of an answer, or until a WebSocket is closed from
// either side. While it is open they are renewed; if the Worker dies they expire.
import type { Charges } from '../limiter/charges.ts';

/** The answer, which gives its leases back when it is over. */
export function holdWhileOpen(response: Response, charges: Charges, afterResponse: AfterResponse): Response {
  if (charges.leaseMs === undefined) return response;
  const held = keepRenewed(charges, charges.leaseMs);
  if (response.webSocket) return bridge(response, response.webSocket, held, afterResponse);
  if (!response.body) {
    afterResponse(held.end());
    return response;
  }
  const { status, statusText, headers } = response;
  const length = headers.get('Content-Length');
  // Of a known length, or the client would get it chunked.
  const { readable, writable } =
    length === null ? new IdentityTransformStream() : new FixedLengthStream(BigInt(length));
  afterResponse(
    response.body
      .pipeTo(writable)
      .catch(() => {})
      .finally(() => held.end()),
  );
  return new Response(readable, { status, statusText, headers, encodeBody: 'manual' });
}

type AfterResponse = (work: Promise<unknown>) => void;

interface Held {
  /** Resolves when everything has been given back. */
  end(): Promise<void>;
}

/** Renewed three times within their lifetime, so that one failure does not lose them. */
function keepRenewed(charges: Charges, leaseMs: number): Held {
  const timer = setInterval(() => void charges.renew(), Math.ceil(leaseMs / 3));
  let isOver = false;
  return {
    async end() {
      if (isOver) return;
      isOver = true;
      clearInterval(timer);
      await charges.release();
    },
  };
}

/** Both sides end here, because only then it is known when one of them closes. */
function bridge(response: Response, origin: WebSocket, held: Held, afterResponse: AfterResponse): Response {
  const { 0: client, 1: server } = new WebSocketPair();
  origin.accept();
  server.accept();
  const over = Promise.race([passOn(origin, server), passOn(server, origin)]);
  afterResponse(over.finally(() => held.end()));
  return new Response(null, { status: 101, headers: response.headers, webSocket: client });
}

/** Messages as they are; resolves when `from` has closed or failed, and `to` has been told. */
function passOn(from: WebSocket, to: WebSocket): Promise<void> {
  from.addEventListener('message', ({ data }) => send(to, data));
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

function send(socket: WebSocket, data: string | ArrayBuffer): void {
  try {
    socket.send(data);
  } catch {
    // It is closed already.
  }
}

const INTERNAL_ERROR = 1011;
/** Codes that say that there was none, or that the connection broke: nobody may send them. */
const UNSENDABLE = [1005, 1006, 1015];

function close(socket: WebSocket, code: number, reason: string): void {
  try {
    if (UNSENDABLE.includes(code)) socket.close();
    else socket.close(code, reason);
  } catch {
    // It is closed already.
  }
}
