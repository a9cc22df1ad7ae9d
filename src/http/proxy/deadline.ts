// Ends the request to the origin when the client has left or the origin does not answer in time.

export type EndReason = 'timeout' | 'client-gone';

export interface OriginDeadline {
  readonly signal: AbortSignal;
  /** Why the signal was aborted, if it was. */
  readonly reason: EndReason | undefined;
  /** From now on the origin has `timeoutMs` to answer. */
  start(): void;
  /** It has answered. A client that leaves later still ends the request. */
  stop(): void;
}

export function createDeadline(client: AbortSignal, timeoutMs: number): OriginDeadline {
  const controller = new AbortController();
  let reason: EndReason | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isStopped = false;
  const end = (why: EndReason) => {
    reason ??= why;
    controller.abort();
  };
  if (client.aborted) end('client-gone');
  else client.addEventListener('abort', () => end('client-gone'), { once: true });
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
      if (timer !== undefined) clearTimeout(timer);
    },
  };
}
