// Weir at three edges, for every algorithm that can be lent.
import { EDGES, type EdgeName, type Edges } from '../../local/edges.ts';
import { ALGORITHM_IDS } from '../../src/core/algorithms/registry.ts';
import { LIMIT, type RegionSystem, type Subject, WINDOW_MS } from './traffic.ts';

const LENT = ALGORITHM_IDS.filter((id) => id !== 'concurrency');
let subjects = 0;

export async function createWeirSystem(edges: Edges): Promise<RegionSystem> {
  const systems = await Promise.all(
    LENT.map(async (algorithm) => ({
      algorithm,
      system: await edges.open([{ algorithm, limit: LIMIT, windowSeconds: WINDOW_MS / 1_000 }]),
    })),
  );
  return {
    subjects: systems.map(({ algorithm, system }): Subject => {
      subjects += 1;
      const name = `subject-${subjects}`;
      const at = Object.fromEntries(EDGES.map((edge) => [edge, system.openEdge(edge)]));
      return {
        name: algorithm,
        limit: { algorithm, limit: LIMIT, windowMs: WINDOW_MS },
        async request(edge: EdgeName) {
          const decision = await at[edge]?.request(name);
          if (decision?.kind !== 'counted') throw new Error(`not counted: ${JSON.stringify(decision)}`);
          return { allowed: decision.allowed, atMs: decision.nowMs };
        },
      };
    }),
    settled: async () => void (await Promise.all(systems.map(({ system }) => system.settled()))),
  };
}
