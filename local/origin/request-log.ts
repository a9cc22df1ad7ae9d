// A bounded log of what the demo origin saw. Tests read it to learn which requests arrived and how they ended.
import type { IncomingMessage } from 'node:http';
import type { HeaderPair } from './switches.ts';

export interface OriginRequest {
  method: string;
  /** The path as received, with its query. */
  path: string;
  headers: HeaderPair[];
  websocket: boolean;
  /** Grows while the body arrives, so that a test can see an upload being streamed. */
  bodyBytes: number;
  /** Body bytes handed to the connection so far, before gzip. The number stalls when the client stops reading. */
  sentBytes: number;
  state: 'open' | 'finished' | 'aborted';
}

export interface RequestLog {
  /** Requests and WebSockets seen since the start or the last `clear`. */
  readonly total: number;
  /** How many of them are still in progress. */
  readonly open: number;
  /** The latest 1000, oldest first. */
  readonly entries: readonly OriginRequest[];
  clear(): void;
}

export interface RequestRecorder extends RequestLog {
  begin(request: IncomingMessage, options: { websocket: boolean }): OriginRequest;
  end(entry: OriginRequest, state: 'finished' | 'aborted'): void;
}

const KEPT_ENTRIES = 1000;

export function createRequestLog(): RequestRecorder {
  const entries: OriginRequest[] = [];
  let total = 0;
  let open = 0;
  return {
    entries,
    get total() {
      return total;
    },
    get open() {
      return open;
    },
    clear() {
      entries.length = 0;
      total = 0;
    },
    begin(request, { websocket }) {
      const entry: OriginRequest = {
        ...describe(request),
        websocket,
        bodyBytes: 0,
        sentBytes: 0,
        state: 'open',
      };
      entries.push(entry);
      if (entries.length > KEPT_ENTRIES) entries.shift();
      total++;
      open++;
      return entry;
    },
    end(entry, state) {
      if (entry.state === 'open') open--;
      entry.state = state;
    },
  };
}

function describe(request: IncomingMessage): Pick<OriginRequest, 'method' | 'path' | 'headers'> {
  return { method: request.method ?? '', path: request.url ?? '', headers: headerPairs(request.rawHeaders) };
}

function headerPairs(rawHeaders: string[]): HeaderPair[] {
  const pairs: HeaderPair[] = [];
  for (let i = 0; i + 1 < rawHeaders.length; i += 2)
    pairs.push([rawHeaders[i] ?? '', rawHeaders[i + 1] ?? '']);
  return pairs;
}
