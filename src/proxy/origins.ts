// Sends requests to origins. It combines the choice of the origin, the loop guard, the proxy and the health records.

import type { Caller } from '../core/matching/caller.ts';
import {
  hostOf,
  type Origin,
  type OriginRoute,
  parseOrigin,
  type ServiceBinding,
  strip,
} from '../core/matching/origin-routes.ts';
import type { SnapshotSource } from '../core/ports/snapshot-source.ts';
import type { ClientRequest } from '../http/client-request.ts';
import { attempt, reportBug } from '../http/guard.ts';
import type { Log } from '../http/log.ts';
import { createLoopGuard } from './loop-guard.ts';
import { createOriginHealth, type OriginReport } from './origin-health.ts';
import { type ProxyResult, proxy } from './proxy.ts';
import { type HeaderPolicy, HOP_HEADER, identityHeaders } from './request-headers.ts';

// Chooses the origin of a request (that of its route, or the default one) and the URL there.

export interface RoutedPath {
  /** The canonical path: the origin sees the path that the rules have matched. */
  readonly path: string;
  /** With its question mark, as the client sent it. */
  readonly query: string;
  /** Undefined: the request goes to the default origin. */
  readonly route: OriginRoute | undefined;
}

export interface OriginChoice {
  /** Undefined for the default origin. */
  readonly routeName: string | undefined;
  /** As the configuration or the route spells it. */
  readonly origin: string;
  readonly url: string;
  /** The network, or another Worker; undefined if that Worker is not bound. */
  readonly via: 'network' | ServiceBinding | undefined;
  readonly timeoutMs: number;
  /** The host that Cloudflare connects to, if the URL has the host that the origin should read. */
  readonly resolveOverride: string | undefined;
  readonly headers: Readonly<Record<string, string>> | undefined;
}

export interface OriginChooserOptions {
  /** ORIGIN_URL, for requests that no route takes. */
  readonly defaultOrigin: string;
  readonly timeoutMs: number;
  readonly service: (name: string) => ServiceBinding | undefined;
  /** Cloudflare can connect to another host than the URL names. The local runtime cannot. */
  readonly canOverrideHost: boolean;
}

export type ChooseOrigin = (requestUrl: string, asked: RoutedPath) => OriginChoice;

export function createOriginChooser(options: OriginChooserOptions): ChooseOrigin {
  const { defaultOrigin, timeoutMs, service, canOverrideHost } = options;
  const byDefault = readOrigin(defaultOrigin);
  const routed = createRouteReader();

  return (requestUrl, { path, query, route }) => {
    const origin = route ? routed(route) : byDefault;
    const toOrigin = route?.stripPrefix ? strip(path, route.stripPrefix) : path;
    const base = origin.kind === 'url' ? origin.url : baseOf(requestUrl);
    // Another Worker reads the host from the URL. Its binding says where it is.
    const isRenamed = route?.hostHeader && (canOverrideHost || origin.kind === 'service');
    const renamed = isRenamed ? withHost(base, route.hostHeader) : base;
    return {
      routeName: route?.name,
      origin: route?.origin ?? defaultOrigin,
      url: `${renamed}${toOrigin}${query}`,
      via: origin.kind === 'service' ? service(origin.name) : 'network',
      timeoutMs: route?.timeoutMs ?? timeoutMs,
      resolveOverride: isRenamed && origin.kind !== 'service' ? new URL(base).hostname : undefined,
      headers: route?.headers,
    };
  };
}

/** Parses the origin of a route once, not with each request. */
function createRouteReader(): (route: OriginRoute) => Origin {
  const read = new WeakMap<OriginRoute, Origin>();
  return (route) => {
    const known = read.get(route);
    if (known) return known;
    const origin = readOrigin(route.origin);
    read.set(route, origin);
    return origin;
  };
}

/** Cannot fail: the configuration or the publisher has checked the text. */
function readOrigin(text: string): Origin {
  const origin = parseOrigin(text);
  if (!origin) throw new Error('an origin that was checked cannot be read');
  return origin;
}

