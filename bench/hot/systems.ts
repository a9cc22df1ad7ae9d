// The systems that the bench compares: Weir, and @upstash/ratelimit with its cache of denials and with its cached
// window. Each isolate has a memory of its own.
import { Ratelimit } from '@upstash/ratelimit';
import { Redis } from '@upstash/redis';
import { Redis as IoRedis } from 'ioredis';
import type { Edges } from '../../local/edges.ts';
import { CENSUS_KEY } from '../../src/core/counting/keys.ts';
import { type Ask, limitOf, type Shape } from './traffic.ts';

export const SYSTEMS = ['weir', 'upstash', 'upstashCached'] as const;
export type System = (typeof SYSTEMS)[number];

export const openSystem: Readonly<Record<System, (edges: Edges, shape: Shape) => Promise<Ask>>> = {
  async weir(edges, shape) {
    await forgetIsolates(edges);
    const { windowSeconds } = shape;
    const rule = { algorithm: 'fixed-window', limit: limitOf(shape), windowSeconds } as const;
    const system = await edges.open([{ ...rule, onUnavailable: 'closed', shares: { us: 1 } }]);
    const isolates = Array.from({ length: shape.isolates }, () => system.openEdge('us'));
    return async (isolate, subject) => {
      const decision = await isolates[isolate]?.request(subject);
      if (decision?.kind !== 'counted')
        return { allowed: false, atMs: 0, uncounted: decision?.kind ?? 'none' };
      return { allowed: decision.allowed, atMs: decision.results[0]?.outcome.nowMs ?? decision.nowMs };
    };
  },
  upstash: async (edges, shape) =>
    askPeer(edges, shape, Ratelimit.fixedWindow(limitOf(shape), `${shape.windowSeconds} s`)),
  upstashCached: async (edges, shape) =>
    askPeer(edges, shape, Ratelimit.cachedFixedWindow(limitOf(shape), `${shape.windowSeconds} s`)),
};

/** The isolates of the last shape are gone, but a region would still count them for two minutes. */
async function forgetIsolates({ regions }: Edges): Promise<void> {
  for (const { redis } of regions) {
    const client = new IoRedis(redis.url);
    await client.del(CENSUS_KEY);
    client.disconnect();
  }
}

let peers = 0;

function askPeer(
  { regions }: Edges,
  { isolates }: Shape,
  limiter: ReturnType<typeof Ratelimit.fixedWindow>,
): Ask {
  const { url, token } = regions.find(({ name }) => name === 'us')?.gateway ?? { url: '', token: '' };
  peers += 1;
  const prefix = `peer-${peers}`;
  const limiters = Array.from({ length: isolates }, () => {
    const redis = new Redis({ url, token, enableTelemetry: false });
    return new Ratelimit({ redis, limiter, prefix, ephemeralCache: new Map(), analytics: false });
  });
  return async (isolate, subject) => {
    const answer = await limiters[isolate]?.limit(subject);
    if (!answer || answer.reason === 'timeout') return { allowed: false, atMs: 0, uncounted: 'timeout' };
    return { allowed: answer.success, atMs: Date.now() };
  };
}
