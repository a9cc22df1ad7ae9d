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
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isStopped = false;
  let isLate = false;
  const { promise: late, reject } = Promise.withResolvers<never>();
  const end = () => {
    isLate = true;
    reject(new Error('the origin is late'));
  };
  return {
    signal: client,
    reason: () => (isLate ? 'timeout' : client.aborted ? 'client-gone' : undefined),
    race: (answer) => Promise.race([answer, late]),
    start() {
      if (!isStopped) timer ??= setTimeout(end, timeoutMs);
    },
    stop() {
      isStopped = true;
      if (timer !== undefined) clearTimeout(timer);
    },
  };
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
