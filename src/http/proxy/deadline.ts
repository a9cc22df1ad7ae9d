// Ends the request to the origin when the origin does not answer in time, or when the client has left: at once, or some
// time later if what the origin says must be known nevertheless.

export type EndReason = 'timeout' | 'client-gone';

export interface OriginDeadline {
  readonly signal: AbortSignal;
  /** Why the signal was aborted, if it was. */
  readonly reason: EndReason | undefined;
  /** From now on the origin has `timeoutMs` to answer. */
  start(): void;
  /** It has answered. A client that has left, or leaves later, ends the request. */
  stop(): void;
}

export interface DeadlineOptions {
  readonly timeoutMs: number;
  /** For so long the origin may still answer a client that has left. */
  readonly outlivesClientMs?: number | undefined;
}

export function createDeadline(
  client: AbortSignal,
  { timeoutMs, outlivesClientMs = 0 }: DeadlineOptions,
): OriginDeadline {
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
    get reason() {
      return reason;
    },
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
