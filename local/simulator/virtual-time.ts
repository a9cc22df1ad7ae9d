// Time that passes only when nothing else is left to do. While it is installed, the timers of the process and
// AbortSignal.timeout use it, and Math.random uses a seed. So the code under test runs unchanged, and every run can be
// repeated.
import type { Random } from '../random.ts';
import { type Event, EventHeap } from './event-heap.ts';

export interface VirtualTime extends Disposable {
  now(): number;
  after(ms: number, run: () => void): Event;
  /** How many events are still to come. */
  readonly pending: number;
  /** Runs until that moment, or until no event is left. */
  runUntil(atMs: number): Promise<void>;
}

/** The real timers. The loop below needs them while the process uses virtual ones. */
const { setImmediate, setTimeout, clearTimeout } = globalThis;
const realTimeout = AbortSignal.timeout;
const realRandom = Math.random;
const realDigest = crypto.subtle.digest;
/** How many events go into the queue of the process at once. */
const BATCH = 512;

export function installVirtualTime(startMs: number, random: Random): VirtualTime {
  const heap = new EventHeap();
  let nowMs = startMs;
  const after = (ms: number, run: () => void) => heap.add(nowMs + Math.max(0, Math.ceil(ms)), run);

  const install = (globals: object) => Object.assign(globalThis, globals);
  install({
    setTimeout: (run: () => void, ms = 0) => after(ms, run),
    clearTimeout(event: Event | undefined) {
      if (event) event.run = undefined;
    },
  });
  AbortSignal.timeout = (ms) =>
    new VirtualSignal(nowMs + ms, { now: () => nowMs, after }) as unknown as AbortSignal;
  Math.random = random;
  // Virtual time would not wait for it.
  crypto.subtle.digest = () => {
    throw new Error('a digest takes real time: make it before virtual time is installed');
  };

  /** False if no event is left before that moment. */
  const step = (untilMs: number): boolean => {
    const { first } = heap;
    if (!first || first.atMs > untilMs) return false;
    heap.take();
    if (first.run) {
      nowMs = first.atMs;
      first.run();
    }
    return true;
  };

  return {
    now: () => nowMs,
    after,
    get pending() {
      return heap.size;
    },
    async runUntil(atMs) {
      while (await runBatch(() => step(atMs)));
      nowMs = Math.max(nowMs, Math.min(atMs, Number.MAX_SAFE_INTEGER));
    },
    [Symbol.dispose]() {
      install({ setTimeout, clearTimeout });
      AbortSignal.timeout = realTimeout;
      Math.random = realRandom;
      crypto.subtle.digest = realDigest;
    },
  };
}

/**
 * Node drains all microtasks between two immediates. So everything that an event starts without a timer is done before
 * the next event. False if `step` has nothing left to do.
 */
function runBatch(step: () => boolean): Promise<boolean> {
  return new Promise((resolve, reject) => {
    let goesOn = true;
    const run = () => {
      try {
        goesOn &&= step();
      } catch (error) {
        goesOn = false;
        reject(error);
      }
    };
    for (let i = 0; i < BATCH; i += 1) setImmediate(run);
    setImmediate(() => resolve(goesOn));
  });
}

/** A real AbortSignal would cost more than the decision that it is for. This one does only what the code asks of it. */
class VirtualSignal {
  readonly endsAtMs: number;
  readonly #time: Pick<VirtualTime, 'now' | 'after'>;

  constructor(endsAtMs: number, time: Pick<VirtualTime, 'now' | 'after'>) {
    this.endsAtMs = endsAtMs;
    this.#time = time;
  }

  get aborted(): boolean {
    return this.#time.now() >= this.endsAtMs;
  }

  get reason(): unknown {
    return this.aborted ? new DOMException('the time is over', 'TimeoutError') : undefined;
  }

  throwIfAborted(): void {
    if (this.aborted) throw this.reason;
  }

  addEventListener(_: 'abort', listener: () => void): void {
    this.#time.after(this.endsAtMs - this.#time.now(), listener);
  }

  /** Does nothing: code that races with a signal ignores a listener that is called too late. */
  removeEventListener(): void {}
}

/** When a signal of this process aborts, if that is known. */
export function endOf(signal: AbortSignal): number {
  if (signal instanceof VirtualSignal) return (signal as VirtualSignal).endsAtMs;
  return signal.aborted ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
}
