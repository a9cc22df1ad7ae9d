// Sends requests to origins. It combines the choice of the origin, the loop guard, the proxy and the health records.
import type { Caller } from '../core/matching/caller.ts';
import type { OriginRoute } from '../core/matching/origin-route.ts';
import { hostOf } from '../core/matching/origin-routes.ts';
import type { SnapshotSource } from '../core/ports/snapshot-source.ts';
import type { ClientRequest } from './client-request.ts';
import { identityHeaders } from './identity-headers.ts';
import { createLoopGuard } from './loop-guard.ts';
import {
  createOriginChooser,
  type OriginChoice,
  type OriginChooserOptions,
  type RoutedPath,
} from './origin-choice.ts';
import { createOriginHealth, type OriginReport } from './origin-health.ts';
import type { HeaderPolicy } from './proxy/headers.ts';
import { type ProxyResult, proxy } from './proxy.ts';

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
}

/** For metrics and logs. `default`: no route takes the request. */
export const nameOfRoute = (route: OriginRoute | undefined): string => route?.name ?? 'default';

export function createOrigins({ snapshots, headers, identity, now, ...options }: OriginsOptions): Origins {
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
    const tier = caller && (caller.tier ?? snapshots.current()?.tierOf(caller));
    const target = {
      url: choice.url,
      via: choice.via,
      timeoutMs: choice.timeoutMs,
      resolveOverride: choice.resolveOverride,
      headers: choice.headers,
      outlivesClientMs,
      policy: headers,
      identity: identityHeaders(caller, tier),
      hop,
      health: health.of(choice),
    };
    return proxy(request, target);
  };

  return {
    refuseLoop: loops.refuse,
    // Without routes, this does not parse the URL.
    routeOf: (url, matchPath) => routes()?.find(hostOf(url), matchPath),
    forward(request, asked) {
      const choice = choose(request.url, asked);
      const hop = loops.mark(request, asked.isFirst);
      return typeof hop === 'string'
        ? send(request, asked, choice, hop)
        : hop.then((made) => send(request, asked, choice, made));
    },
    report: () => [
      health.report({ routeName: undefined, origin: options.defaultOrigin }),
      ...(routes()?.all ?? []).map(({ name, origin }) => health.report({ routeName: name, origin })),
    ],
  };
}
