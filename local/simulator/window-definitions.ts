// Definitions whose windows are cut by the epoch: each region's begin when its own clock says so.
import type { Admission, Beyond, History } from './ledger.ts';
import { counts } from './measured-definitions.ts';

/** What a region counts by its own clock. */
interface Windows {
  number: number;
  current: number;
  previous: number;
}

const createWindows = (): Windows => ({ number: 0, current: 0, previous: 0 });

function roll(windows: Windows, number: number): void {
  if (number <= windows.number) return;
  windows.previous = number === windows.number + 1 ? windows.current : 0;
  windows.current = 0;
  windows.number = number;
}

/** At every moment, all regions together count no more than the limit, each by its own clock. */
export function judgeWindows(history: History, how: 'fixed' | 'estimated'): Beyond | undefined {
  const { admissions, windowMs, skewMs, forgettings } = history;
  const isPlain = forgettings.length === 0 && admissions.every((one) => one.refundedAtMs === undefined);
  let regions = skewMs.map(createWindows);
  for (const [place, admission] of admissions.entries()) {
    if (isPlain) add(regions, admission, history);
    else regions = windowsOf(history, place);
    let counted = 0;
    for (const [i, windows] of regions.entries()) {
      const clockMs = admission.atMs + (skewMs[i] ?? 0);
      roll(windows, Math.floor(clockMs / windowMs));
      const weight = how === 'estimated' ? windowMs - (clockMs % windowMs) : 0;
      counted += windows.current * windowMs + windows.previous * weight;
    }
    const { limit } = history.allowedAt(place);
    if (counted > limit * windowMs) return { admission, counted: counted / windowMs, allowed: limit };
  }
  return undefined;
}

function add(regions: readonly Windows[], { atMs, region, units }: Admission, history: History): void {
  const windows = regions[region] as Windows;
  roll(windows, Math.floor((atMs + (history.skewMs[region] ?? 0)) / history.windowMs));
  windows.current += units;
}

/** Of what still counts at the time of that admission. */
function windowsOf(history: History, place: number): Windows[] {
  const { admissions, skewMs, windowMs, forgettings } = history;
  const nowMs = admissions[place]?.atMs ?? 0;
  const regions = skewMs.map(createWindows);
  // Nothing older is in the current window or the one before it.
  const recent = admissions.slice(0, place + 1).filter(({ atMs }) => atMs > nowMs - 2 * windowMs);
  for (const one of recent) if (counts(one, nowMs, forgettings)) add(regions, one, history);
  return regions;
}

/**
 * Each admission is put into the first window with room that a date of it can be in. They come in order of time, so if
 * one finds no window, there is no way to date them all.
 */
export function judgeDatedWindows({ admissions, windowMs, boundMs, ...history }: History): Beyond | undefined {
  if (boundMs === 0) return undefined;
  const used = new Map<number, number>();
  for (const [place, admission] of admissions.entries()) {
    if (admission.refundedAtMs !== undefined || isForgotten(admission, history)) continue;
    const { limit } = history.allowedAt(place);
    const last = Math.floor((admission.atMs + boundMs / 2) / windowMs);
    let left = admission.units;
    for (let number = Math.floor((admission.atMs - boundMs / 2) / windowMs); number <= last; number += 1) {
      const put = Math.min(left, Math.max(0, limit - (used.get(number) ?? 0)));
      used.set(number, (used.get(number) ?? 0) + put);
      left -= put;
    }
    if (left > 0) return { admission, counted: limit + left, allowed: limit };
  }
  return undefined;
}

/** Before all others are, in the lenient judgements below: sooner or later it does not count. */
const isForgotten = ({ region, atMs }: Admission, { forgettings }: Pick<History, 'forgettings'>) =>
  forgettings.some((one) => one.region === region && one.atMs >= atMs);

/** Dated as late as it can be, with all before it as early as they can be, no admission is more than the estimate allows. */
export function judgeEstimates({ admissions, windowMs, boundMs, ...history }: History): Beyond | undefined {
  if (boundMs === 0) return undefined;
  const used = new Map<number, number>();
  for (const [place, admission] of admissions.entries()) {
    if (admission.refundedAtMs !== undefined || isForgotten(admission, history)) continue;
    const lateMs = admission.atMs + boundMs / 2;
    const number = Math.floor(lateMs / windowMs);
    const weight = windowMs - (lateMs % windowMs);
    const before = (used.get(number) ?? 0) * windowMs + (used.get(number - 1) ?? 0) * weight;
    const counted = before + admission.units * windowMs;
    const { limit } = history.allowedAt(place);
    if (counted > limit * windowMs) return { admission, counted: counted / windowMs, allowed: limit };
    const early = Math.floor((admission.atMs - boundMs / 2) / windowMs);
    used.set(early, (used.get(early) ?? 0) + admission.units);
  }
  return undefined;
}
