// Weir at three edges, with every algorithm whose limits are split.

import { EDGES, type EdgeName, type Edges } from '../../local/edges.ts';
import { ALGORITHM_IDS } from '../../src/core/counting/algorithms/registry.ts';
import { isStandIn } from '../../src/core/matching/plan.ts';
import type { RegionSystem, Size, Subject } from './traffic.ts';

const SPLIT = ALGORITHM_IDS.filter((id) => id !== 'concurrency');
let subjects = 0;

export async function createWeirSystem(edges: Edges, size: Size): Promise<RegionSystem> {
  const systems = await Promise.all(
    SPLIT.map(async (algorithm) => ({
      algorithm,
      system: await edges.open([{ algorithm, limit: size.limit, windowSeconds: size.windowMs / 1_000 }]),
    })),
  );
  return {
    subjects: systems.map(({ algorithm, system }): Subject => {
      subjects += 1;
      const name = `subject-${subjects}`;
      const at = Object.fromEntries(EDGES.map((edge) => [edge, system.openEdge(edge)]));
      return {
        name: algorithm,
        limit: { algorithm, ...size },
        async request(edge: EdgeName) {
          const decision = await at[edge]?.request(name);
          // A stand-in counts apart from the limit. On a busy machine a region may seem to need one.
          if (decision?.kind === 'counted' && decision.results.some(({ check }) => isStandIn(check)))
            return { kind: 'uncounted', reason: 'stand-in' };
          if (decision?.kind === 'counted') {
            const atMs = decision.results[0]?.outcome.nowMs ?? decision.nowMs;
            const remaining = decision.results[0]?.outcome.remaining;
            const isNear = decision.results[0]?.check.region === edge;
            return { kind: 'counted', allowed: decision.allowed, atMs, isNear, remaining };
          }
          const reason = decision?.kind === 'degraded' ? decision.reason : String(decision?.kind);
          return { kind: 'uncounted', reason };
        },
      };
    }),
    settled: async () => void (await Promise.all(systems.map(({ system }) => system.settled()))),
    farCalls: () => systems.reduce((sum, { system }) => sum + system.farCalls(), 0),
  };
}
