// Weir without a framework. `fetch` is for a plain Worker, and for whatever else answers a `Request` with a `Response`;
// `node` is for node:http, Express and all that hands requests on in their way. Both are the same Weir as weir/hono: see
// docs/library.md.
//
// Outside of Cloudflare anybody can send `CF-Connecting-IP`. So there Weir sees a copy of the request, in which this
// header is the address that the code names, or is missing.
import type { CodeChecks, RequestWeir } from './checks/call.ts';
import { ConfigError, type LibraryOptions } from './config/config.ts';
import type { LibraryBindings } from './config/variables.ts';
import type { CallerAnswer } from './core/matching/caller.ts';
import { canonicalPath } from './core/matching/path.ts';
import { isOwnPath } from './core/matching/resource.ts';
import { ambiguousPath, notConfigured } from './gateway/refusals.ts';
import { problem } from './http/problem.ts';
import { isHopByHop } from './proxy/headers.ts';
import type { QueuedBatch } from './telemetry/flush.ts';
import { isolateWithPostgres, libraryOf } from './wiring/library.ts';

export type { TierInCode, WrittenRule } from './authoring/written-rule.ts';
export type {
  CheckAnswer,
  CheckCall,
  CheckInput,
  CheckOutcome,
  CodeChecks,
  RequestWeir,
  SettleAnswer,
} from './checks/call.ts';
export type { LibraryOptions, LibraryRegion } from './config/config.ts';
export type { LibraryBindings } from './config/variables.ts';
export type { AppCaller, Caller, CallerAnswer } from './core/matching/caller.ts';

export interface FetchOptions {
  /**
   * Who calls, if the app authenticates its callers itself: asked once for each request that Weir limits. Do not read the
   * body of this request.
   */
  readonly caller?: (request: Request) => CallerAnswer;
}

/** The context of a Worker. Elsewhere: what the server knows of a request. */
export interface FetchContext {
  waitUntil?(work: Promise<unknown>): void;
  /** The address of the client. Outside of Cloudflare it must be there; undefined: not known. */
  readonly address?: string | undefined;
}

export interface FetchWeir<Env extends object> {
  /** Calls `handler` if Weir admits the request. */
  fetch(
    request: Request,
    env: Env,
    context: FetchContext,
    handler: (weir: RequestWeir) => Response | Promise<Response>,
  ): Promise<Response>;
  /** Middleware for node:http, Express and the like. */
  node<R extends NodeRequest>(options?: NodeOptions<R, Env>): NodeMiddleware<R>;
  /** What `fetch` hands to its handler, for a request that `node` has admitted. */
  of(request: object): RequestWeir;
  /** Checks outside of requests: of a queue, or of a cron job. */
  checks(env: Env, context?: FetchContext): CodeChecks;
  /** Resolves when no work that follows answers is left. For the end of a process. */
  idle(): Promise<void>;
}

export interface NodeOptions<R, Env extends object> {
  /**
   * Where the client's address comes from, if not from the socket: the name of a header that your own proxy always sets
   * (of a list, its last address counts), or a function.
   */
  readonly address?: string | ((request: R) => string | undefined);
  /** If left out, the `caller` of `createWeir` gets a `Request` without a body. */
  readonly caller?: (request: R) => CallerAnswer;
  /** Weir's variables. If left out: `process.env`. */
  readonly env?: Env;
}

/** The parts of an `http.IncomingMessage` that Weir needs. */
export interface NodeRequest extends AsyncIterable<unknown> {
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly socket: { readonly remoteAddress?: string | undefined };
}

/** The parts of an `http.ServerResponse` that Weir needs. */
export interface NodeResponse {
  statusCode: number;
  writeHead(status: number, ...rest: unknown[]): unknown;
  getHeaders(): Readonly<Record<string, unknown>>;
  setHeader(name: string, value: string): unknown;
  appendHeader(name: string, value: string): unknown;
  removeHeader(name: string): unknown;
  end(body: Uint8Array): unknown;
  destroy(): unknown;
  on(name: 'close', listener: () => void): unknown;
}

/** `next` is called without arguments, and only if Weir admits the request. */
export type NodeMiddleware<R> = (request: R, response: NodeResponse, next: () => unknown) => Promise<void>;

