// A request as the client sent it, and where failures of Weir's own work end. Weir decides, reports, counts and sets
// headers besides passing requests on. If any of that fails, the log gets the error, and the request goes on without it.
// A denied request stays denied.
import type { NamedCaller } from '../core/ports/callers.ts';
import type { Log } from './log.ts';

/**
 * Each read of a property of `Request` is a call into the runtime that makes a new string or object, so the properties
 * that several parts need are read once.
 */
export interface ClientRequest {
  readonly raw: Request;
  readonly url: string;
  readonly method: string;
  readonly headers: Headers;
  /** `CF-Connecting-IP`: the address that Cloudflare names. */
  readonly connectingIp: string | null;
  /** The app around Weir says who calls, so credentials in the request play no part. */
  readonly named?: NamedCaller | undefined;
}

export function readClientRequest(raw: Request): ClientRequest {
  const { url, method, headers } = raw;
  return { raw, url, method, headers, connectingIp: headers.get('CF-Connecting-IP') };
}

type BugLog = Pick<Log, 'bug'>;

/** Takes up to four arguments apart from the function, so that no request needs a closure. Undefined if it threw. */
export function attempt<Given extends [a?: unknown, b?: unknown, c?: unknown, d?: unknown], R>(
  log: BugLog,
  work: (...given: Given) => R,
  ...given: Given
): R | undefined;
export function attempt<R>(
  log: BugLog,
  work: (a: unknown, b: unknown, c: unknown, d: unknown) => R,
  a?: unknown,
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
export async function attemptLater<Given extends unknown[], R>(
  log: BugLog,
  work: (...given: Given) => Promise<R>,
  ...given: Given
): Promise<R | undefined> {
  try {
    return await work(...given);
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
