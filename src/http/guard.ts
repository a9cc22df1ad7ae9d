// Where failures of Weir's own work end. Weir decides, reports, counts and sets headers besides passing requests on.
// If any of that fails, the log gets the error, and the request goes on without it. A denied request stays denied.
import type { Log } from './log.ts';

type BugLog = Pick<Log, 'bug'>;

/** Takes the arguments apart from the function, so that no request needs a closure. Undefined if it threw. */
export function attempt<A, B, C, D, R>(
  log: BugLog,
  work: (a: A, b: B, c: C, d: D) => R,
  a: A,
  b: B,
  c: C,
  d: D,
): R | undefined;
export function attempt<A, B, C, R>(
  log: BugLog,
  work: (a: A, b: B, c: C) => R,
  a: A,
  b: B,
  c: C,
): R | undefined;
export function attempt<A, B, R>(log: BugLog, work: (a: A, b: B) => R, a: A, b: B): R | undefined;
export function attempt<A, R>(log: BugLog, work: (a: A) => R, a: A): R | undefined;
export function attempt<R>(
  log: BugLog,
  work: (a: unknown, b: unknown, c: unknown, d: unknown) => R,
  a: unknown,
  b?: unknown,
  c?: unknown,
  d?: unknown,
): R | undefined {
  try {
    return work(a, b, c, d);
  } catch (error) {
    reportBug(log, error);
    return undefined;
  }
}

/** The same for work that takes time. Only for requests that wait anyway: it costs a promise. */
export async function attemptLater<A, B, R>(
  log: BugLog,
  work: (a: A, b: B) => Promise<R>,
  a: A,
  b: B,
): Promise<R | undefined> {
  try {
    return await work(a, b);
  } catch (error) {
    reportBug(log, error);
    return undefined;
  }
}

/** Hands work over for after the response. Neither the runtime nor the work can make the request fail. */
export function runAfterResponse(log: BugLog, invocation: Invocation, work: Promise<unknown>): void {
  const reported = work.catch((error) => reportBug(log, error));
  try {
    invocation.executionCtx.waitUntil(reported);
  } catch (error) {
    reportBug(log, error);
  }
}

/** Hono's context: reading `executionCtx` throws if there is none. */
interface Invocation {
  readonly executionCtx: { waitUntil(work: Promise<unknown>): void };
}

export function reportBug(log: BugLog, error: unknown): void {
  try {
    log.bug(error);
  } catch {
    // Nothing is left that could tell anybody.
  }
}