/** With regions and rules, rules are in code and only Redis is needed. Without them, rules are in Postgres. */
export function createWeir(options?: FetchOptions): FetchWeir<LibraryBindings>;
export function createWeir<Env extends object = object>(
  options: FetchOptions & LibraryOptions<Env>,
): FetchWeir<Env>;
export function createWeir<Env extends object>(
  options: FetchOptions & Partial<LibraryOptions<Env>> = {},
): FetchWeir<Env> {
  const library = libraryOf(options);
  const pending = new Set<Promise<unknown>>();
  const keep = (work: Promise<unknown>) => {
    const kept = work.then(nothing, nothing).finally(() => pending.delete(kept));
    pending.add(kept);
  };
  const contextOf = (given: FetchContext = {}) => ({
    waitUntil: (work: Promise<unknown>) => (given.waitUntil ? given.waitUntil(work) : keep(work)),
    passThroughOnException: nothing,
    props: {},
  });
  const callerOf = (request: Request) => options.caller && (() => options.caller?.(request));
  const weirs = new WeakMap<object, RequestWeir>();

  return {
    async fetch(request, env, context, handler) {
      try {
        const seen = asSeen(request, context);
        return await library.answer(env, {
          request: seen,
          context: contextOf(context),
          handlers: async (weir) => handler(weir),
          whoCalls: callerOf(request),
        });
      } catch (error) {
        return toAnswer(error);
      }
    },

    node({ address, caller, env = processEnv() as Env } = {}) {
      return async (request, response, next) => {
        const left = new AbortController();
        const closed = left.signal;
        response.on('close', () => left.abort());
        const seen = readNodeRequest(request, addressIn(request, address), closed);
        if (seen instanceof Response) return write(seen, response);
        const app: { running?: Promise<unknown> } = {};
        const handlers = (weir: RequestWeir, setHeaders: (headers: Headers) => void) => {
          weirs.set(request, weir);
          const head = headOf(response, closed, setHeaders);
          app.running = (async () => next())();
          // If the app throws before it answers, the request is over.
          return Promise.race([head, app.running.then(() => head)]);
        };
        const whoCalls = caller ? () => caller(request) : callerOf(seen);
        const context = contextOf();
        const asked = { request: seen, context, handlers, whoCalls };
        const answer = await library.answer(env, asked).catch(toAnswer);
        if (!app.running) return write(answer, response);
        // Seats are held until the end of this body, which is that of the response.
        if (answer.body) keep(answer.body.pipeTo(new WritableStream()));
        await app.running;
      };
    },

    of(request) {
      const weir = weirs.get(request);
      if (!weir) throw new Error('Weir has not admitted this request');
      return weir;
    },
    checks: (env, context) => library.checks(env, { context: contextOf(context) }),
    async idle() {
      while (pending.size > 0) await Promise.all(pending);
    },
  };
}

/** For the queue of denials and usage, if a Worker has one. */
export async function queue(batch: QueuedBatch, env: LibraryBindings): Promise<void> {
  await isolateWithPostgres(env).consume(batch);
}

/** For the cron trigger of a Worker, once a minute. */
export async function scheduled(
  controller: { readonly scheduledTime: number },
  env: LibraryBindings,
): Promise<void> {
  await isolateWithPostgres(env).runCron(controller.scheduledTime);
}

const nothing = () => {};

/** No request passes until the configuration is right. All other errors are those of the app. */
function toAnswer(error: unknown): Response {
  if (error instanceof ConfigError) return notConfigured(error);
  throw error;
}

// The request as Weir sees it.

const ADDRESS_HEADER = 'CF-Connecting-IP';

const isOnCloudflare = () => typeof navigator !== 'undefined' && navigator.userAgent === 'Cloudflare-Workers';

function asSeen(request: Request, context: FetchContext = {}): Request {
  if ('address' in context) {
    const { url, method, headers, signal } = request;
    const body = isOwnPath(new URL(url).pathname.toLowerCase()) ? request.body : null;
    return createSeen(url, { method, headers: new Headers(headers), signal, body }, context.address);
  }
  if (isOnCloudflare()) return request;
  throw new ConfigError([
    {
      pointer: 'address',
      detail: 'is missing: outside of Cloudflare, pass the address of the client as the third argument',
    },
  ]);
}

type SeenInit = Pick<Request, 'method' | 'headers' | 'signal' | 'body'>;

/** Weir reads the body only of requests to itself, and leaves all others to the app. */
function createSeen(url: string, { headers, ...init }: SeenInit, address: string | undefined): Request {
  if (address === undefined) headers.delete(ADDRESS_HEADER);
  else headers.set(ADDRESS_HEADER, address);
  // Node demands `duplex` beside a stream. Not all types know it.
  return new Request(url, { ...init, headers, ...(init.body && { duplex: 'half' }) } as RequestInit);
}

// node:http.

const processEnv = (): object =>
  (globalThis as { readonly process?: { readonly env: object } }).process?.env ?? {};

/** A proxy appends the address that it sees, so whatever the client has sent comes before it. */
function addressIn<R extends NodeRequest>(
  request: R,
  from: string | ((request: R) => string | undefined) | undefined,
): string | undefined {
  if (typeof from === 'function') return from(request);
  const named = from === undefined ? undefined : request.headers[from.toLowerCase()];
  return named?.toString().split(',').at(-1)?.trim() ?? request.socket.remoteAddress;
}

/** The URLs of a Worker are resolved, and end before a `#`. What Node sends to its app is not. */
const UNRESOLVED = /^[^/]|\/(?:\.|%2e){1,2}(?:\/|$)|#/i;
/** No `Request` can have these methods. Node passes TRACE on. */
const NO_REQUEST = /^(?:CONNECT|TRACE|TRACK)$/i;
const NOT_READ = { status: 405, code: 'method-not-allowed', title: 'Weir lets no such method pass' };

