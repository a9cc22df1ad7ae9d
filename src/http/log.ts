// Structured log lines, one JSON object each, at most one a second of a kind: an outage must not become a flood of
// lines. No line ever holds a key, a token or an argument.

import { createBoundedCache } from '../core/bounded-cache.ts';
import type { BreakerState } from '../core/breaker.ts';
import type { Incident } from './tally.ts';

/** Each is explained in docs/operations.md. */
export const LOG_EVENTS = [
  'degraded',
  'breaker',
  'would-deny',
  'charge-not-settled',
  'snapshot-unreadable',
  'caller-unknown',
  'token-unverified',
  'published',
  'publish-incomplete',
  'publish-failed',
  'rule-rejected',
  'admin-failed',
] as const;
export type LogEvent = (typeof LOG_EVENTS)[number];

export interface Log {
  degraded(incident: Incident): void;
  /** A region is no longer asked, or is asked again. */
  breaker(region: string, state: BreakerState): void;
  error(event: LogEvent, error: unknown): void;
  /** A shadow rule would have denied a request. */
  shadow(rule: string, region: string): void;
}

const INTERVAL_MS = 1_000;
const MOST_KINDS = 1_000;

export function createLog(now: () => number, write: (line: string) => void): Log {
  const kinds = createBoundedCache<{ lastAtMs: number; suppressed: number }>(MOST_KINDS);

  const sampled = (kind: string, fields: Record<string, unknown> & { readonly event: LogEvent }) => {
    const known = kinds.get(kind, 0);
    // A clock that was put back must not silence it.
    if (known && Math.abs(now() - known.lastAtMs) < INTERVAL_MS) {
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
    shadow: (rule, region) => sampled(`shadow ${rule} ${region}`, { event: 'would-deny', rule, region }),
    error: (event, error) =>
      sampled(event, { event, error: error instanceof Error ? error.name : typeof error }),
  };
}
