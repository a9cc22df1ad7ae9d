// The port to the runtime's `waitUntil`.

/** Takes work that may end after the response (`waitUntil`). */
export type AfterResponse = (work: Promise<unknown>) => void;
