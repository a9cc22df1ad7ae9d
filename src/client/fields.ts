// Parses the fields RateLimit-Policy and RateLimit of a response (IETF draft).

/** One policy in one response. */
export interface PolicyReading {
  readonly name: string;
  /** Units that the policy allows in each window. */
  readonly quota: number;
  readonly windowMs: number;
  readonly remaining: number;
  /** Whole seconds, rounded up by the server. */
  readonly resetSeconds: number;
}

/** Sticky, so that a quote which never ends ends the reading, and is not sought again from every later quote. */
const MEMBER = /[^"]*"((?:[^"\\]|\\.)*)"((?:;[a-z]+=(?:"[^"]*"|:[^:]*:|[^,;"\s]+))*)/gy;
const PARAMETER = /;([a-z]+)=(\d+)/g;

type Members = Map<string, Record<string, number>>;

function membersOf(field: string | null): Members {
  const found: Members = new Map();
  for (const [, name = '', parameters = ''] of (field ?? '').matchAll(MEMBER)) {
    const numbers: Record<string, number> = {};
    for (const [, key = '', value] of parameters.matchAll(PARAMETER)) numbers[key] = Number(value);
    found.set(name, numbers);
  }
  return found;
}

/** Policies without a window (connections) cannot be paced, and are left out. */
export function readingsOf(headers: Headers): PolicyReading[] {
  const policies = membersOf(headers.get('RateLimit-Policy'));
  return [...membersOf(headers.get('RateLimit'))].flatMap(([name, { r, t = 0 }]) => {
    const { q, w } = policies.get(name) ?? {};
    return q && w && r !== undefined
      ? [{ name, quota: q, windowMs: w * 1000, remaining: r, resetSeconds: t }]
      : [];
  });
}

/** The wait of Retry-After, which is in seconds or a date; undefined if there is none. */
export function retryAfterMs(headers: Headers, nowMs: number): number | undefined {
  const value = headers.get('Retry-After');
  if (!value) return undefined;
  const ms = /^\d+$/.test(value) ? Number(value) * 1000 : Date.parse(value) - nowMs;
  return Number.isNaN(ms) ? undefined : Math.max(0, ms);
}
