// The port through which the gateway tells what has happened. Nothing here waits: what is told is counted in memory, and
// handed over after a response, now and then.
import type { Decision, DegradedReason, Fallback } from '../counting/decision.ts';
import type { AfterResponse, Caller } from '../matching/caller.ts';

export interface DecidedRequest {
  readonly decision: Decision;
  /** What went wrong on the way, if anything. */
  readonly incident?:
    | { readonly reason: DegradedReason; readonly fallback?: Fallback | undefined }
    | undefined;
  /** The nearest one. */
  readonly region: string;
  /** The name of the route that the request goes to. */
  readonly route: string;
  /** Undefined if nobody was asked who calls. */
  readonly caller: Caller | undefined;
  /** By `clockMs`. */
  readonly startedAtMs: number;
}

export interface AnsweredRequest extends Omit<DecidedRequest, 'region' | 'incident'> {
  readonly status: number;
  /** What the origin says the request cost; undefined if it says nothing. */
  readonly cost?: number | undefined;
  /** Charges of rules with `refundOnError` were given back. */
  readonly isRefunded?: boolean | undefined;
}

/** Where sums can be handed over to: the regions of the request, nearest first. */
export interface HandOverRegion {
  readonly name: string;
  readonly breaker: { state(nowMs: number): string };
}

export interface Telemetry {
  /** For the times that are told here. On Workers, a clock moves only when I/O ends. */
  clockMs(): number;
  decided(request: DecidedRequest): void;
  /** The origin has answered, or was not reached. */
  answered(request: AnsweredRequest): void;
  /** With every response, last of all. Hands over what is due. */
  handOver(regions: readonly HandOverRegion[], afterResponse: AfterResponse): void;
}
