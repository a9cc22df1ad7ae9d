// The port to a region's records of checks without a request: answers by idempotency key, and ids that have been
// refunded or settled.

export interface CheckRecords {
  /** Claims the name. Returns undefined on success, else the text that is there already. */
  claim(name: string, text: string, signal: AbortSignal): Promise<string | undefined>;
  /** Replaces the text. */
  write(name: string, text: string, signal: AbortSignal): Promise<void>;
  drop(name: string, signal: AbortSignal): Promise<void>;
}

/** How long Weir keeps a record, and how long a service can give a charge back. */
export const CHECK_RECORD_MS = 24 * 3_600_000;
