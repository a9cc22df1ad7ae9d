// Definitions whose windows are aligned to the epoch.
import type { Admission, Beyond, History } from './ledger.ts';
import { counts } from './measured-definitions.ts';

/** Units by the number of their window. */
type Windows = Map<number, number>;

const add = (windows: Windows, number: number, units: number) =>
  void windows.set(number, (windows.get(number) ?? 0) + units);

/**
 * The current window never exceeds the limit. For the estimate, the part of the previous window that is still inside
 * counts, too.
 */
export function judgeWindows(history: History, how: 'fixed' | 'estimated'): Beyond | undefined {
  const { admissions, windowMs, forgettings } = history;
  const isPlain = forgettings.length === 0 && admissions.every((one) => one.refundedAtMs === undefined);
  let windows: Windows = new Map();
  for (const [place, admission] of admissions.entries()) {
    const { atMs, units } = admission;
    const number = Math.floor(atMs / windowMs);
    if (isPlain) add(windows, number, units);
    else windows = windowsOf(history, place);
    const weight = how === 'estimated' ? windowMs - (atMs % windowMs) : 0;
    const counted = (windows.get(number) ?? 0) * windowMs + (windows.get(number - 1) ?? 0) * weight;
    const { limit } = history.allowedAt(place);
    if (counted > limit * windowMs) return { admission, counted: counted / windowMs, allowed: limit };
  }
  return undefined;
}

/** The windows of all admissions that still count at the time of that one. */
function windowsOf({ admissions, windowMs, forgettings }: History, place: number): Windows {
  const nowMs = admissions[place]?.atMs ?? 0;
  const windows: Windows = new Map();
  // Nothing older is in the current window or the previous one.
  for (let i = place; i >= 0 && (admissions[i]?.atMs ?? 0) > nowMs - 2 * windowMs; i -= 1) {
    const one = admissions[i] as Admission;
    if (counts(one, nowMs, forgettings)) add(windows, Math.floor(one.atMs / windowMs), one.units);
  }
  return windows;
}

/**
 * Puts each admission into the first window with room that its possible dates allow. Admissions come in order of time.
 * So if one finds no window, there is no way to date them all.
 */
export function judgeDatedWindows({
  admissions,
  windowMs,
  boundMs,
  ...history
}: History): Beyond | undefined {
  const used: Windows = new Map();
  for (const [place, admission] of admissions.entries()) {
    if (admission.refundedAtMs !== undefined || isForgotten(admission, history)) continue;
    const { limit } = history.allowedAt(place);
    const last = Math.floor((admission.atMs + boundMs / 2) / windowMs);
    let left = admission.units;
    for (let number = Math.floor((admission.atMs - boundMs / 2) / windowMs); number <= last; number += 1) {
      const put = Math.min(left, Math.max(0, limit - (used.get(number) ?? 0)));
      add(used, number, put);
      left -= put;
    }
    if (left > 0) return { admission, counted: limit + left, allowed: limit };
  }
  return undefined;
}

/** In the lenient judgements below, a forgotten admission counts for nothing from the start. */
const isForgotten = ({ region, atMs }: Admission, { forgettings }: Pick<History, 'forgettings'>) =>
  forgettings.some((one) => one.region === region && one.atMs >= atMs);

/**
 * Dates each admission as late as possible, and all before it as early as possible. Even then the estimate must allow
 * it.
 */
export function judgeEstimates({ admissions, windowMs, boundMs, ...history }: History): Beyond | undefined {
  const used: Windows = new Map();
  for (const [place, admission] of admissions.entries()) {
    if (admission.refundedAtMs !== undefined || isForgotten(admission, history)) continue;
    const lateMs = admission.atMs + boundMs / 2;
    const number = Math.floor(lateMs / windowMs);
    const weight = windowMs - (lateMs % windowMs);
    const before = (used.get(number) ?? 0) * windowMs + (used.get(number - 1) ?? 0) * weight;
    const counted = before + admission.units * windowMs;
    const { limit } = history.allowedAt(place);
    if (counted > limit * windowMs) return { admission, counted: counted / windowMs, allowed: limit };
    add(used, Math.floor((admission.atMs - boundMs / 2) / windowMs), admission.units);
  }
  return undefined;
}
