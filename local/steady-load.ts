// Load that does not wait: each request is sent at its time, whether earlier ones were answered or not. So slow answers
// show as slow, instead of slowing the load down.
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';

export interface SteadyLoadOptions<T> {
  readonly perSecond: number;
  readonly ms: number;
  /** `i` counts from 0. If it rejects, the result has the error. */
  readonly send: (i: number) => Promise<T>;
  /** If aborted, nothing more is sent. Answers to sent requests are still awaited. */
  readonly signal?: AbortSignal;
}

export type SteadyResult<T> = {
  /** Time since the load began. */
  readonly sentAtMs: number;
  readonly tookMs: number;
} & ({ readonly value: T; readonly error?: never } | { readonly error: unknown; readonly value?: never });

export const MAX_IN_FLIGHT = 2_000;

/** Resolves after the last answer, to the results in the order in which requests were sent. */
export async function steadyLoad<T>(options: SteadyLoadOptions<T>): Promise<SteadyResult<T>[]> {
  const { perSecond, ms, send, signal } = options;
  const total = Math.floor((perSecond * ms) / 1_000);
  const startedAtMs = performance.now();
  const elapsedMs = () => performance.now() - startedAtMs;
  const results: Promise<SteadyResult<T>>[] = [];
  let inFlight = 0;
  for (let i = 0; i < total && !signal?.aborted; i += 1) {
    await waitUntil((i * 1_000) / perSecond, elapsedMs, signal);
    if (signal?.aborted) break;
    if (inFlight === MAX_IN_FLIGHT) throw new Error(`${MAX_IN_FLIGHT} requests wait for their answers`);
    inFlight += 1;
    results.push(sendOne(send, i, elapsedMs).finally(() => (inFlight -= 1)));
  }
  return Promise.all(results);
}

async function waitUntil(dueMs: number, elapsedMs: () => number, signal: AbortSignal | undefined) {
  // If the load is behind its time, answers must still be read. Otherwise they would seem to wait.
  if (elapsedMs() >= dueMs) await nextTurn();
  // Loops, because timers fire up to a millisecond early.
  while (elapsedMs() < dueMs && !signal?.aborted)
    await sleep(Math.ceil(dueMs - elapsedMs()), undefined, signal && { signal }).catch(() => {});
}

async function sendOne<T>(
  send: (i: number) => Promise<T>,
  i: number,
  elapsedMs: () => number,
): Promise<SteadyResult<T>> {
  const sentAtMs = elapsedMs();
  try {
    const value = await send(i);
    return { sentAtMs, tookMs: elapsedMs() - sentAtMs, value };
  } catch (error) {
    return { sentAtMs, tookMs: elapsedMs() - sentAtMs, error };
  }
}
