// Measures what matching costs, and whether that grows with the number of rules; how large all rules are, and how long
// they take to compile.
import type { MatchRequest, Snapshot } from '../../src/core/matching/snapshot.ts';
import { decodeSnapshot, encodeSnapshot, versionOf } from '../../src/core/matching/stored-snapshot.ts';
import type { BenchOptions } from '../shared/bench.ts';
import { inTurns, median } from '../shared/rounds.ts';
import { createContent, createRequests } from './random-rules.ts';

const ROUNDS = 201;
const REQUESTS = 2000;
const SLICE = 400;
const COMPILATIONS = 11;
const COUNTS = [10, 1000, 10_000] as const;

export type MatchMicros = Record<(typeof COUNTS)[number], number>;

/** Microseconds for a request: the median of interleaved slices, so that a slow moment affects all of them. */
export async function measureMatch({ scaled }: BenchOptions): Promise<MatchMicros> {
  const requests = createRequests(scaled(REQUESTS));
  const snapshots = await Promise.all(COUNTS.map(asLoaded));
  expectTheSame(snapshots, requests);
  const series = snapshots.map((snapshot) => ({ snapshot, micros: [] as number[] }));
  const next = inTurns(requests, scaled(SLICE));
  const rounds = scaled(ROUNDS);
  for (let round = -rounds; round < rounds; round++) {
    const part = next();
    for (const { snapshot, micros } of round % 2 === 0 ? series : series.toReversed()) {
      const value = measureSlice(snapshot, part.map(asArrived));
      // The first half warms up.
      if (round >= 0) micros.push(value);
    }
  }
  const [ten = 0, thousand = 0, tenThousand = 0] = series.map(({ micros }) => median(micros));
  return { 10: ten, 1000: thousand, 10000: tenThousand };
}

/** As an isolate loads it, from the stored text. */
async function asLoaded(count: number): Promise<Snapshot> {
  const text = encodeSnapshot(createContent(count));
  const snapshot = await decodeSnapshot(await versionOf(text), text);
  if (!snapshot) throw new Error('the snapshot cannot be read');
  return snapshot;
}

function measureSlice(snapshot: Snapshot, requests: readonly MatchRequest[]): number {
  let matched = 0;
  const startMs = performance.now();
  for (const request of requests) matched += snapshot.match(request).length;
  const tookMs = performance.now() - startMs;
  if (matched === 0) throw new Error('no rule has matched');
  return (tookMs * 1000) / requests.length;
}

/** Makes new strings, as a request brings them: V8 has not hashed them before. */
function asArrived({ matchPath, method, caller, nowMs }: MatchRequest): MatchRequest {
  const { ip, address, userId, apiKeyId, tenantId, tier } = caller;
  return {
    matchPath: renew(matchPath),
    method,
    nowMs,
    caller: {
      ip: renew(ip),
      address,
      userId: renew(userId),
      apiKeyId: renew(apiKeyId),
      tenantId: renew(tenantId),
      tier: renew(tier),
    },
  };
}

const renew = (text = '') => Buffer.from(text).toString();

/** If a request met more rules in the larger set, more than the number of rules would differ. */
function expectTheSame(snapshots: readonly Snapshot[], requests: readonly MatchRequest[]): void {
  for (const request of requests) {
    const answers = snapshots.map((snapshot) =>
      JSON.stringify(snapshot.match(request).map(({ rule, limit }) => [rule.id, limit])),
    );
    if (new Set(answers).size !== 1) throw new Error(`${request.matchPath} has several answers: ${answers}`);
  }
}

export interface SnapshotSize {
  readonly bytes: number;
  readonly compileMs: number;
}

/** From the stored text to a matcher, as in an isolate. */
export async function measureSnapshot(count: number, { scaled }: BenchOptions): Promise<SnapshotSize> {
  const text = encodeSnapshot(createContent(count));
  const version = await versionOf(text);
  const times: number[] = [];
  for (let i = 0; i < scaled(COMPILATIONS); i += 1) {
    const startMs = performance.now();
    await decodeSnapshot(version, text);
    times.push(performance.now() - startMs);
  }
  return { bytes: Buffer.byteLength(text), compileMs: median(times) };
}
