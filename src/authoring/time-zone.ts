// Converts between moments and local time of a time zone, with the IANA data of the runtime.

const DAY_MS = 86_400_000;

export interface TimeZone {
  /** The local time at that moment, as if it were UTC. */
  toLocal(ms: number): number;
  /** The moment of a local time, with the same rules as Postgres. */
  fromLocal(localMs: number): number;
}

/** Throws a RangeError if there is no such zone. */
export function createTimeZone(name: string): TimeZone {
  const format = new Intl.DateTimeFormat('en-US', {
    timeZone: name,
    calendar: 'iso8601',
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  });
  const offsets = new Map<number, number>();
  const offsetAt = (ms: number): number => {
    const known = offsets.get(ms);
    if (known !== undefined) return known;
    const parts = Object.fromEntries(
      format.formatToParts(ms).map(({ type, value }) => [type, Number(value)]),
    );
    const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = parts;
    const offsetMs = Date.UTC(year, month - 1, day, hour, minute, second) - ms;
    offsets.set(ms, offsetMs);
    return offsetMs;
  };
  return {
    toLocal: (ms) => ms + offsetAt(ms - (ms % 1_000)),
    fromLocal(localMs) {
      const [before, after] = [localMs - offsetAt(localMs - DAY_MS), localMs - offsetAt(localMs + DAY_MS)];
      const isShown = (ms: number) => ms + offsetAt(ms) === localMs;
      // A local time that is skipped uses the offset before the change. One that occurs twice means the second time.
      return before === after || !isShown(after) ? before : after;
    },
  };
}

/** The problem of the name of a time zone; undefined if the name is valid. */
export function timeZoneProblem(name: string): string | undefined {
  try {
    createTimeZone(name);
    return TIME_ZONE.test(name) ? undefined : 'must be the name of a time zone, such as Europe/Berlin';
  } catch {
    return 'is not a known time zone; use a name such as Europe/Berlin or UTC';
  }
}

/** Excludes offsets (+01:00): they know no daylight saving time, and Postgres reads them with the other sign. */
export const TIME_ZONE = /^[A-Za-z][A-Za-z0-9_+-]*(\/[A-Za-z0-9_+-]+){0,2}$/;
