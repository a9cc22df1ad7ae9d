// Measures the memory of one subject in Redis, all its keys together: limit 100, 50 units used one by one.
import { ALGORITHM_IDS, type AlgorithmId } from '../../src/core/counting/algorithms/registry.ts';
import type { Table } from '../shared/bench.ts';
import type { BenchRedis } from './bench-redis.ts';
import { createPeer, PEER_ALGORITHMS, type Peer, type PeerAlgorithm } from './peer.ts';
import { type BenchRule, checksOf, type LoadedScript, mixedRules, takeCall } from './rules.ts';

const SUBJECT = '203.0.113.77';
const LIMIT = 100;
const USED = 50;
const WINDOW_MS = 60_000;
/** Spreads the units over one window, because a log remembers each moment separately. */
const STEP_MS = 100;

export type Bytes = Record<
  AlgorithmId | 'three' | 'five' | PeerAlgorithm | 'peerSlidingTwoWindows' | 'peerThree',
  number
>;

export async function measureBytes(redis: BenchRedis, script: LoadedScript): Promise<Bytes> {
  // Uses the next window: a counter expires at a moment, and must still be there when its memory is measured.
  const windowStartMs = Math.ceil(Date.now() / WINDOW_MS) * WINDOW_MS;
  const peer = await createPeer(redis);
  const weir = (rules: readonly BenchRule[]) => weirBytes(redis, script, rules, windowStartMs);
  const alone: Partial<Bytes> = {};
  for (const algorithm of ALGORITHM_IDS)
    alone[algorithm] = await weir([{ algorithm, limit: LIMIT, windowMs: WINDOW_MS }]);
  for (const algorithm of PEER_ALGORITHMS)
    alone[algorithm] = await peerBytes(redis, peer, algorithm, [windowStartMs]);
  const bytes = alone as Bytes;
  const three = await weir(mixedRules(3, LIMIT));
  const five = await weir(mixedRules(5, LIMIT));
  const twoWindows = [windowStartMs - WINDOW_MS, windowStartMs];
  const peerSlidingTwoWindows = await peerBytes(redis, peer, 'peerSliding', twoWindows);
  const peerThree = bytes.peerFixed + bytes.peerSliding + bytes.peerToken;
  await redis.clear();
  return { ...bytes, three, five, peerSlidingTwoWindows, peerThree };
}

const moments = (startMs: number) => Array.from({ length: USED }, (_, i) => startMs + i * STEP_MS);

async function weirBytes(
  redis: BenchRedis,
  script: LoadedScript,
  rules: readonly BenchRule[],
  startMs: number,
): Promise<number> {
  const calls = moments(startMs).map(async (nowMs) =>
    takeCall(script, await checksOf(rules, { subject: SUBJECT, seat: String(nowMs) }), nowMs),
  );
  await redis.clear();
  await redis.run(await Promise.all(calls));
  return redis.bytes();
}

/** Uses the package's default prefix, and measures each algorithm alone, because two would share keys. */
async function peerBytes(
  redis: BenchRedis,
  peer: Peer,
  algorithm: PeerAlgorithm,
  startsMs: readonly number[],
): Promise<number> {
  await redis.clear();
  for (const nowMs of startsMs.flatMap(moments))
    await redis.run(await peer.calls({ algorithm, limit: LIMIT, windowMs: WINDOW_MS }, [SUBJECT], nowMs));
  return redis.bytes();
}

export function bytesTable(bytes: Bytes): Table {
  const { peerFixed, peerSliding, peerToken, peerThree } = bytes;
  const peers: Partial<Record<AlgorithmId, number>> = {
    'fixed-window': peerFixed,
    'sliding-window-counter': peerSliding,
    'token-bucket': peerToken,
  };
  return {
    title: `Bytes per subject (MEMORY USAGE of all its keys; limit ${LIMIT}, ${USED} used)`,
    head: ['rules', 'Weir', '@upstash/ratelimit'],
    rows: [
      ...ALGORITHM_IDS.map((id) => [id, bytes[id], peers[id] ?? '']),
      ['three: fixed, sliding, token', bytes.three, peerThree],
      ['five: and sliding, token', bytes.five, peerThree + peerSliding + peerToken],
    ],
    notes: [
      `three ≤ peer's three: ${bytes.three <= peerThree ? 'yes' : 'NO'}. The peer's sliding window is counted with one key;` +
        ` from its second window on it has two: ${bytes.peerSlidingTwoWindows}.`,
    ],
  };
}
