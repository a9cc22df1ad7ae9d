// The cost of each unit. Measured on one machine, or from the prices and limits of the providers (November 2026).

/** Commands that Upstash bills for a call that admits: docs/algorithms.md. */
export const COMMANDS_PER_CALL = 4;
/**
 * Commands of a busy isolate: it reads the announcement four times a second, and reports to the census once a minute.
 */
export const COMMANDS_PER_ISOLATE_SECOND = 4 + 16 / 60;
/** Redis time of a call with one rule, about, in microseconds: `npm run bench -- engine`. */
export const REDIS_MICROS_PER_CALL = 11;
/** Redis memory of one subject with one rule: docs/algorithms.md. */
export const BYTES_PER_SUBJECT = 136;
/** Requests a second that one isolate answers, at 600 µs of processor time each: `npm run bench -- hot`. */
export const REQUESTS_PER_ISOLATE = 1_000;
export const MAX_ISOLATES = 10_000;

/** Commands a second that one Upstash database runs. Further ones queue. */
export const UPSTASH_COMMANDS_PER_SECOND = 10_000;
export const DOLLARS_PER_MILLION_COMMANDS = 2;
export const DOLLARS_PER_MILLION_REQUESTS = 0.3;
export const SECONDS_PER_MONTH = 30.44 * 86_400;
