// The front door. Weir answers its own routes under /_weir. Every other request gets its one canonical path and goes to
// the gateway.
import { type Context, type ExecutionContext, Hono } from 'hono';
import { hostOf } from '../core/matching/origin-routes.ts';
import { canonicalPath } from '../core/matching/path.ts';
import { isOwnPath, OWN_PREFIX } from '../core/matching/resource.ts';
import { nearestRegion, type RequestOrigin, routesFrom, type ServingPlace } from '../core/regions/nearest.ts';
import { isRecent } from '../core/time.ts';
import { attemptLater, readClientRequest, reportBug, runAfterResponse } from '../http/guard.ts';
import { problem } from '../http/problem.ts';
import type { LimiterRegion, Regions } from '../limiter/region.ts';
import { HOP_HEADER } from '../proxy/headers.ts';
import { type GatewayRequest, handleGateway, passUncounted } from './gateway.ts';
import { createInternalRoutes, nothingHere } from './internal-routes.ts';
import { ambiguousPath, unknownRegion } from './refusals.ts';
import type { AppBehind, Services } from './services.ts';

export interface App {
  fetch(request: Request, context: ExecutionContext, behind?: AppBehind): Response | Promise<Response>;
}

type Env = { Bindings: AppBehind };
const NOTHING_BEHIND: AppBehind = {};

export function createApp(services: Services): App {
  // Routes match the path as the client spelled it, because ids in it may be in upper case. Other spellings of Weir's
  // own paths match no route.
  const app = new Hono<Env>({ getPath: ({ url }) => pathnameOf(url) });
  app.route(OWN_PREFIX, createInternalRoutes(services));
  app.all('*', (c) => {
    let asked: GatewayRequest | Response;
    try {
      asked = readRequest(services, c);
    } catch (error) {
      reportBug(services.log, error);
      return passPlainly(services, c.req.raw, c.env.next);
    }
    if (asked instanceof Response) return asked;
    return c.env.named ? decideNamed(asked, c.env.named) : decide(asked);
  });
  app.onError((error, c) => {
    // A request to Weir itself must never reach an origin, nor an app that Weir is the middleware of.
    if (!isOwnPath(pathnameOf(c.req.url).toLowerCase())) throw error;
    reportBug(services.log, error);
    return somethingWrong();
  });
  return { fetch: (request, context, behind = NOTHING_BEHIND) => app.fetch(request, behind, context) };
}

const decide = (asked: GatewayRequest): Promise<Response> =>
  asked.isFirst ? handleGateway(asked) : unlessLoop(asked);

/** Asks the app who calls, before the time of the decision begins. */
const decideNamed = async (
  asked: GatewayRequest,
  named: NonNullable<AppBehind['named']>,
): Promise<Response> => decide({ ...asked, request: await named(asked.request) });

/** For a request that a Weir has forwarded: refuses the request if it runs in a loop. */
async function unlessLoop(asked: GatewayRequest): Promise<Response> {
  const { log, origins } = asked.services;
  return (await attemptLater(log, origins.refuseLoop, asked.request)) ?? handleGateway(asked);
}

/** What the gateway needs to know of a request, or the answer to a request that it must not get. */
function readRequest(services: Services, c: Context<Env>): GatewayRequest | Response {
  const request = readClientRequest(c.req.raw);
  const { adminHost } = services;
  // A proxied page on this host could act as the person at the page of Weir.
  if (adminHost !== undefined && hostOf(request.url) === adminHost) return nothingHere();
  const canonical = canonicalPath(c.req.path);
  if (!canonical.ok) return ambiguousPath(canonical.reason);
  const { path, matchPath } = canonical;
  if (isOwnPath(matchPath)) return nothingHere();
  const regions = services.regionsOf(request.raw);
  if (!regions) return unknownRegion(services.regions);
  return {
    services,
    request,
    path,
    matchPath,
    query: queryOf(request.url),
    isFirst: !request.headers.has(HOP_HEADER),
    regions,
    afterResponse: (work) => runAfterResponse(services.log, c, work),
    passThrough: () => c.executionCtx.passThroughOnException(),
    next: c.env.next,
  };
}

/** Passes a request on that a bug keeps from the gateway. */
export function passPlainly(
  services: Pick<Services, 'log' | 'origins' | 'adminHost'>,
  raw: Request,
  next?: AppBehind['next'],
): Response | Promise<Response> {
  const { url, method, headers } = raw;
  // Not by `readClientRequest`, because it may be what has failed.
  const request = { raw, url, method, headers, connectingIp: headers.get('CF-Connecting-IP') };
  if (isForWeir(url, services.adminHost)) return somethingWrong();
  const path = pathnameOf(url);
  const matchPath = path.toLowerCase();
  const isFirst = !headers.has(HOP_HEADER);
  return passUncounted({ services, request, path, matchPath, query: queryOf(url), isFirst, next });
}

/** Nothing on the host of the page is ever proxied. Other spellings of Weir's own paths may come with its secrets. */
export function isForWeir(url: string, adminHost: string | undefined): boolean {
  const { hostname, pathname } = new URL(url);
  const isAtPage = adminHost !== undefined && hostname.replace(/\.+$/, '') === adminHost.toLowerCase();
  return isAtPage || pathname.toLowerCase().startsWith(OWN_PREFIX);
}

const somethingWrong = () =>
  problem({ status: 500, code: 'internal-error', title: 'Something in Weir is wrong' });

/** The runtime has normalised the URL, so the path is the text between host and query. */
function pathnameOf(url: string): string {
  const start = url.indexOf('/', url.indexOf('://') + 3);
  return url.slice(start, Math.min(endAt(url, '?'), endAt(url, '#')));
}

/** The query as the client sent it. `URL` would drop a question mark at the very end. */
const queryOf = (url: string): string => url.slice(endAt(url, '?'), endAt(url, '#'));

/** Where the part before `mark` ends. */
function endAt(url: string, mark: '?' | '#'): number {
  const at = url.indexOf(mark);
  return at === -1 ? url.length : at;
}

// The regions of a request, nearest first.

type ServedRegion = LimiterRegion & ServingPlace;

/** How long an isolate reuses the location of one request. */
const LOOK_EVERY_MS = 1_000;

/**
 * The nearest region of a request, then the others by their distance to it. Reading `cf` makes the runtime parse it, so
 * the isolate reads it rarely: never with one region, and otherwise once a second, because an isolate stays in its data
 * centre. If a region serves countries or continents, the isolate reads it for every request.
 */
export function createNearestRegions(
  regions: readonly [ServedRegion, ...ServedRegion[]],
  { isDevelopment, now }: { readonly isDevelopment: boolean; readonly now: () => number },
): Services['regionsOf'] {
  const routes = routesFrom(regions);
  const nearestTo = ({ cf }: Request) =>
    routes.get(
      regions.length === 1 ? regions[0].name : nearestRegion(regions, (cf ?? {}) as RequestOrigin).name,
    );
  const isByClient = regions.some(({ serves = [] }) => serves.some((place) => !place.startsWith('colo:')));
  let nearest: Regions | undefined;
  let lookedAtMs = Number.NEGATIVE_INFINITY;
  return (request) => {
    if (!request) return nearest ?? routes.get(regions[0].name);
    const played = isDevelopment ? request.headers.get('X-Weir-Region') : null;
    if (played !== null) return routes.get(played);
    if (isByClient) return nearestTo(request);
    if (!nearest || !isRecent(lookedAtMs, now(), LOOK_EVERY_MS)) {
      nearest = nearestTo(request);
      lookedAtMs = now();
    }
    return nearest;
  };
}
