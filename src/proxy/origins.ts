// Chooses the origin of a request (that of its route, or the default one) and the way to it, stops loops, and records
// how each origin answers.

import { createBoundedCache } from '../core/bounded-cache.ts';
import { digest, toHex } from '../core/digest.ts';
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
import { attempt, type ClientRequest, reportBug } from '../http/guard.ts';
import type { Log } from '../http/log.ts';
import { problem } from '../http/problem.ts';
import { type HeaderPolicy, HOP_HEADER, identityHeaders } from './headers.ts';
import { type ProxyFailure, type ProxyResult, type ProxyTarget, proxy } from './proxy.ts';

export interface RoutedPath {
  /** The canonical path: the origin sees the path that the rules have matched. */
  readonly path: string;
  /** With its question mark, as the client sent it. */
  readonly query: string;
  /** Undefined: the request goes to the default origin. */
  readonly route: OriginRoute | undefined;
}

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
  report(): readonly ReturnType<OriginRecord['report']>[];
}

export interface OriginsOptions {
  /** ORIGIN_URL, for requests that no route takes. */
  readonly defaultOrigin: string;
  readonly timeoutMs: number;
  readonly service: (name: string) => ServiceBinding | undefined;
  /** Cloudflare can connect to another host than the URL names. The local runtime cannot. */
  readonly canOverrideHost: boolean;
  readonly snapshots: Pick<SnapshotSource, 'current'>;
  readonly headers: HeaderPolicy;
  /** The same in all isolates of this Weir, and in no other Weir. */
  readonly identity: string;
  readonly now: () => number;
  readonly log: Pick<Log, 'bug'>;
}

/** See core/matching/origin-routes.ts. */
const ZONE = 'pass';

/** For metrics and logs. `default`: no route takes the request. */
export const nameOfRoute = (route: OriginRoute | undefined): string => route?.name ?? 'default';

export function createOrigins(options: OriginsOptions): Origins {
  const { snapshots, headers: policy, defaultOrigin, log } = options;
  const routes = () => snapshots.current()?.routes;
  const choose = createOriginChooser(options);
  const health = createOriginHealth(options.now);
  const loops = createLoopGuard(options);

  const send = (
    request: ClientRequest,
    { caller, outlivesClientMs }: ToOrigin,
    choice: OriginChoice,
    hop: string,
  ): Promise<ProxyResult> => {
    const target: ProxyTarget = {
      url: choice.url,
      via: choice.via,
      timeoutMs: choice.timeoutMs,
      resolveOverride: choice.resolveOverride,
      headers: choice.headers,
      outlivesClientMs,
      policy,
      identity: attempt(log, identityOf, caller),
      hop,
      health: attempt(log, health.of, choice),
      log,
    };
    return proxy(request, target);
  };

  const identityOf = (caller: Caller | undefined) =>
    identityHeaders(caller, caller && (caller.tier ?? snapshots.current()?.tierOf(caller)));

  return {
    refuseLoop: loops.refuse,
    // Without routes, this does not parse the URL.
    isZone: (route) => (route?.origin ?? defaultOrigin) === ZONE,
    routeOf: (url, matchPath) => routes()?.find(hostOf(url), matchPath),
    forward(request, asked) {
      const choice = choose(request.url, asked);
      const hop = loops.mark(request, asked.isFirst);
      return typeof hop === 'string'
        ? send(request, asked, choice, hop)
        : hop.then((made) => send(request, asked, choice, made));
    },
    report: () => [
      health.report({ routeName: undefined, origin: defaultOrigin }),
      ...(routes()?.all ?? []).map(({ name, origin }) => health.report({ routeName: name, origin })),
    ],
  };
}

export interface OriginChoice
  extends Pick<ProxyTarget, 'url' | 'via' | 'resolveOverride' | 'timeoutMs' | 'headers'> {
  /** Undefined for the default origin. */
  readonly routeName: string | undefined;
  /** As the configuration or the route spells it. */
  readonly origin: string;
}

