// Fake time passes only when no real work is under way. A digest takes as long as the machine needs: if a test let two
// fake seconds pass meanwhile, it would depend on how busy the machine is. So while time is fake,
// - the functions of `vi` that let time pass wait for real work (crypto.subtle) before each timer;
// - those that cannot wait throw if real work is under way;
// - a connection throws, because nobody can tell when the other side has answered.
// vitest.config.ts loads this file before each test file, so no test has to think of it.
import { Socket } from 'node:net';
import { vi } from 'vitest';

/** The real ones, before a test replaces them. */
const { setImmediate, performance } = globalThis;
/** For work that never ends. No test waits this long for real work, however busy the machine is. */
const MOST_MS = 60_000;
/** As many as Vitest allows. */
const MOST_TIMERS = 10_000;
const INSTALLED = Symbol.for('weir fake time');

/** Calls of crypto.subtle that have not ended, by their promises. */
const underWay = new Map<Promise<unknown>, string>();

const sayWork = () => [...underWay.values()].join(', ');
const tick = () => new Promise<void>((resolve) => void setImmediate(resolve));

/** Waits until all that can happen without time has happened. */
async function settleRealWork(): Promise<void> {
  const startedAtMs = performance.now();
  // All microtasks run before a tick ends. Only then it is known whether they have started real work.
  for (await tick(); underWay.size > 0; await tick())
    if (performance.now() - startedAtMs > MOST_MS)
      throw new Error(`fake time cannot pass: ${sayWork()} did not end within ${MOST_MS} ms`);
}

function assertNoRealWork(name: string): void {
  if (underWay.size === 0) return;
  throw new Error(
    `vi.${name}() would let fake time pass while real work is under way (${sayWork()}). ` +
      'Await that work first, or use the function of vi that ends in Async.',
  );
}

/** The clock of the fake timers knows when the next timer is due. It is a property of each replaced function. */
function nextTimerMs(): number | undefined {
  const { clock } = setTimeout as unknown as { clock?: { timers?: Record<string, { callAt: number }> } };
  let nextMs: number | undefined;
  for (const { callAt } of Object.values(clock?.timers ?? {}))
    if (nextMs === undefined || callAt < nextMs) nextMs = callAt;
  return nextMs;
}

function install(): void {
  for (const name of Object.getOwnPropertyNames(SubtleCrypto.prototype)) track(name);
  const { connect } = Socket.prototype;
  Socket.prototype.connect = function (this: Socket, ...args: Parameters<typeof connect>) {
    if (vi.isFakeTimers())
      throw new Error('a test in fake time opened a connection: what answers takes real time');
    return connect.apply(this, args);
  } as typeof connect;

  const { advanceTimersByTime, advanceTimersToNextTimer } = vi;
  /** Goes from timer to timer: each may start real work, and what follows that work may set an earlier timer. */
  vi.advanceTimersByTimeAsync = async (ms) => {
    const endMs = Date.now() + ms;
    await settleRealWork();
    for (let nextMs = nextTimerMs(); nextMs !== undefined && nextMs <= endMs; nextMs = nextTimerMs()) {
      advanceTimersToNextTimer();
      await settleRealWork();
    }
    // Another call of this function may have let more time pass.
    advanceTimersByTime(Math.max(0, endMs - Date.now()));
    await settleRealWork();
    return vi;
  };
  vi.advanceTimersToNextTimerAsync = async (steps = 1) => {
    await settleRealWork();
    for (let i = 0; i < steps; i += 1) {
      advanceTimersToNextTimer();
      await settleRealWork();
    }
    return vi;
  };
  vi.runAllTimersAsync = async () => {
    await settleRealWork();
    for (let i = 0; vi.getTimerCount() > 0; i += 1) {
      if (i === MOST_TIMERS) throw new Error(`after ${MOST_TIMERS} timers there is still another one`);
      await vi.advanceTimersToNextTimerAsync();
    }
    return vi;
  };
  guard('runOnlyPendingTimersAsync');
  guard('runOnlyPendingTimers');
  guard('runAllTimers');
  guard('advanceTimersByTime');
  guard('advanceTimersToNextTimer');
  guard('setSystemTime');
}

type Passing =
  | 'runOnlyPendingTimersAsync'
  | 'runOnlyPendingTimers'
  | 'runAllTimers'
  | 'advanceTimersByTime'
  | 'advanceTimersToNextTimer'
  | 'setSystemTime';

function guard(name: Passing): void {
  const real = vi[name] as (...args: unknown[]) => unknown;
  Object.assign(vi, {
    [name](...args: unknown[]) {
      if (vi.isFakeTimers()) assertNoRealWork(name);
      return real.apply(vi, args);
    },
  });
}

/** Notes calls of crypto.subtle until they end. They do the same as before. */
function track(name: string): void {
  const methods = SubtleCrypto.prototype as unknown as Record<string, unknown>;
  if (name === 'constructor' || typeof methods[name] !== 'function') return;
  const real = methods[name] as (...args: unknown[]) => unknown;
  methods[name] = function (this: typeof crypto.subtle, ...args: unknown[]) {
    const result = real.apply(this, args);
    if (!(result instanceof Promise)) return result;
    underWay.set(result, `crypto.subtle.${name}`);
    const end = () => void underWay.delete(result);
    result.then(end, end);
    return result;
  };
}

const state = globalThis as { [INSTALLED]?: true };
if (!state[INSTALLED]) {
  state[INSTALLED] = true;
  install();
}
