// All routes, compiled. A look-up visits each label of the host and each segment of the path, however many routes there
// are.
import { withoutDots } from './origin.ts';
import { EVERY_HOST, type OriginRoute } from './origin-route.ts';

export interface OriginRoutes {
  readonly all: readonly OriginRoute[];
  /**
   * The route of a request: that of its own host, else of the longest `*.` above it, else of every host; among these,
   * the longest prefix. A host without a matching prefix is skipped.
   */
  find(host: string, matchPath: string): OriginRoute | undefined;
}

/** Longer than any name that DNS knows. */
const MAX_HOST = 253;

type ByPrefix = ReadonlyMap<string, OriginRoute>;

/** Undefined if there are no routes. */
export function compileOriginRoutes(routes: readonly OriginRoute[] = []): OriginRoutes | undefined {
  if (routes.length === 0) return undefined;
  const byHost = new Map<string, Map<string, OriginRoute>>();
  let deepest = 0;
  for (const route of routes) {
    const byPrefix = byHost.get(route.host) ?? new Map<string, OriginRoute>();
    byHost.set(route.host, byPrefix.set(route.prefix, route));
    deepest = Math.max(deepest, route.prefix.split('/').length - 1);
  }
  const ofEveryHost = byHost.get(EVERY_HOST);
  const hasHosts = byHost.size > (ofEveryHost ? 1 : 0);
  return {
    all: routes,
    find(host, matchPath) {
      const longest = (byPrefix: ByPrefix | undefined) => byPrefix && longestOf(byPrefix, matchPath, deepest);
      return (hasHosts ? ofHost(byHost, host, longest) : undefined) ?? longest(ofEveryHost);
    },
  };
}

function ofHost(
  byHost: ReadonlyMap<string, ByPrefix>,
  host: string,
  longest: (byPrefix: ByPrefix | undefined) => OriginRoute | undefined,
): OriginRoute | undefined {
  if (host.length > MAX_HOST) return undefined;
  const exact = longest(byHost.get(host));
  if (exact) return exact;
  for (let dot = host.indexOf('.'); dot !== -1; dot = host.indexOf('.', dot + 1)) {
    const found = longest(byHost.get(`*${host.slice(dot)}`));
    if (found) return found;
  }
  return undefined;
}

/** Looks no deeper than the longest prefix, because a client may send any number of slashes. */
function longestOf(byPrefix: ByPrefix, matchPath: string, deepest: number): OriginRoute | undefined {
  let longest = byPrefix.get('/');
  let end = 0;
  for (let depth = 0; depth < deepest && end < matchPath.length; depth += 1) {
    const next = matchPath.indexOf('/', end + 1);
    end = next === -1 ? matchPath.length : next;
    longest = byPrefix.get(matchPath.slice(0, end)) ?? longest;
  }
  return longest;
}

/** The host of a URL as the runtime writes it: without user and port, in lower case, without dots at its end. */
export function hostOf(url: string): string {
  const [, host = ''] = /^[^:]*:\/\/(?:[^/?#@]*@)?(\[[^\]]*\]|[^/?#:]*)/.exec(url) ?? [];
  return withoutDots(host.toLowerCase());
}
