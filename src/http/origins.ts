// Sends requests to origins. It combines the choice of the origin, the loop guard, the proxy and the health records.
import type { Caller } from '../core/matching/caller.ts';
import type { OriginRoute } from '../core/matching/origin-route.ts';
import { hostOf } from '../core/matching/origin-routes.ts';
import type { SnapshotSource } from '../core/ports/snapshot-source.ts';
import type { ClientRequest } from './client-request.ts';
import { attempt, reportBug } from './guard.ts';
import { identityHeaders } from './identity-headers.ts';
import type { Log } from './log.ts';
import { createLoopGuard } from './loop-guard.ts';
import {
  createOriginChooser,
  type OriginChoice,
  type OriginChooserOptions,
  type RoutedPath,
} from './origin-choice.ts';
import { createOriginHealth, type OriginReport } from './origin-health.ts';
import { type HeaderPolicy, HOP_HEADER } from './proxy/headers.ts';
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

/** See core/matching/origin.ts. */
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
