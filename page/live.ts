// Reads something again and again while a view is open and visible, and says how old the numbers are.
import { messageOf } from './api.ts';
import { h } from './dom.ts';

export interface LiveOptions<T> {
  readonly everyMs: number;
  /** The object of the sentence "Waiting for …". */
  readonly from: string;
  readonly read: (signal: AbortSignal) => Promise<T>;
  readonly show: (value: T) => void;
  /** Aborted when the person leaves the view. */
  readonly signal: AbortSignal;
}

/** After this long without an answer, the page says what it waits for. */
const SLOW_MS = 800;

/** The sign in the view. It says that the numbers are fresh, or why they are not. */
export function live<T>({ everyMs, from, read, show, signal }: LiveOptions<T>): HTMLElement {
  const sign = h('p', { class: 'live', role: 'status' }, '');
  let shownAtMs = 0;
  let trouble = '';
  let waitingSinceMs: number | undefined;

  const tell = () => {
    const now = Date.now();
    const isSlow = waitingSinceMs !== undefined && now - waitingSinceMs > SLOW_MS;
    const ageSeconds = Math.round((now - shownAtMs) / 1_000);
    const isOld = trouble !== '' || (shownAtMs > 0 && now - shownAtMs > 3 * everyMs);
    sign.classList.toggle('stale', isOld);
    sign.textContent =
      shownAtMs === 0
        ? trouble || (isSlow ? `Waiting for ${from}…` : '')
        : isOld
          ? `Old numbers, from ${ageSeconds} s ago. ${trouble || `Waiting for ${from}`}`
          : 'Live';
  };

  const once = async () => {
    if (document.hidden || waitingSinceMs !== undefined) return;
    waitingSinceMs = Date.now();
    try {
      const value = await read(signal);
      if (signal.aborted) return;
      show(value);
      shownAtMs = Date.now();
      trouble = '';
    } catch (error) {
      if (!signal.aborted) trouble = messageOf(error);
    } finally {
      waitingSinceMs = undefined;
      tell();
    }
  };

  const timers = [setInterval(once, everyMs), setInterval(tell, 500)];
  document.addEventListener('visibilitychange', once, { signal });
  signal.addEventListener('abort', () => timers.forEach(clearInterval));
  void once();
  return sign;
}
