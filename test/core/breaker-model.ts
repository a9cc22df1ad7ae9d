// A plain and slow breaker: it keeps every result, and computes its state from them. For a clock that only goes
// forward.
import type { BreakerState } from '../../src/core/regions/breaker.ts';

/** An era lasts from one change of the state to the next. A permit is the era in which it was given. */
interface Era {
  readonly state: BreakerState;
  readonly sinceMs: number;
  results: { readonly hasFailed: boolean; readonly atMs: number }[];
  /** When probes were let in, as far as they still count. */
  probesAtMs: number[];
}

export function createModel(random: number) {
  let era: Era = { state: 'closed', sinceMs: 0, results: [], probesAtMs: [] };
  const become = (state: BreakerState, sinceMs: number) => {
    era = { state, sinceMs, results: [], probesAtMs: [] };
  };
  const successes = () => era.results.filter(({ hasFailed }) => !hasFailed).length;

  const mustOpen = (nowMs: number) => {
    const recent = era.results.slice(-20).filter(({ atMs }) => nowMs - atMs < 60_000);
    const failures = recent.filter(({ hasFailed }) => hasFailed).length;
    const lastFive = recent.slice(-5);
    const haveLastFiveFailed = lastFive.length === 5 && lastFive.every(({ hasFailed }) => hasFailed);
    return haveLastFiveFailed || (failures >= 5 && failures * 2 >= recent.length);
  };

  const state = (nowMs: number): BreakerState =>
    era.state === 'open' && nowMs - era.sinceMs >= 750 + 500 * random ? 'half-open' : era.state;

  return {
    state,

    enter: (): object | undefined => (era.state === 'closed' ? era : undefined),

    probe(nowMs: number): object | undefined {
      if (state(nowMs) !== 'half-open') return undefined;
      if (era.state === 'open') become('half-open', nowMs);
      const areLost = nowMs - Math.max(...era.probesAtMs) >= 1_000;
      // Probes that have succeeded need no replacement.
      if (areLost) era.probesAtMs = Array(successes()).fill(era.sinceMs);
      if (era.probesAtMs.length >= 3) return undefined;
      era.probesAtMs.push(nowMs);
      return era;
    },

    report(permit: object, hasFailed: boolean, atMs: number): void {
      if (permit !== era) return;
      era.results.push({ hasFailed, atMs });
      if (era.state === 'closed') {
        if (hasFailed && mustOpen(atMs)) become('open', atMs);
      } else if (hasFailed) become('open', atMs);
      else if (successes() >= 3) become('closed', atMs);
    },
  };
}
