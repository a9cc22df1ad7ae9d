// Finds the most requests a second that this machine can send: the load doubles until it can no longer be sent in time.
import type { Edges } from '../../local/edges.ts';
import { steadyLoad } from '../../local/steady-load.ts';
import { openSystem } from './systems.ts';
import type { Ask, Shape } from './traffic.ts';

type Crowd = Pick<Shape, 'subjects' | 'isolates'>;

/** So high that no load reaches it. */
const ROOMY = { perSecond: 10_000_000, load: 1, windowSeconds: 4 };
const LEAST = 1_000;
/** Beyond it, this process is busy with sending: a single load took minutes where it should take seconds. */
const MOST = 32_000;
const STEP_MS = 1_000;
/** A load that ends later than this was not sent in time. */
const LATE_MS = 1_150;
/** Leaves processor time for requests near a limit, which are counted one by one. */
const PART = 0.5;

export async function highestRate(edges: Edges, crowd: Crowd): Promise<number> {
  const ask = await openSystem.weir(edges, { ...ROOMY, ...crowd });
  let highest = LEAST;
  while (highest < MOST && (await isSentInTime(ask, crowd, 2 * highest))) highest *= 2;
  return Math.max(LEAST, highest * PART);
}

async function isSentInTime(ask: Ask, { subjects, isolates }: Crowd, perSecond: number): Promise<boolean> {
  const startedAtMs = performance.now();
  const send = (i: number) => ask(i % isolates, `subject-${i % subjects}`);
  return await steadyLoad({ perSecond, ms: STEP_MS, send }).then(
    () => performance.now() - startedAtMs <= LATE_MS,
    // Too many requests wait for their answers.
    () => false,
  );
}
