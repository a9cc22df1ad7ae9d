// Counts decisions in which something went wrong, since this isolate started: by fallback, reason and region.
import type { DegradedReason, Fallback } from '../core/decision.ts';

/** Without a `fallback`, the request was decided as usual, but late, or by rules or a caller that may be out of date. */
export interface Incident {
  readonly reason: DegradedReason;
  readonly fallback?: Fallback | undefined;
  readonly region: string;
}

export interface IncidentCounts {
  add(incident: Incident): void;
  /** Each kind of incident with its count. */
  list(): readonly (Incident & { readonly count: number })[];
}

/** The map stays small, because there are few fallbacks, reasons and regions. */
export function createIncidentCounts(): IncidentCounts {
  const counts = new Map<string, Incident & { count: number }>();
  return {
    add({ reason, fallback, region }) {
      const name = `${fallback ?? ''} ${reason} ${region}`;
      const known = counts.get(name);
      if (known) known.count += 1;
      else counts.set(name, { fallback, reason, region, count: 1 });
    },
    list: () => [...counts.values()].map((counted) => ({ ...counted })),
  };
}
