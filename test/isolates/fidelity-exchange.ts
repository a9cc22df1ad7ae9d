// One exchange over a plain socket, and what both ends saw, in a form that can be compared.
import { once } from 'node:events';
import { type ClientRequest, type IncomingMessage, request } from 'node:http';
import { buffer } from 'node:stream/consumers';
import type { Origin } from '../../local/origin.ts';
import {
  ADDED_FOR_THE_CLIENT,
  ADDED_FOR_THE_ORIGIN,
  NOT_FOR_THE_CLIENT,
  NOT_FOR_THE_ORIGIN,
  type Sent,
} from './fidelity-battery.ts';

export function open(
  url: string,
  path: string,
  { method, headers = [], body, chunked }: Sent,
): ClientRequest {
  const framing = chunked
    ? ['Transfer-Encoding', 'chunked']
    : body && ['Content-Length', String(body.length)];
  return request({
    ...{ host: new URL(url).hostname, port: new URL(url).port, path, method, agent: false },
    headers: ['Host', 'api.example.com', 'CF-Connecting-IP', '192.0.2.1', 'X-Weir-Region', 'us'].concat(
      headers,
      framing ?? [],
    ),
    maxHeaderSize: 64 * 1024,
  });
}

export async function answerTo(sent: ClientRequest): Promise<IncomingMessage> {
  const [response] = await once(sent, 'response');
  return response;
}

/** What the client got and what the origin saw, without the allowed differences. */
export async function exchange(origin: Origin, url: string, path: string, sent: Sent) {
  origin.requests.clear();
  const call = open(url, path, sent);
  call.end(sent.body);
  const response = await answerTo(call);
  const bytes = await buffer(response);
  const [seen] = origin.requests.entries;
  const { statusCode, statusMessage, rawHeaders } = response;
  const isEcho = response.headers['content-type'] === 'application/json';
  return {
    requests: origin.requests.total,
    seen: {
      method: seen?.method,
      path: seen?.path,
      bodyBytes: seen?.bodyBytes,
      headers: seenHeaders(seen?.headers ?? []),
    },
    status: [statusCode, statusMessage],
    headers: gotHeaders(pairsOf(rawHeaders), { isFramed: !isEcho && statusCode !== 304 }),
    body: isEcho && bytes.length > 0 ? withoutHeaders(bytes) : bytes.toString('latin1'),
  };
}

type Pairs = [string, string][];
/** All values of a name as one text, cookies in their order. RFC 9110 treats one line and several lines alike. */
type Comparable = Record<string, string>;

function pairsOf(raw: readonly string[]): Pairs {
  return raw.flatMap((text, i) =>
    i % 2 === 0 ? [[text.toLowerCase(), raw[i + 1] ?? ''] as [string, string]] : [],
  );
}

function comparable(pairs: Pairs): Comparable {
  const all: Comparable = {};
  for (const [name, value] of pairs) {
    const before = all[name];
    all[name] = before === undefined ? value : `${before}${name === 'set-cookie' ? '\n' : ', '}${value}`;
  }
  return all;
}

function seenHeaders(pairs: readonly (readonly [string, string])[]): Comparable {
  const lower = pairs.map(([name, value]): [string, string] => [name.toLowerCase(), value]);
  const kept = lower.filter(([name]) => ![...NOT_FOR_THE_ORIGIN, ...ADDED_FOR_THE_ORIGIN].includes(name));
  const headers = comparable(kept);
  // For some methods the runtime sends this explicitly.
  if (headers['content-length'] === '0') delete headers['content-length'];
  return headers;
}

function gotHeaders(pairs: Pairs, { isFramed }: { isFramed: boolean }): Comparable {
  const kept = pairs.filter(
    ([name]) => !NOT_FOR_THE_CLIENT.includes(name) && !ADDED_FOR_THE_CLIENT.test(name),
  );
  const headers = comparable(kept);
  // An echo is longer by the added headers. A 304 has no body, and the runtime leaves its length out.
  if (!isFramed) delete headers['content-length'];
  return headers;
}

function withoutHeaders(echo: Buffer) {
  const { headers: _, ...rest } = JSON.parse(echo.toString());
  return rest;
}
