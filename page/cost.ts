// Computes what Weir costs in a month, in dollars: the numbers of docs/cost.md and the calculator on the page. Pure.

/** Paid plans, as of November 2026. */
export const PRICES = {
  workersMonth: 5,
  workersIncludedMillions: 10,
  workersPerMillion: 0.3,
  upstashPerMillionCommands: 2,
  neonPerCuHour: 0.106,
} as const;

/** Numbers that the tests verify. */
export const COUNTED = {
  /** Redis commands, as Upstash bills them. */
  commandsOfAdmitted: 4,
  commandsOfDenied: 3,
  /** For each region, in a month in which nothing happens. */
  idleCommands: 43_560,
} as const;

const HOURS_OF_A_MONTH = 730;
/** Neon's smallest compute, which sleeps after five minutes without a query. */
const COMPUTE_UNITS = 0.25;
const AWAKE_MINUTES = 5;

export interface Deployment {
  readonly millionsOfRequests: number;
  readonly regions: number;
  /** The denied part, in percent. Repeated denials cost less, because isolates remember them. */
  readonly deniedPercent: number;
  /** `DATABASE_CHECK_MINUTES`. */
  readonly checkMinutes: number;
}

export interface Cost {
  readonly workers: number;
  readonly upstash: number;
  readonly neon: number;
  readonly together: number;
}

export const cuHours = (checkMinutes: number): number =>
  HOURS_OF_A_MONTH * COMPUTE_UNITS * Math.min(1, AWAKE_MINUTES / checkMinutes);

export function costOf({ millionsOfRequests, regions, deniedPercent, checkMinutes }: Deployment): Cost {
  const { workersMonth, workersIncludedMillions, workersPerMillion, upstashPerMillionCommands } = PRICES;
  const { commandsOfAdmitted, commandsOfDenied, idleCommands } = COUNTED;
  const beyond = Math.max(0, millionsOfRequests - workersIncludedMillions);
  const commands = commandsOfAdmitted + (deniedPercent / 100) * (commandsOfDenied - commandsOfAdmitted);
  const millionsOfCommands = millionsOfRequests * commands + (regions * idleCommands) / 1_000_000;
  const workers = workersMonth + beyond * workersPerMillion;
  const upstash = millionsOfCommands * upstashPerMillionCommands;
  const neon = cuHours(checkMinutes) * PRICES.neonPerCuHour;
  return { workers, upstash, neon, together: workers + upstash + neon };
}

/** Commands a month that Upstash's free plan includes. `freeRequests` are the requests that they cover in a region. */
export const FREE_COMMANDS = 500_000;
export const freeRequests = (): number =>
  Math.floor((FREE_COMMANDS - COUNTED.idleCommands) / COUNTED.commandsOfAdmitted);
