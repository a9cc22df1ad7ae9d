// Log lines, one JSON object each. Each kind is logged at most once a second, so that an outage does not flood the log.
// No line ever holds a key, a token or an argument.

import { createBoundedCache } from '../core/bounded-cache.ts';
import type { Incident } from '../core/decision.ts';
import { CallerError } from '../core/matching/caller.ts';
import { CounterStoreError } from '../core/ports/region.ts';
import type { BreakerState } from '../core/regions/breaker.ts';
import { isRecent } from '../core/time.ts';

/** docs/operations.md explains each of them. */
export const LOG_EVENTS = [
  'degraded',
  'breaker',
  'script-broken',
  'script-failed',
  'internal-error',
  'would-deny',
  'charge-not-settled',
  'snapshot-unreadable',
  'caller-unknown',
  'caller-failed',
  'token-unverified',
  'identity-failed',
  'published',
  'publish-incomplete',
  'publish-failed',
  'rule-rejected',
  'admin-failed',
  'denied',
  'telemetry-failed',
] as const;
export type LogEvent = (typeof LOG_EVENTS)[number];

export interface Log {
  degraded(incident: RegionIncident): void;
  /** Weir no longer calls a region, or calls it again. */
  breaker(region: string, state: BreakerState): void;
  /** A region could not run the script: at all (`isBroken`), or for this one call. */
  script(region: string, said: string, isBroken: boolean): void;
  /** A bug in Weir itself, with the place in the code. */
  bug(error: unknown): void;
  error(event: LogEvent, error: unknown, region?: string): void;
  /** A sample of the denied requests: their subject as a hash, and the id of the first one. */
  denied(sample: {
    readonly rule: string;
    readonly route: string;
    readonly subject: string;
    readonly request?: string | undefined;
  }): void;
  /** A shadow rule would have denied a request. */
  shadow(rule: string, region: string): void;
}

const INTERVAL_MS = 1_000;
const MAX_KINDS = 1_000;
const MAX_FRAMES = 10;
const FRAME = /^\s+at .{1,300}:\d+:\d+\)?$/;

export function createLog(now: () => number, write: (line: string) => void): Log {
  const kinds = createBoundedCache<{ lastAtMs: number; suppressed: number }>(MAX_KINDS);

  const sampled = (kind: string, fields: Record<string, unknown> & { readonly event: LogEvent }) => {
    const known = kinds.get(kind, 0);
    if (known && isRecent(known.lastAtMs, now(), INTERVAL_MS)) {
      known.suppressed += 1;
      return;
    }
    const suppressed = known?.suppressed ?? 0;
    kinds.set(kind, { lastAtMs: now(), suppressed: 0 }, Number.POSITIVE_INFINITY);
    write(JSON.stringify({ ...fields, ...(suppressed > 0 && { suppressed }) }));
  };

  return {
    degraded: ({ reason, fallback, region }) =>
      sampled(`${reason} ${fallback} ${region}`, { event: 'degraded', reason, fallback, region }),
    breaker: (region, state) => sampled(`breaker ${region} ${state}`, { event: 'breaker', region, state }),
    script: (region, said, isBroken) =>
      isBroken
        ? sampled(`broken ${region}`, { event: 'script-broken', region, said })
        : sampled(`script ${region}`, { event: 'script-failed', region, said }),
    bug(error) {
      const stack = framesOf(error);
      sampled(`bug ${stack[0]}`, { event: 'internal-error', error: nameOf(error), stack });
    },
    denied: ({ rule, route, subject, request }) =>
      sampled(`denied ${rule}`, { event: 'denied', rule, route, subject, request }),
    shadow: (rule, region) => sampled(`shadow ${rule} ${region}`, { event: 'would-deny', rule, region }),
    error: (event, error, region) =>
      sampled(`${event} ${region}`, { event, region, error: nameOf(error), ...failureOf(error) }),
  };
}

const nameOf = (error: unknown): string => (error instanceof Error ? error.name : typeof error);

/** These errors are known to hold nothing secret. */
const failureOf = (error: unknown) => {
  if (error instanceof CallerError) return { said: error.message };
  if (!(error instanceof CounterStoreError)) return undefined;
  const { failure, message } = error;
  return { failure, ...(failure === 'script-failed' && { said: message }) };
};

/** The stack without the message: the message can quote anything, over several lines. Innermost frame first. */
function framesOf(error: unknown): string[] {
  if (!(error instanceof Error)) return [];
  const { stack = '', message } = error;
  const start = Math.max(0, stack.indexOf(message)) + message.length;
  const frames = stack
    .slice(start)
    .split('\n')
    .filter((line) => FRAME.test(line));
  return frames.slice(0, MAX_FRAMES).map((line) => line.trim());
}

// Counts decisions in which something went wrong, since this isolate started: by fallback, reason and region.

/** In a region. */
export interface RegionIncident extends Incident {
  readonly region: string;
}

export type IncidentCounts = ReturnType<typeof createIncidentCounts>;

/** The map stays small, because there are few fallbacks, reasons and regions. */
export function createIncidentCounts() {
  const counts = new Map<string, RegionIncident & { count: number }>();
  return {
    add({ reason, fallback, region }: RegionIncident): void {
      const name = `${fallback ?? ''} ${reason} ${region}`;
      const known = counts.get(name);
      if (known) known.count += 1;
      else counts.set(name, { fallback, reason, region, count: 1 });
    },
    /** Each kind of incident with its count. */
    list: (): readonly (RegionIncident & { readonly count: number })[] =>
      structuredClone([...counts.values()]),
  };
}
