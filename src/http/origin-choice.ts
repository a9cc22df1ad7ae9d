// Which origin a request goes to: that of its route, or the default one; and the URL that it has there.

import { type Origin, parseOrigin } from '../core/matching/origin.ts';
import { type OriginRoute, strip } from '../core/matching/origin-route.ts';
import type { OriginRoutes } from '../core/matching/origin-routes.ts';
import { hostOf } from '../core/matching/origin-routes.ts';

export interface AskedPath {
  /** Canonical: what was matched is what the origin sees. */
  readonly path: string;
  readonly matchPath: string;
  /** With its question mark, as it was sent. */
  readonly query: string;
}

/** Something that answers requests without a network: another Worker. */
export interface ServiceBinding {
  fetch(to: string | Request, init: RequestInit): Promise<Response>;
}

export interface OriginChoice {
  /** Of the route; the default origin has none. */
  readonly routeName: string | undefined;
  /** As it was written. */
  readonly origin: string;
  readonly url: string;
  /** Where the request is sent: the network, another Worker, or nowhere because that Worker is not bound. */
  readonly via: 'network' | ServiceBinding | undefined;
  readonly timeoutMs: number;
  /** Where Cloudflare is to send the request, if the host of the URL is only what the origin reads. */
  readonly resolveOverride: string | undefined;
  readonly headers: Readonly<Record<string, string>> | undefined;
}

export interface OriginChooserOptions {
  /** ORIGIN_URL: where everything goes that no route takes. */
  readonly defaultOrigin: string;
  readonly timeoutMs: number;
  readonly service: (name: string) => ServiceBinding | undefined;
  readonly routes: () => OriginRoutes | undefined;
  /** Cloudflare can send a request elsewhere than its URL says. The runtime by itself, in development, cannot. */
  readonly canOverrideHost: boolean;
}

export type ChooseOrigin = (requestUrl: string, asked: AskedPath) => OriginChoice;

export function createOriginChooser(options: OriginChooserOptions): ChooseOrigin {
  const { defaultOrigin, timeoutMs, service, canOverrideHost } = options;
  const byDefault = readOrigin(defaultOrigin);
  const routed = createRouteReader();

  return (requestUrl, { path, matchPath, query }) => {
    const routes = options.routes();
    const route = routes?.find(hostOf(requestUrl), matchPath);
    const origin = route ? routed(route) : byDefault;
    const toOrigin = route?.stripPrefix ? strip(path, route.stripPrefix) : path;
    const base = origin.kind === 'url' ? origin.url : baseOf(requestUrl);
    // Another Worker reads its host from the URL, and needs nobody to find it.
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

/** A route's origin is read once, not with each request. */
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

/** Both the configuration and the publisher have let it pass. */
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
