// Checks what a caller in one region reads: Remaining should be L−1, L−2, … from the first request on.
import type { Edges } from '../../local/edges.ts';
import { createWeirSystem } from './weir.ts';

const SIZE = { limit: 30, windowMs: 3_600_000, windows: 1 };

/** The first request from which on Remaining is exact, for the worst algorithm. */
export async function exactFrom(edges: Edges): Promise<number> {
  const { subjects, settled } = await createWeirSystem(edges, SIZE);
  const from = await Promise.all(
    subjects.map(async (subject) => {
      let lastWrong = 0;
      for (let i = 1; i <= SIZE.limit; i += 1) {
        const answer = await subject.request('us');
        const isExact = answer.kind === 'counted' && answer.allowed && answer.remaining === SIZE.limit - i;
        if (!isExact) lastWrong = i;
      }
      return lastWrong + 1;
    }),
  );
  await settled();
  return Math.max(...from);
}
