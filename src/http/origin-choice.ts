// Chooses the origin of a request (that of its route, or the default one) and the URL there.
import { type Origin, parseOrigin } from '../core/matching/origin.ts';
import { type OriginRoute, strip } from '../core/matching/origin-route.ts';

export interface RoutedPath {
  /** The canonical path: the origin sees the path that the rules have matched. */
  readonly path: string;
  /** With its question mark, as the client sent it. */
  readonly query: string;
  /** Undefined: the request goes to the default origin. */
  readonly route: OriginRoute | undefined;
}

/** Another Worker, which answers without a network call. */
export interface ServiceBinding {
  fetch(to: string | Request, init: RequestInit): Promise<Response>;
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
