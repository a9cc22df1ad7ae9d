// Load that does not wait: a request is sent when its time has come, whether those before it were answered or not. So what is
// slow shows as slow, instead of slowing the load down.
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';

export interface SteadyLoadOptions<T> {
  readonly perSecond: number;
  readonly ms: number;
  /** `i` counts from 0. What it rejects with becomes the result's error. */
  readonly send: (i: number) => Promise<T>;
  /** Aborted: nothing more is sent, and what was sent is still waited for. */
  readonly signal?: AbortSignal;
}

export type SteadyResult<T> = {
  /** Since the load began. */
  readonly sentAtMs: number;
  readonly tookMs: number;
} & ({ readonly value: T; readonly error?: never } | { readonly error: unknown; readonly value?: never });

export const MAX_IN_FLIGHT = 2_000;

/** Resolves when the last answer has come, to the results in the order in which they were sent. */
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
  // Behind its time, it still lets answers in, which would otherwise seem to wait.
  if (elapsedMs() >= dueMs) await nextTurn();
  // More than once, because timers fire up to a millisecond early.
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
