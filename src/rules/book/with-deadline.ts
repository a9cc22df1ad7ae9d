// A deadline for work that takes no signal, such as queries through Drizzle's HTTP driver.

/** Rejects with the signal's reason when the signal aborts. The work itself goes on. */
export async function withDeadline<T>(signal: AbortSignal, work: PromiseLike<T>): Promise<T> {
  const late = Promise.withResolvers<never>();
  const giveUp = () => late.reject(signal.reason);
  // A signal that has aborted already fires no event.
  if (signal.aborted) giveUp();
  signal.addEventListener('abort', giveUp, { once: true });
  try {
    return await Promise.race([work, late.promise]);
  } finally {
    signal.removeEventListener('abort', giveUp);
  }
}
