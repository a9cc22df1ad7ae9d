// How many requests a second of one hot subject this machine gives: an isolate is asked as fast as it answers.
import type { Edges } from '../../local/edges.ts';
import { openSystem } from './systems.ts';
import type { Shape } from './traffic.ts';

const ROOMY: Shape = { subjects: 1, isolates: 1, perSecond: 10_000_000, load: 1, windowSeconds: 4 };
const WARM_UP_MS = 2_000;
const MEASURE_MS = 1_000;
const AT_ONCE = 50;
/** The load must be sent in time, and that takes processor time, too. */
const PART = 0.5;
const STEP = 500;

export async function highestRate(edges: Edges): Promise<number> {
  const ask = await openSystem.weir(edges, ROOMY);
  const askFor = async (ms: number) => {
    const endsAtMs = performance.now() + ms;
    let count = 0;
    const keepAsking = async () => {
      while (performance.now() < endsAtMs) {
        await ask(0, 'hot');
        count += 1;
        // Timers and sockets get their turn, too.
        if (count % AT_ONCE === 0) await new Promise((resolve) => setImmediate(resolve));
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, keepAsking));
    return (count * 1_000) / ms;
  };
  await askFor(WARM_UP_MS);
  const perSecond = await askFor(MEASURE_MS);
  return Math.max(STEP, Math.floor((perSecond * PART) / STEP) * STEP);
}
