// Ends the request to the origin when the origin does not answer in time, or when the client has left: at once, or some
// time later if what the origin says must be known nevertheless.

export type EndReason = 'timeout' | 'client-gone';

export interface OriginDeadline {
  readonly signal: AbortSignal;
  /** Why the request has ended, if it has. A method: a getter in an object made for each request costs more than it. */
  reason(): EndReason | undefined;
  /** What the origin answers, unless the time is over before. */
  race<T>(answer: Promise<T>): Promise<T>;
  /** From now on the origin has `timeoutMs` to answer. */
  start(): void;
  /** It has answered. A client that has left, or leaves later, ends the request. */
  stop(): void;
}

export interface DeadlineOptions {
  readonly timeoutMs: number;
  /**
   * For so long the origin may still answer a client that has left. Undefined: the way to the origin was not handed over, so
   * it ends with the client.
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
 * A client that leaves ends the request: by its signal, or because the runtime then drops all that was not handed over. When
 * the time is over, the runtime ends the request with the answer to the client. So most requests need no controller.
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

/** For what was handed over: it goes on when the client has left, and must be ended. Workers ignore the client's signal. */
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
