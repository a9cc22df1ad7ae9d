// Definitions that measure the time between admissions, by the true time: any true window, and a bucket that drains.
import type { Admission, Beyond, Forgetting, History } from './ledger.ts';

/** No true window holds more than the limit. */
export function judgeTrueWindow(history: History): Beyond | undefined {
  const { admissions, windowMs, forgettings } = history;
  const isPlain = forgettings.length === 0 && admissions.every((one) => one.refundedAtMs === undefined);
  let [first, sum] = [0, 0];
  for (const [place, admission] of admissions.entries()) {
    const { atMs } = admission;
    sum += admission.units;
    for (; (admissions[first] as Admission).atMs <= atMs - windowMs; first += 1)
      sum -= (admissions[first] as Admission).units;
    const counted = isPlain ? sum : sumOf(admissions.slice(first, place + 1), atMs, forgettings);
    const { limit } = history.allowedAt(place);
    if (counted > limit) return { admission, counted, allowed: limit };
  }
  return undefined;
}

const sumOf = (admissions: readonly Admission[], nowMs: number, forgettings: readonly Forgetting[]) =>
  admissions.reduce((sum, one) => sum + (counts(one, nowMs, forgettings) ? one.units : 0), 0);

/** Whether the admission still counts then: it was not given back, and its region has not forgotten it. */
export function counts(
  { atMs, region, refundedAtMs }: Admission,
  nowMs: number,
  forgettings: readonly Forgetting[],
): boolean {
  if (refundedAtMs !== undefined && refundedAtMs <= nowMs) return false;
  for (const one of forgettings)
    if (one.region === region && one.atMs >= atMs && one.atMs <= nowMs) return false;
  return true;
}

/** The bucket never holds more than its capacity. A charge that no longer counts is as if it had never been made. */
export function judgeBucket(history: History): Beyond | undefined {
  const { admissions, windowMs } = history;
  const changes = changesOf(history);
  let level = createLevel();
  let next = 0;
  for (const [place, admission] of admissions.entries()) {
    const { atMs, units } = admission;
    const { burst } = history.allowedAt(place);
    const changed = next;
    while ((changes[next] ?? Number.POSITIVE_INFINITY) <= atMs) next += 1;
    if (next > changed) level = levelWithout(history, place);
    level.add(units * windowMs, atMs, pacesOf(history, place));
    if (level.content > burst * windowMs)
      return { admission, counted: level.content / windowMs, allowed: burst };
  }
  return undefined;
}

/** The level of a bucket, in units times the window. */
function createLevel() {
  let [content, lastMs] = [0, 0];
  return {
    get content() {
      return content;
    },
    add(units: number, atMs: number, { changes, limitAt }: Paces) {
      for (const untilMs of [...changes.filter((ms) => ms > lastMs && ms < atMs), atMs]) {
        content = Math.max(0, content - (untilMs - lastMs) * limitAt(lastMs));
        lastMs = untilMs;
      }
      content += units;
    },
  };
}

/** How fast a bucket drains up to an admission. An old limit sets the pace until it counts no more. */
interface Paces {
  /** When the pace may change, in order. */
  readonly changes: readonly number[];
  limitAt(atMs: number): number;
}

const pacesOf = ({ ends, allowedAt }: History, place: number): Paces => ({
  changes: ends,
  limitAt: (atMs) => allowedAt(place, atMs).limit,
});

/** The moments at which an admission stops counting. */
const changesOf = ({ admissions, forgettings }: History): number[] =>
  [
    ...admissions.flatMap(({ refundedAtMs }) => refundedAtMs ?? []),
    ...forgettings.map(({ atMs }) => atMs),
  ].sort((a, b) => a - b);

function levelWithout(history: History, place: number) {
  const { admissions, forgettings, windowMs } = history;
  const nowMs = admissions[place]?.atMs ?? 0;
  const level = createLevel();
  for (const [i, one] of admissions.slice(0, place).entries())
    if (counts(one, nowMs, forgettings)) level.add(one.units * windowMs, one.atMs, pacesOf(history, i));
  return level;
}
