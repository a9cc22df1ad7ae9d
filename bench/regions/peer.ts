// MultiRegionRatelimit of @upstash/ratelimit, as its documentation shows it: one limiter at each edge, which knows the
// databases of all regions, its own first.
import { MultiRegionRatelimit } from '@upstash/ratelimit';
import { Redis } from '@upstash/redis';
import { EDGES, type EdgeName, type Edges } from '../../local/edges.ts';
import type { RegionSystem, Size, Subject } from './traffic.ts';

const KINDS = ['fixed-window', 'sliding-window-counter'] as const;
let subjects = 0;

export function createPeerSystem(edges: Edges, size: Size): RegionSystem {
  const pending: Promise<unknown>[] = [];
  return {
    subjects: KINDS.map((algorithm): Subject => {
      subjects += 1;
      const name = `peer-${subjects}`;
      const at = Object.fromEntries(
        EDGES.map((edge) => [edge, openLimiter(edges, edge, { algorithm, ...size })]),
      );
      return {
        name: algorithm,
        limit: { algorithm, ...size },
        async request(edge: EdgeName) {
          const answer = await at[edge]?.limit(name);
          if (!answer) throw new Error(`there is no edge ${edge}`);
          pending.push(answer.pending);
          // After its timeout the package lets every request pass.
          if (answer.reason === 'timeout') return { kind: 'uncounted', reason: 'timeout' };
          return { kind: 'counted', allowed: answer.success, atMs: Date.now() };
        },
      };
    }),
    settled: async () => void (await Promise.allSettled(pending)),
    farCalls: () => undefined,
  };
}

interface PeerLimit extends Size {
  readonly algorithm: (typeof KINDS)[number];
}

function openLimiter({ regions }: Edges, edge: EdgeName, { algorithm, limit, windowMs }: PeerLimit) {
  const open = ({ name, gateway, far }: Edges['regions'][number]) => {
    const { url, token } = name === edge ? gateway : far;
    return new Redis({ url, token, enableTelemetry: false });
  };
  const own = regions.filter(({ name }) => name === edge);
  const others = regions.filter(({ name }) => name !== edge);
  const window = `${windowMs} ms` as const;
  return new MultiRegionRatelimit({
    redis: [...own, ...others].map(open),
    limiter:
      algorithm === 'fixed-window'
        ? MultiRegionRatelimit.fixedWindow(limit, window)
        : MultiRegionRatelimit.slidingWindow(limit, window),
    analytics: false,
  });
}
