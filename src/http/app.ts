// The front door. Weir answers its own routes under /_weir. Every other request gets its one canonical path and goes to
// the gateway.
import { type Context, type ExecutionContext, Hono } from 'hono';
import { canonicalPath } from '../core/matching/canonical-path.ts';
import { hostOf } from '../core/matching/origin-routes.ts';
import { isOwnPath, OWN_PREFIX } from '../core/matching/resource.ts';
import { problem } from '../core/problem.ts';
import { type ClientRequest, readClientRequest } from './client-request.ts';
import { type GatewayRequest, handleGateway } from './gateway.ts';
import { createOwnRoutes, nothingHere } from './own-routes.ts';
import { HOP_HEADER } from './proxy/headers.ts';
import { unknownRegion } from './refusals.ts';
import type { Services } from './services.ts';

export interface App {
  /** `next` replaces the origin: the middleware passes requests on to its own app. */
  fetch(request: Request, context: ExecutionContext, next?: Next): Response | Promise<Response>;
}

type Next = GatewayRequest['next'];
type Env = { Bindings: { readonly next: Next } };

export function createApp(services: Services): App {
  // Routes match the path as the client spelled it, because ids in it may be in upper case. Other spellings of Weir's
  // own paths match no route.
  const app = new Hono<Env>({ getPath: ({ url }) => pathnameOf(url) });
  const { adminHost } = services;
  app.route(OWN_PREFIX, createOwnRoutes(services));
  app.all('*', (c) => {
    const request = readClientRequest(c.req.raw);
    // A proxied page on this host could act as the person at the page of Weir.
    if (adminHost !== undefined && hostOf(request.url) === adminHost) return nothingHere();
    return request.headers.has(HOP_HEADER)
      ? unlessLoop(services, c, request)
      : throughGateway(services, c, request, true);
  });
  app.onError((error) => {
    throw error;
  });
  return { fetch: (request, context, next) => app.fetch(request, { next }, context) };
}

/** For a request that a Weir has forwarded: refuses the request if it runs in a loop. */
async function unlessLoop(services: Services, c: Context<Env>, request: ClientRequest): Promise<Response> {
  return (await services.origins.refuseLoop(request)) ?? throughGateway(services, c, request, false);
}

function throughGateway(
  services: Services,
  c: Context<Env>,
  request: ClientRequest,
  isFirst: boolean,
): Response | Promise<Response> {
  const canonical = canonicalPath(c.req.path);
  if (!canonical.ok)
    return problem({ status: 400, code: 'bad-path', title: 'Ambiguous path', detail: canonical.reason });
  const { path, matchPath } = canonical;
  if (isOwnPath(matchPath)) return nothingHere();
  const regions = services.regionsOf(request.raw);
  if (!regions) return unknownRegion(services.regions);
  return handleGateway(services, {
    request,
    path,
    matchPath,
    query: queryOf(request.url),
    isFirst,
    regions,
    afterResponse: (work) => c.executionCtx.waitUntil(work),
    next: c.env.next,
  });
}

/** The runtime has normalised the URL, so the path is the text between host and query. */
function pathnameOf(url: string): string {
  const start = url.indexOf('/', url.indexOf('://') + 3);
  if (start === -1) return '/';
  const end = firstOf(url.indexOf('?', start), url.indexOf('#', start));
  return end === undefined ? url.slice(start) : url.slice(start, end);
}

const firstOf = (a: number, b: number): number | undefined =>
  a === -1 ? (b === -1 ? undefined : b) : b === -1 ? a : Math.min(a, b);

/** The query as the client sent it. `URL` would drop a question mark at the very end. */
function queryOf(url: string): string {
  const start = url.indexOf('?');
  if (start === -1) return '';
  const end = url.indexOf('#', start);
  return end === -1 ? url.slice(start) : url.slice(start, end);
}
