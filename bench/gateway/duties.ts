// The duties of Weir's gateway besides limiting, written by hand and as short as possible: clean headers both ways, the
// client's address, a deadline for the origin, a client that leaves.
import type { ProxyEnv } from './to-origin.ts';

const ORIGIN_TIMEOUT_MS = 100_000;

const HOP_BY_HOP = new Set([
  'connection',
  'expect',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);
const OVERRIDES = new Set([
  'x-http-method',
  'x-http-method-override',
  'x-method-override',
  'x-original-url',
  'x-rewrite-url',
]);

export async function askOrigin(request: Request, { ORIGIN_URL }: ProxyEnv): Promise<Response | undefined> {
  const { pathname, search, protocol, host } = new URL(request.url);
  const controller = new AbortController();
  const end = () => controller.abort();
  const timer = setTimeout(end, ORIGIN_TIMEOUT_MS);
  request.signal.addEventListener('abort', end, { once: true });
  try {
    return await fetch(`${ORIGIN_URL}${pathname}${search}`, {
      method: request.method,
      headers: toOriginHeaders(request, protocol, host),
      body: request.body,
      redirect: 'manual',
      signal: controller.signal,
      // Only Workers have this option. It passes a compressed body through unchanged.
      encodeResponseBody: 'manual',
    } as RequestInit);
  } catch {
    return undefined;
  } finally {
    clearTimeout(timer);
  }
}

function toOriginHeaders({ headers: sent }: Request, protocol: string, host: string): Headers {
  const headers = new Headers(sent);
  const named = namedIn(sent);
  for (const name of sent.keys())
    if (HOP_BY_HOP.has(name) || named.has(name) || OVERRIDES.has(name) || name.startsWith('x-weir-'))
      headers.delete(name);
  const ip = sent.get('CF-Connecting-IP') ?? '';
  const path = sent.get('X-Forwarded-For');
  headers.set('X-Forwarded-For', path === null ? ip : `${path}, ${ip}`);
  headers.set('X-Forwarded-Proto', protocol.slice(0, -1));
  headers.set('X-Forwarded-Host', host);
  headers.delete('Host');
  return headers;
}

/** `setLimitHeaders` adds the headers of a limiter. */
export function toClient(
  answer: Response | undefined,
  setLimitHeaders: (headers: Headers) => void,
): Response {
  if (!answer) return new Response('no answer', { status: 502 });
  const { status, statusText, body } = answer;
  const response = new Response(body, {
    status,
    statusText,
    headers: answer.headers,
    encodeBody: 'manual',
  } as ResponseInit);
  const { headers } = response;
  const named = namedIn(headers);
  for (const [name, value] of answer.headers) {
    if (HOP_BY_HOP.has(name) || named.has(name)) headers.delete(name);
    if (!name.startsWith('x-ratelimit-') && !name.startsWith('ratelimit')) continue;
    headers.delete(name);
    headers.append(`x-origin-${name.replace(/^x-/, '')}`, value);
  }
  setLimitHeaders(headers);
  return response;
}

const NONE: ReadonlySet<string> = new Set();

function namedIn(headers: Headers): ReadonlySet<string> {
  const connection = headers.get('Connection');
  return connection === null ? NONE : new Set(connection.split(',').map((name) => name.trim().toLowerCase()));
}