/** Where the path begins in a target that names a host, as clients send it to proxies. */
const HOST_IN_TARGET = /^https?:\/\/[^/?#]*/i;

/**
 * `Request` would resolve dots, and turn backslashes into slashes. Node and Express do not, so the path is refused
 * before, as it was sent, if it can be read in two ways.
 */
function readNodeRequest(
  request: NodeRequest & { readonly originalUrl?: string },
  address: string | undefined,
  signal: AbortSignal,
): Request | Response {
  const { method = 'GET', headers: sent } = request;
  if (NO_REQUEST.test(method)) return problem(NOT_READ);
  const target = (request.originalUrl ?? request.url ?? '/').replace(HOST_IN_TARGET, '') || '/';
  const path = target.split('?', 1)[0] ?? '';
  if (UNRESOLVED.test(path))
    return ambiguousPath('a path begins with a slash, and has no # and no names of dots');
  const canonical = canonicalPath(path);
  if (!canonical.ok) return ambiguousPath(canonical.reason);
  const headers = new Headers();
  for (const [name, value] of Object.entries(sent))
    if (value !== undefined && !name.startsWith(':')) headers.set(name, value.toString());
  const named = `http://${sent['host'] ?? sent[':authority']}${target}`;
  const url = URL.canParse(named) ? named : `http://localhost${target}`;
  const hasBody = method !== 'GET' && method !== 'HEAD' && isOwnPath(canonical.matchPath);
  const init = { method, headers, signal, body: hasBody ? bodyOf(request) : null };
  return createSeen(url, init, address);
}

function bodyOf(request: NodeRequest): ReadableStream {
  const chunks = request[Symbol.asyncIterator]();
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await chunks.next();
      if (done) controller.close();
      else controller.enqueue(value);
    },
  });
}

async function write(answer: Response, response: NodeResponse): Promise<void> {
  const body = new Uint8Array(await answer.arrayBuffer());
  for (const [name, value] of answer.headers) response.setHeader(name, value);
  response.statusCode = answer.status;
  response.end(body);
}

const NULL_BODY_STATUSES = [204, 205, 304];

/**
 * The answer of the app, at the moment when it sends the head. The head gets the headers of the decision. The answer has
 * a body without bytes, which ends with that of the response.
 */
function headOf(
  response: NodeResponse,
  closed: AbortSignal,
  setHeaders: (headers: Headers) => void,
): Promise<Response> {
  const { writeHead } = response;
  return new Promise((resolve) => {
    closed.addEventListener('abort', () => resolve(new Response(null, { status: 499 })));
    response.writeHead = (status, ...rest) => {
      const [message] = rest;
      addHeaders(response, rest.at(-1));
      const headers = headersOf(response);
      const isBodiless = NULL_BODY_STATUSES.includes(status);
      const known = status >= 200 && status <= 599 ? status : 500;
      resolve(new Response(isBodiless ? null : untilClosed(response, closed), { status: known, headers }));
      correct(response, headers, setHeaders);
      response.writeHead = writeHead;
      return typeof message === 'string'
        ? writeHead.call(response, status, message)
        : writeHead.call(response, status);
    };
  });
}

/** `writeHead` takes an object, or a list in which names and values alternate. */
function addHeaders(response: NodeResponse, given: unknown): void {
  if (typeof given !== 'object' || given === null) return;
  const isPlainList = Array.isArray(given) && !Array.isArray(given[0]);
  const listed: unknown[] = isPlainList
    ? given
    : (Array.isArray(given) ? given : Object.entries(given)).flat();
  const names = listed.filter((_, i) => i % 2 === 0).map(String);
  for (const name of names) response.removeHeader(name);
  names.forEach((name, i) => {
    response.appendHeader(name, listed[2 * i + 1] as string);
  });
}

function headersOf(response: NodeResponse): Headers {
  const headers = new Headers();
  for (const [name, value] of Object.entries(response.getHeaders()))
    for (const one of Array.isArray(value) ? value : [value]) headers.append(name, String(one));
  return headers;
}

/** Brings the head to what Weir makes of it. Headers of the connection are between Node and the client. */
function correct(response: NodeResponse, before: Headers, setHeaders: (headers: Headers) => void): void {
  const after = new Headers(before);
  setHeaders(after);
  for (const name of before.keys()) if (!after.has(name) && !isHopByHop(name)) response.removeHeader(name);
  for (const [name, value] of after)
    if (name !== 'set-cookie' && before.get(name) !== value) response.setHeader(name, value);
}

/** A response that has lost its seat must end. */
function untilClosed(response: NodeResponse, closed: AbortSignal): ReadableStream {
  let isLost = false;
  return new ReadableStream({
    start(controller) {
      closed.addEventListener('abort', () => isLost || controller.close());
    },
    cancel() {
      isLost = true;
      response.destroy();
    },
  });
}
