// Ways in which a gateway can misbehave on demand, and their validation.

export interface Faults {
  /** Waits this long before it does anything. */
  latencyMs?: number | { min: number; max: number };
  /** Accepts the request and never answers; the command does not run. */
  hang?: boolean;
  /** Answers with this status; the command does not run. */
  status?: number;
  /** Answers 200 with something that is not JSON; the command does not run. */
  garbage?: boolean;
  /** Answers 200 with JSON that is not what Upstash sends; the command does not run. */
  wrongShape?: boolean;
  /** Answers every script with this error, like a server that cannot run it. Other commands run. */
  scriptError?: string;
  /** Runs the command, sends half of the reply and drops the connection. */
  resetMidReply?: boolean;
  /** Runs the command and drops the connection without any answer. */
  loseReply?: boolean;
  /** Drops all connections and stops listening. */
  refuse?: boolean;
  /** The fraction of the requests that the faults hit. The default is all of them. */
  rate?: number;
}

/** `flushScripts` happens once, at this request. */
export type FaultRequest = Faults & { flushScripts?: boolean };

/** Names the wrong field. The answer is 400. */
export class BadFaultError extends Error {}

const isFlag = (value: unknown) => typeof value === 'boolean';
const isMs = (value: unknown) => typeof value === 'number' && value >= 0 && value <= 600_000;

const FIELDS: Record<keyof FaultRequest, { valid(value: unknown): boolean; expected: string }> = {
  latencyMs: {
    valid: (value) => isMs(value) || isRange(value),
    expected: 'milliseconds (0 to 600000), or {"min","max"} in milliseconds',
  },
  hang: { valid: isFlag, expected: 'true or false' },
  status: {
    valid: (value) => Number.isInteger(value) && Number(value) >= 200 && Number(value) <= 599,
    expected: 'an HTTP status, 200 to 599',
  },
  garbage: { valid: isFlag, expected: 'true or false' },
  wrongShape: { valid: isFlag, expected: 'true or false' },
  scriptError: {
    valid: (value) => typeof value === 'string' && value !== '',
    expected: 'what the server says',
  },
  resetMidReply: { valid: isFlag, expected: 'true or false' },
  loseReply: { valid: isFlag, expected: 'true or false' },
  refuse: { valid: isFlag, expected: 'true or false' },
  rate: {
    valid: (value) => typeof value === 'number' && value >= 0 && value <= 1,
    expected: 'a share, 0 to 1',
  },
  flushScripts: { valid: isFlag, expected: 'true or false' },
};

function isRange(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  const { min, max } = value as Record<string, unknown>;
  return isMs(min) && isMs(max) && Number(min) <= Number(max);
}

export function parseFaults(value: unknown): FaultRequest {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new BadFaultError('expected a JSON object of faults');
  for (const [name, setting] of Object.entries(value)) {
    const field = Object.hasOwn(FIELDS, name) ? FIELDS[name as keyof FaultRequest] : undefined;
    if (field === undefined)
      throw new BadFaultError(`${name}: unknown fault (known: ${Object.keys(FIELDS).join(', ')})`);
    if (!field.valid(setting)) throw new BadFaultError(`${name}: expected ${field.expected}`);
  }
  const faults = value as FaultRequest;
  if (faults.refuse && (faults.rate ?? 1) < 1)
    throw new BadFaultError('rate: does not go with refuse, which closes the port to everyone');
  return faults;
}

/** The faults that hit one request: all that are set or, with a `rate`, sometimes none. */
export function drawFaults(faults: Faults, random: () => number): Faults {
  return random() < (faults.rate ?? 1) ? faults : {};
}

export function drawLatencyMs({ latencyMs = 0 }: Faults, random: () => number): number {
  if (typeof latencyMs === 'number') return latencyMs;
  return latencyMs.min + random() * (latencyMs.max - latencyMs.min);
}
