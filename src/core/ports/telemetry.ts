// The port through which the gateway reports events. No request waits: events are counted in memory, and the isolate
// flushes the sums after responses, now and then.

import type { CheckResult, Decision, Incident } from '../decision.ts';
import type { Caller, CallerIds } from '../matching/caller.ts';
import type { RuleCheck } from '../matching/plan.ts';

export interface DecidedRequest {
  readonly decision: Decision;
  /** What went wrong, if anything did. */
  readonly incident?: Incident | undefined;
  /** The nearest region. */
  readonly region: string;
  /** The name of the route that the request goes to. */
  readonly route: string;
  /** Undefined if the gateway did not look up the caller. */
  readonly caller: Caller | undefined;
  /** By `clockMs`. */
  readonly startedAtMs: number;
  /** What the client was told instead of an answer of the origin. */
  readonly refused?: RefusedRequest | undefined;
}

export interface RefusedRequest {
  /** Names the request in the answer, in the log, and in the sample of denied requests. */
  readonly requestId: string;
  readonly method: string;
  readonly problem: { readonly status: number; readonly code: string };
}

/** A call of checks without a request. */
export interface CheckedCall
  extends Pick<DecidedRequest, 'decision' | 'incident' | 'region' | 'startedAtMs'> {
  /** Each check of a call may name another subject. */
  readonly subjects: readonly {
    readonly caller: Caller;
    readonly results: readonly CheckResult<RuleCheck>[];
  }[];
}

/** Charges of a check for one subject, which a service has given back or settled. */
export interface CorrectedUsage extends CallerIds {
  readonly chargedAtMs: number;
  /** One for each rule. */
  readonly charges: readonly {
    readonly ruleId: string;
    readonly cost: number;
    readonly realCost: number;
  }[];
}

export interface AnsweredRequest extends Omit<DecidedRequest, 'region' | 'incident' | 'refused'> {
  readonly status: number;
  /** The real cost that the origin reports; undefined if it reports none. */
  readonly cost?: number | undefined;
  /** Charges of rules with `refundOnError` were given back. */
  readonly isRefunded?: boolean | undefined;
}

/** A region that can receive sums. */
export interface FlushRegion {
  readonly name: string;
  readonly breaker: { state(nowMs: number): string };
}

export interface Telemetry {
  /** The clock for the times in reports. On Workers, a clock moves only when I/O ends. */
  clockMs(): number;
  decided(request: DecidedRequest): void;
  /** Checks that only looked are not reported. */
  checked(call: CheckedCall): void;
  corrected(usage: CorrectedUsage): void;
  /** The origin has answered, or was not reached. */
  answered(request: AnsweredRequest): void;
  /** Called last, with every response. Flushes sums that are due. */
  flush(regions: readonly FlushRegion[], afterResponse: AfterResponse): void;
}

// The port to the runtime's `waitUntil`.

/** Takes work that may end after the response (`waitUntil`). */
export type AfterResponse = (work: Promise<unknown>) => void;