export function createOriginChooser(
  options: Pick<OriginsOptions, 'defaultOrigin' | 'timeoutMs' | 'service' | 'canOverrideHost'>,
): (requestUrl: string, asked: RoutedPath) => OriginChoice {
  const { defaultOrigin, timeoutMs, service, canOverrideHost } = options;
  const byDefault = readOrigin(defaultOrigin);
  /** Each origin is parsed once, not with each request. */
  const parsed = new WeakMap<OriginRoute, Origin>();
  const originOf = (route: OriginRoute): Origin => {
    const known = parsed.get(route);
    if (known) return known;
    const origin = readOrigin(route.origin);
    parsed.set(route, origin);
    return origin;
  };

  return (requestUrl, { path, query, route }) => {
    const origin = route ? originOf(route) : byDefault;
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

// Stops loops: a route can lead back to Weir. Each request to an origin names the Weirs that it has passed. A Weir
// that finds itself among them answers 508.

const HOPS = /^[0-9a-f]{16}(?:, [0-9a-f]{16}){0,7}$/;
const MAX_HOPS = 8;
/** Stands for this Weir if it cannot name itself. It counts as one of the hops that a request may have. */
const NAMELESS_HOP = '0'.repeat(16);

/** `identity` is never sent itself. */
export function createLoopGuard({ identity, log }: Pick<OriginsOptions, 'identity' | 'log'>) {
  let id: string | undefined;
  const ownId = async (): Promise<string | undefined> => {
    try {
      id ??= toHex((await digest('SHA-256', `weir-hop ${identity}`)).slice(0, 8));
    } catch (error) {
      reportBug(log, error);
    }
    return id;
  };
  return {
    /** A 508 if the request has been here before, else undefined. */
    async refuse({ headers }: Pick<Request, 'headers'>): Promise<Response | undefined> {
      const hops = hopsIn(headers);
      if (hops.length === 0) return undefined;
      const isLoop = hops.length === MAX_HOPS || hops.includes((await ownId()) ?? '');
      return isLoop ? problem(LOOP) : undefined;
    },
    /** The value of the hop header for the request to the origin. Most requests have passed no other Weir before. */
    mark({ headers }: Pick<Request, 'headers'>, isFirst: boolean): Promise<string> | string {
      if (isFirst && id !== undefined) return id;
      return ownId().then((own = NAMELESS_HOP) => [...hopsIn(headers), own].join(', '));
    },
  };
}

function hopsIn(headers: Headers): readonly string[] {
  const text = headers.get(HOP_HEADER);
  return text !== null && HOPS.test(text) ? text.split(', ') : [];
}

const LOOP = {
  status: 508,
  code: 'loop-detected',
  title: 'The request came back to Weir',
  detail: 'The origin of its route, or ORIGIN_URL, leads to Weir itself.',
};

// How each origin has answered this isolate lately. Weir sends no probes: these are the results of real requests.

/** `error`: the origin answered with a 5xx. */
type OriginResult = 'ok' | 'error' | Exclude<ProxyFailure, 'client-gone'>;

/** Enough to tell a bad minute from a bad request. */
const LATELY = 20;
/** More origins than an isolate meets. The one used longest ago is dropped first. */
const MAX_ORIGINS = 1_000;

type OriginName = Pick<OriginChoice, 'routeName' | 'origin'>;

export function createOriginHealth(now: () => number) {
  const records = createBoundedCache<OriginRecord>(MAX_ORIGINS);
  /** The origin of the last request. The next request mostly goes to the same one. */
  let latest: (OriginName & { readonly record: OriginRecord }) | undefined;
  return {
    of({ routeName, origin }: OriginName): OriginRecord {
      if (latest?.origin === origin && latest.routeName === routeName) return latest.record;
      const key = keyOf({ routeName, origin });
      const record = records.get(key, 0) ?? new OriginRecord(now);
      records.set(key, record, Number.POSITIVE_INFINITY);
      latest = { routeName, origin, record };
      return record;
    },
    report: (name: OriginName) => (records.get(keyOf(name), 0) ?? new OriginRecord(now)).report(name),
  };
}

const keyOf = ({ routeName = '', origin }: OriginName) => `${routeName}\n${origin}`;

/** The results of one origin. */
export class OriginRecord {
  /** A ring of the last results. */
  readonly #results: OriginResult[] = [];
  readonly #now: () => number;
  #next = 0;
  #lastOkMs: number | undefined;
  #lastFailureMs: number | undefined;
  #lastFailure: OriginResult | undefined;

  constructor(now: () => number) {
    this.#now = now;
  }

  note(result: ProxyResult): void {
    const what = resultOf(result);
    if (what === undefined) return;
    this.#results[this.#next] = what;
    this.#next = (this.#next + 1) % LATELY;
    if (what === 'ok') this.#lastOkMs = this.#now();
    else [this.#lastFailureMs, this.#lastFailure] = [this.#now(), what];
  }

  report({ routeName, origin }: OriginName) {
    const lately: Partial<Record<OriginResult, number>> = {};
    for (const result of this.#results) lately[result] = (lately[result] ?? 0) + 1;
    const { length } = this.#results;
    const failures = length - (lately.ok ?? 0);
    return {
      /** Null: the default origin. */
      route: routeName ?? null,
      origin,
      /** `unknown`: this isolate has sent it no request. */
      state: length === 0 ? 'unknown' : failures * 2 >= length ? 'failing' : 'ok',
      lately,
      lastOkAt: toIso(this.#lastOkMs),
      lastFailureAt: toIso(this.#lastFailureMs),
      lastFailure: this.#lastFailure ?? null,
    };
  }
}

/** Undefined if the client has left: that says nothing about the origin. */
function resultOf(result: ProxyResult): OriginResult | undefined {
  if (result.kind === 'failed') return result.reason === 'client-gone' ? undefined : result.reason;
  return result.response.status >= 500 ? 'error' : 'ok';
}

const toIso = (ms: number | undefined) => (ms === undefined ? null : new Date(ms).toISOString());