/** Scheme and host as the client wrote them. */
const baseOf = (requestUrl: string) => /^\w+:\/\/[^/?#]*/.exec(requestUrl)?.[0] ?? '';

/** The port stays. */
const withHost = (url: string, host: string) =>
  url.replace(/^(\w+:\/\/)(\[[^\]]*\]|[^/:]*)/, (_, scheme: string) => `${scheme}${host}`);

export interface ToOrigin extends RoutedPath {
  /** No other Weir has forwarded the request before. */
  readonly isFirst: boolean;
  readonly caller: Caller | undefined;
  /** How long the origin may still answer after the client has left. */
  readonly outlivesClientMs?: number | undefined;
}

export interface Origins {
  /** A 508 for a request that this Weir itself has sent, else undefined. */
  refuseLoop(request: Pick<Request, 'headers'>): Promise<Response | undefined>;
  /** The route that takes the request; undefined if none does. */
  routeOf(url: string, matchPath: string): OriginRoute | undefined;
  /** Whether the origin of the route, or the default one, is the zone's own. */
  isZone(route: OriginRoute | undefined): boolean;
  /** Sends the request to the origin of its route, or to the default one. */
  forward(request: ClientRequest, asked: ToOrigin): Promise<ProxyResult>;
  /** The default origin first, then those of all routes in force. */
  report(): readonly OriginReport[];
}

export interface OriginsOptions extends OriginChooserOptions {
  readonly snapshots: Pick<SnapshotSource, 'current'>;
  readonly headers: HeaderPolicy;
  /** The same in all isolates of this Weir, and in no other Weir. */
  readonly identity: string;
  readonly now: () => number;
  readonly log: Pick<Log, 'bug'>;
}

/** Stands for this Weir if it cannot name itself. It counts as one of the hops that a request may have. */
const NAMELESS_HOP = '0'.repeat(16);

/** See core/matching/origin-routes.ts. */
const ZONE = 'pass';

/** For metrics and logs. `default`: no route takes the request. */
export const nameOfRoute = (route: OriginRoute | undefined): string => route?.name ?? 'default';

export function createOrigins(given: OriginsOptions): Origins {
  const { snapshots, headers, identity, now, log, ...options } = given;
  const routes = () => snapshots.current()?.routes;
  const choose = createOriginChooser(options);
  const health = createOriginHealth(now);
  const loops = createLoopGuard(identity);

  const send = (
    request: ClientRequest,
    { caller, outlivesClientMs }: ToOrigin,
    choice: OriginChoice,
    hop: string,
  ): Promise<ProxyResult> => {
    const target = {
      url: choice.url,
      via: choice.via,
      timeoutMs: choice.timeoutMs,
      resolveOverride: choice.resolveOverride,
      headers: choice.headers,
      outlivesClientMs,
      policy: headers,
      identity: attempt(log, identityOf, caller),
      hop,
      health: attempt(log, health.of, choice),
      log,
    };
    return proxy(request, target);
  };

  const identityOf = (caller: Caller | undefined) =>
    identityHeaders(caller, caller && (caller.tier ?? snapshots.current()?.tierOf(caller)));

  const namelessHop = ({ headers }: ClientRequest, isFirst: boolean) =>
    isFirst ? NAMELESS_HOP : `${headers.get(HOP_HEADER)}, ${NAMELESS_HOP}`;

  return {
    refuseLoop: loops.refuse,
    // Without routes, this does not parse the URL.
    isZone: (route) => (route?.origin ?? options.defaultOrigin) === ZONE,
    routeOf: (url, matchPath) => routes()?.find(hostOf(url), matchPath),
    forward(request, asked) {
      const choice = choose(request.url, asked);
      const hop = attempt(log, loops.mark, request, asked.isFirst) ?? namelessHop(request, asked.isFirst);
      if (typeof hop === 'string') return send(request, asked, choice, hop);
      const named = hop.catch((error: unknown) => {
        reportBug(log, error);
        return namelessHop(request, asked.isFirst);
      });
      return named.then((made) => send(request, asked, choice, made));
    },
    report: () => [
      health.report({ routeName: undefined, origin: options.defaultOrigin }),
      ...(routes()?.all ?? []).map(({ name, origin }) => health.report({ routeName: name, origin })),
    ],
  };
}
