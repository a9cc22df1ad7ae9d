// For what takes no signal of its own, such as Drizzle's HTTP driver: what is late is not waited for.

/** The work goes on; only its answer is no longer awaited. Rejects with the signal's reason. */
export async function withDeadline<T>(signal: AbortSignal, work: PromiseLike<T>): Promise<T> {
  const late = Promise.withResolvers<never>();
  const giveUp = () => late.reject(signal.reason);
  // A signal that has already ended tells nobody any more.
  if (signal.aborted) giveUp();
  signal.addEventListener('abort', giveUp, { once: true });
  try {
    return await Promise.race([work, late.promise]);
  } finally {
    signal.removeEventListener('abort', giveUp);
  }
}
