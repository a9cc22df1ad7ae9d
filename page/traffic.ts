// Turns growing sums into rates and decision times. Pure.

export type Counts = Readonly<Record<string, number>>;

export interface TrafficRegion {
  readonly name: string;
  readonly up: boolean;
  readonly isolates: number;
  readonly breakers: Counts;
  readonly publication: number | null;
  readonly requests: Counts;
}

export interface Traffic {
  readonly at: string;
  readonly regions: readonly TrafficRegion[];
  readonly decision: { readonly boundsMs: readonly number[]; readonly counts: readonly number[] };
  readonly fallbacks: Counts;
  readonly rules: Readonly<Record<string, Counts>>;
  readonly rulesAgeSeconds: number;
}

export interface Rates {
  readonly atSeconds: number;
  readonly total: number;
  readonly admitted: number;
  readonly denied: number;
  readonly degraded: number;
}

const secondsOf = ({ at }: Traffic) => new Date(at).getTime() / 1_000;

/** The increase of a sum. A sum that is missing (its Redis has restarted, or is down) increases by 0. */
const added = (before: Counts | undefined, after: Counts, name: string) =>
  before === undefined ? 0 : Math.max(0, (after[name] ?? 0) - (before[name] ?? 0));

/** Requests a second of one region, by result. */
export function regionRates(before: Traffic, after: Traffic, name: string): Record<string, number> {
  const seconds = Math.max(0.001, secondsOf(after) - secondsOf(before));
  const find = ({ regions }: Traffic) => regions.find((region) => region.name === name && region.up);
  const [then, now] = [find(before), find(after)];
  if (!then || !now) return {};
  return Object.fromEntries(
    Object.keys(now.requests).map((result) => [result, added(then.requests, now.requests, result) / seconds]),
  );
}

export function ratesBetween(before: Traffic, after: Traffic): Rates {
  const all = after.regions.map(({ name }) => regionRates(before, after, name));
  const sum = (...results: readonly string[]) =>
    all.reduce((total, rates) => total + results.reduce((part, one) => part + (rates[one] ?? 0), 0), 0);
  return {
    atSeconds: secondsOf(after),
    total: sum(...new Set(all.flatMap((rates) => Object.keys(rates)))),
    admitted: sum('admitted'),
    denied: sum('denied'),
    degraded: sum('degraded'),
  };
}

/** The longest time that this part of the decisions took, interpolated between the bounds of the histogram. */
export function decisionQuantile(before: Traffic, after: Traffic, quantile: number): number | undefined {
  const { boundsMs, counts } = after.decision;
  const news = counts.map((value, place) => Math.max(0, value - (before.decision.counts[place] ?? 0)));
  const total = news.reduce((sum, value) => sum + value, 0);
  if (total === 0) return undefined;
  let below = 0;
  for (const [place, value] of news.entries()) {
    if (value > 0 && below + value >= quantile * total) {
      const from = place === 0 ? 0 : (boundsMs[place - 1] ?? 0);
      const to = boundsMs[place] ?? from;
      return from + ((quantile * total - below) / value) * (to - from);
    }
    below += value;
  }
  return boundsMs.at(-1);
}

/** The newest sample that is at least this old, or else the oldest. */
export function sampleBefore(samples: readonly Traffic[], seconds: number): Traffic | undefined {
  const last = samples.at(-1);
  if (!last) return undefined;
  return samples.findLast((one) => secondsOf(last) - secondsOf(one) >= seconds) ?? samples[0];
}
