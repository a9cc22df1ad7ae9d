// The port to what one region remembers of checks without a request: answers by idempotency key, and which charges have
// been given back or settled.

export interface CheckRecords {
  /** Undefined: nobody had claimed it, and now it is claimed. Else what stands there. */
  claim(name: string, text: string, signal: AbortSignal): Promise<string | undefined>;
  /** Replaces what stands there. */
  write(name: string, text: string, signal: AbortSignal): Promise<void>;
  drop(name: string, signal: AbortSignal): Promise<void>;
}

/** For so long a record stands, and a charge can be given back. */
export const CHECK_RECORD_MS = 24 * 3_600_000;
