// The scripts and calls of @upstash/ratelimit, as the package itself makes them. It runs on a client that only notes
// what it should send. This repository contains none of its Lua.
import { Ratelimit } from '@upstash/ratelimit';
import type { Redis } from '@upstash/redis';
import type { BenchRedis, ShaCall } from './bench-redis.ts';
import type { Count } from './rules.ts';

export const PEER_ALGORITHMS = ['peerFixed', 'peerSliding', 'peerToken'] as const;
export type PeerAlgorithm = (typeof PEER_ALGORITHMS)[number];

/** The peer's algorithms for the bench's one, three and five rules. Each is a call. */
export const PEERS_OF: Record<Count, readonly PeerAlgorithm[]> = {
  1: ['peerSliding'],
  3: PEER_ALGORITHMS,
  5: [...PEER_ALGORITHMS, 'peerSliding', 'peerToken'],
};

export interface PeerRule {
  readonly algorithm: PeerAlgorithm;
  readonly limit: number;
  readonly windowMs: number;
}

export interface Peer {
  /** The calls that the package would send for one decision about each subject, at `nowMs` or by its own clock. */
  calls(rule: PeerRule, subjects: readonly string[], nowMs?: number): Promise<ShaCall[]>;
}

interface Recorded {
  readonly hash: string;
  readonly keys: string[];
  readonly args: string[];
}

/** All three scripts of the package mean "admitted" by this reply. */
const ADMITTED = [1, 1e9, 1e9];

export async function createPeer(redis: BenchRedis): Promise<Peer> {
  const recorded: Recorded[] = [];
  const texts = new Map<string, string>();
  const shas = new Map<string, string>();

  const client = {
    async evalsha(hash: string, keys: string[], args: unknown[]) {
      recorded.push({ hash, keys, args: args.map(String) });
      // Makes the package send the script itself, once.
      if (!texts.has(hash)) throw new Error('NOSCRIPT');
      return ADMITTED;
    },
    async eval(text: string) {
      texts.set(recorded.at(-1)?.hash ?? '', text);
      return ADMITTED;
    },
  } as unknown as Redis;

  const loadedSha = async (hash: string) => {
    const known = shas.get(hash);
    if (known !== undefined) return known;
    const sha = await redis.load(texts.get(hash) ?? '');
    shas.set(hash, sha);
    return sha;
  };

  return {
    async calls({ algorithm, limit, windowMs }, subjects, nowMs) {
      const ratelimit = new Ratelimit({
        redis: client,
        limiter: limiterOf(algorithm, limit, windowMs),
        ephemeralCache: false,
        timeout: 0,
      });
      recorded.length = 0;
      for (const subject of subjects) await atTime(nowMs, () => ratelimit.limit(subject));
      const sent = recorded.slice();
      return Promise.all(sent.map(async ({ hash, ...rest }) => ({ sha: await loadedSha(hash), ...rest })));
    },
  };
}

function limiterOf(algorithm: PeerAlgorithm, limit: number, windowMs: number) {
  if (algorithm === 'peerFixed') return Ratelimit.fixedWindow(limit, `${windowMs} ms`);
  if (algorithm === 'peerSliding') return Ratelimit.slidingWindow(limit, `${windowMs} ms`);
  return Ratelimit.tokenBucket(limit, `${windowMs} ms`, limit);
}

/** The package reads the clock before its first await, so the clock is restored before any other code runs. */
function atTime<T>(nowMs: number | undefined, work: () => Promise<T>): Promise<T> {
  if (nowMs === undefined) return work();
  const realNow = Date.now;
  Date.now = () => nowMs;
  try {
    return work();
  } finally {
    Date.now = realNow;
  }
}
