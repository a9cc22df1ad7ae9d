// Part of a Worker that is built for one test: every function that a file under test imports, and every method of the
// services, can be told to fail. One request is under way at a time.

export type FaultMode =
  /** Throws at once, and does nothing. */
  | 'throws'
  /** Returns a promise that rejects, and does nothing. */
  | 'rejects'
  /** Does its work, then throws or rejects. */
  | 'fails late'
  /** Answers with headers that cannot be changed. */
  | 'immutable';

export interface Fault {
  readonly name: string;
  readonly mode: FaultMode;
}

export interface Called {
  readonly name: string;
  readonly isAsync: boolean;
}

/** Errors quote what they were given. No log line may hold it. */
export const SECRET = 'a-secret-in-a-message';

let fault: Fault | undefined;
let requests = 0;
let calls: Called[] = [];
let lines: string[] = [];
let failures = 0;

export function begin(next: Fault | undefined): void {
  fault = next;
  requests += 1;
  calls = [];
  lines = [];
  failures = 0;
}

export const told = () => ({ calls, lines, failures });
export const note = (line: string): void => void lines.push(line);

/** Each request fails at a place of its own, because the log samples by the place. */
function failureOf(name: string): Error {
  failures += 1;
  const error = new TypeError(SECRET);
  error.stack = `TypeError: ${SECRET}\n    at ${name.replace(/\W/g, '.')} (fault.ts:${requests}:1)`;
  return error;
}

export function failing<F>(name: string, real: F): F {
  if (typeof real !== 'function' || /^class\b/.test(Function.prototype.toString.call(real))) return real;
  const wrapped = function (this: unknown, ...args: unknown[]): unknown {
    const mode = fault?.name === name ? fault.mode : undefined;
    if (mode === 'throws') throw failureOf(name);
    if (mode === 'rejects') return Promise.reject(failureOf(name));
    const result: unknown = real.apply(this, args);
    calls.push({ name, isAsync: result instanceof Promise });
    if (mode === 'immutable') return (result as Promise<unknown>).then(frozen);
    if (mode === undefined) return result;
    if (!(result instanceof Promise)) throw failureOf(name);
    return result.then(() => Promise.reject(failureOf(name)));
  };
  return wrapped as F;
}

/** As those of a response that was fetched. */
function frozen(result: unknown): unknown {
  const { response } = result as { response: Response };
  const headers = new Headers(response.headers);
  for (const method of ['set', 'append', 'delete'])
    Object.defineProperty(headers, method, {
      value: () => {
        throw failureOf('headers');
      },
    });
  Object.defineProperty(response, 'headers', { value: headers });
  return result;
}

/** The same services. Each of their functions, and each method of a service, can fail. */
export function failingServices<S extends object>(services: S, path = 'services'): S {
  const copy: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(services)) copy[name] = failingMember(`${path}.${name}`, value);
  return copy as S;
}

/** Regions are part of the limiter: other tests break them. */
const LEFT_ALONE = /\.(regions|tokens|check)$/;

function failingMember(name: string, value: unknown): unknown {
  if (typeof value === 'function') return failing(name, value);
  const isService = typeof value === 'object' && value !== null && !Array.isArray(value);
  return isService && !LEFT_ALONE.test(name) ? failingServices(value, name) : value;
}
