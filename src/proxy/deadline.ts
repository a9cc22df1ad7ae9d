// Ends the request to the origin when the origin is too slow, or when the client has left. If Weir needs the origin's
// answer to settle a cost, the origin gets some more time after the client has left.

export type EndReason = 'timeout' | 'client-gone';

export interface OriginDeadline {
  readonly signal: AbortSignal;
  /** Why the request has ended, if it has. A method, because a getter costs more in an object made for each request. */
  reason(): EndReason | undefined;
  /** Resolves with the origin's answer; rejects if the time is over first. */
  race<T>(answer: Promise<T>): Promise<T>;
  /** From now on the origin has `timeoutMs` to answer. */
  start(): void;
  /** The origin has answered. From now on a client that leaves ends the request. */
  stop(): void;
}

export interface DeadlineOptions {
  readonly timeoutMs: number;
  /**
   * How long the origin may still answer after the client has left. Undefined: the call to the origin was not handed
   * over to `waitUntil`, so it ends with the client.
   */
  readonly outlivesClientMs?: number | undefined;
}

export function createDeadline(client: AbortSignal, options: DeadlineOptions): OriginDeadline {
  const { timeoutMs, outlivesClientMs } = options;
  return outlivesClientMs === undefined
    ? createUsual(client, timeoutMs)
    : createOutliving(client, timeoutMs, outlivesClientMs);
}

/**
 * Needs no controller. When the client leaves, its signal or the runtime ends the request. When the time is over, the
 * runtime ends the request once Weir has answered the client.
 */
function createUsual(client: AbortSignal, timeoutMs: number): OriginDeadline {
  return new Usual(client, timeoutMs);
}

/** A class, because most requests have one, and the methods of a class are made once. */
class Usual implements OriginDeadline {
  /** See `ByClock` in limiter/deadline.ts. No real signal: older runtimes let no module make one when it is loaded. */
  static readonly kept: OriginDeadline = new Usual({} as AbortSignal, 0);

  readonly signal: AbortSignal;
  readonly #timeoutMs: number;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isStopped = false;
  #isLate = false;
  #reject: ((error: Error) => void) | undefined;

  constructor(client: AbortSignal, timeoutMs: number) {
    this.signal = client;
    this.#timeoutMs = timeoutMs;
  }

  reason(): EndReason | undefined {
    return this.#isLate ? 'timeout' : this.signal.aborted ? 'client-gone' : undefined;
  }

  race<T>(answer: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#reject = reject;
      answer.then(resolve, reject);
    });
  }

  start(): void {
    if (!this.#isStopped) this.#timer ??= setTimeout(() => this.#end(), this.#timeoutMs);
  }

  stop(): void {
    this.#isStopped = true;
    if (this.#timer !== undefined) clearTimeout(this.#timer);
  }

  #end(): void {
    this.#isLate = true;
    this.#reject?.(new Error('the origin is late'));
  }
}

/** For work that was handed over. It outlives the client and ignores the client's signal, so it needs a controller. */
function createOutliving(client: AbortSignal, timeoutMs: number, outlivesClientMs: number): OriginDeadline {
  const controller = new AbortController();
  let reason: EndReason | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let lastTimer: ReturnType<typeof setTimeout> | undefined;
  let isStopped = false;
  const end = (why: EndReason) => {
    reason ??= why;
    controller.abort();
  };
  const leave = () => {
    if (isStopped || outlivesClientMs === 0) end('client-gone');
    else lastTimer = setTimeout(end, outlivesClientMs, 'client-gone');
  };
  if (client.aborted) end('client-gone');
  else client.addEventListener('abort', leave, { once: true });
  return {
    signal: controller.signal,
    reason: () => reason,
    race: (answer) => answer,
    start() {
      if (!isStopped) timer ??= setTimeout(end, timeoutMs, 'timeout');
    },
    stop() {
      isStopped = true;
      for (const one of [timer, lastTimer]) if (one !== undefined) clearTimeout(one);
      if (client.aborted) end('client-gone');
    },
  };
}
