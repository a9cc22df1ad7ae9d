// A machine that stands still for long makes parts that are well look as if they were out.
import { monitorEventLoopDelay } from 'node:perf_hooks';

const MOST_TRIES = 8;

/** Plays it again if this process, in which the gateways run too, stood still for that long meanwhile. */
export async function playWithoutStandstill<T>(standstillMs: number, play: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    const delay = monitorEventLoopDelay({ resolution: 10 });
    delay.enable();
    const played = await play().finally(() => delay.disable());
    const stoodMs = delay.max / 1e6;
    if (stoodMs < standstillMs || tries === MOST_TRIES) return played;
    console.log(`again, because the machine stood still for ${Math.round(stoodMs)} ms`);
  }
}
