// How each origin has answered this isolate lately. Weir sends no probes: these are the results of real requests.
import { createBoundedCache } from '../core/bounded-cache.ts';
import type { OriginChoice } from './origins.ts';
import type { ProxyFailure, ProxyResult } from './proxy.ts';

/** `error`: the origin answered with a 5xx. */
export type OriginResult = 'ok' | 'error' | Exclude<ProxyFailure, 'client-gone'>;

/** Enough to tell a bad minute from a bad request. */
const LATELY = 20;
/** More origins than an isolate meets. The one used longest ago is dropped first. */
const MAX_ORIGINS = 1_000;

type OriginName = Pick<OriginChoice, 'routeName' | 'origin'>;

/** The results of one origin. */
export interface OriginRecord {
  note(result: ProxyResult): void;
}

export interface OriginReport {
  /** Null: the default origin. */
  readonly route: string | null;
  readonly origin: string;
  /** `failing`: at least half of the last 20 requests. `unknown`: this isolate has sent none. */
  readonly state: 'ok' | 'failing' | 'unknown';
  readonly lately: Readonly<Partial<Record<OriginResult, number>>>;
  readonly lastOkAt: string | null;
  readonly lastFailureAt: string | null;
  readonly lastFailure: OriginResult | null;
}

export interface OriginHealth {
  of(origin: OriginName): OriginRecord;
  report(origin: OriginName): OriginReport;
}

export function createOriginHealth(now: () => number): OriginHealth {
  const origins = createBoundedCache<Seen>(MAX_ORIGINS);
  /** The origin of the last request. The next request mostly goes to the same one. */
  let latest: (OriginName & { readonly seen: Seen }) | undefined;
  return {
    of({ routeName, origin }) {
      if (latest?.origin === origin && latest.routeName === routeName) return latest.seen;
      const key = keyOf({ routeName, origin });
      const seen = origins.get(key, 0) ?? new Seen(now);
      origins.set(key, seen, Number.POSITIVE_INFINITY);
      latest = { routeName, origin, seen };
      return seen;
    },
    report: (origin) => toReport(origin, origins.get(keyOf(origin), 0) ?? new Seen(now)),
  };
}

class Seen implements OriginRecord {
  /** A ring of the last results. */
  readonly results: OriginResult[] = [];
  lastOkMs: number | undefined;
  lastFailureMs: number | undefined;
  lastFailure: OriginResult | undefined;
  readonly #now: () => number;
  #next = 0;

  constructor(now: () => number) {
    this.#now = now;
  }

  note(result: ProxyResult): void {
    const what = resultOf(result);
    if (what === undefined) return;
    this.results[this.#next] = what;
    this.#next = (this.#next + 1) % LATELY;
    if (what === 'ok') this.lastOkMs = this.#now();
    else [this.lastFailureMs, this.lastFailure] = [this.#now(), what];
  }
}

const keyOf = ({ routeName = '', origin }: OriginName) => `${routeName}\n${origin}`;

/** Undefined if the client has left: that says nothing about the origin. */
function resultOf(result: ProxyResult): OriginResult | undefined {
  if (result.kind === 'failed') return result.reason === 'client-gone' ? undefined : result.reason;
  return result.response.status >= 500 ? 'error' : 'ok';
}

function toReport({ routeName, origin }: OriginName, seen: Seen): OriginReport {
  const { results, lastFailure } = seen;
  const lately: Partial<Record<OriginResult, number>> = {};
  for (const result of results) lately[result] = (lately[result] ?? 0) + 1;
  const failures = results.length - (lately.ok ?? 0);
  return {
    route: routeName ?? null,
    origin,
    state: results.length === 0 ? 'unknown' : failures * 2 >= results.length ? 'failing' : 'ok',
    lately,
    lastOkAt: toIso(seen.lastOkMs),
    lastFailureAt: toIso(seen.lastFailureMs),
    lastFailure: lastFailure ?? null,
  };
}

const toIso = (ms: number | undefined) => (ms === undefined ? null : new Date(ms).toISOString());
