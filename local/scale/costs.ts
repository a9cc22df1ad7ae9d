// What one of each costs. Measured on one machine, or the prices and limits that the providers name (November 2026).

/** Commands that Upstash bills for a call that admits: docs/algorithms.md. */
export const COMMANDS_PER_CALL = 4;
/** Of an isolate that is busy: four times a second it reads the announcement, once a minute it tells of itself. */
export const COMMANDS_PER_ISOLATE_SECOND = 4 + 16 / 60;
/** Redis time of a call with one rule, about, in microseconds: `npm run bench -- engine`. */
export const REDIS_MICROS_PER_CALL = 11;
/** Redis memory of one subject with one rule: docs/algorithms.md. */
export const BYTES_PER_SUBJECT = 136;
/** Requests a second that one isolate answers, at 600 µs of processor time each: `npm run bench -- hot`. */
export const REQUESTS_PER_ISOLATE = 1_000;
export const MAX_ISOLATES = 10_000;

/** Commands a second of one Upstash database; more of them queue. */
export const UPSTASH_COMMANDS_PER_SECOND = 10_000;
export const DOLLARS_PER_MILLION_COMMANDS = 2;
export const DOLLARS_PER_MILLION_REQUESTS = 0.3;
export const SECONDS_PER_MONTH = 30.44 * 86_400;
