// Structured log lines, one JSON object each, at most one a second per reason: an outage must not become a
// flood of lines. No line ever holds a key, a token or an argument.
import type { DegradedReason } from '../core/decision.ts';

export interface Log {
  degraded(reason: DegradedReason, region: string): void;
  error(event: string, error: unknown): void;
  /** A shadow rule would have denied a request. */
  shadow(rule: string, region: string): void;
}

const INTERVAL_MS = 1_000;

export function createLog(now: () => number, write: (line: string) => void): Log {
  const lastAt = new Map<string, number>();
  const suppressed = new Map<string, number>();

  const sampled = (reason: string, fields: Record<string, unknown>) => {
    const skipped = suppressed.get(reason) ?? 0;
    if (now() - (lastAt.get(reason) ?? Number.NEGATIVE_INFINITY) < INTERVAL_MS) {
      suppressed.set(reason, skipped + 1);
      return;
    }
    lastAt.set(reason, now());
    suppressed.delete(reason);
    write(JSON.stringify({ ...fields, ...(skipped > 0 && { suppressed: skipped }) }));
  };

  return {
    degraded: (reason, region) => sampled(`${reason} ${region}`, { event: 'degraded', reason, region }),
    shadow: (rule, region) => sampled(`shadow ${rule} ${region}`, { event: 'would-deny', rule, region }),
    error: (event, error) =>
      sampled(event, { event, error: error instanceof Error ? error.name : typeof error }),
  };
}
