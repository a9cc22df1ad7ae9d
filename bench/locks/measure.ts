// Many isolates on one region, each with its own subject.
import { startRedisServer } from '../../local/redis-server.ts';
import { startUpstashGateway } from '../../local/upstash-gateway/server.ts';
import type { Check } from '../../src/core/counting/check.ts';
import { CounterStoreError, formatAnnouncement } from '../../src/core/ports/region.ts';
import { createClient } from '../../src/redis/client.ts';
import { createUpstashStore } from '../../src/redis/counter-store.ts';
import { createRulesPointer } from '../../src/redis/region-keys.ts';
import { checksOf, mixedRules } from '../engine/rules.ts';
import { interleave, median, medianRatio, type Slice } from '../shared/rounds.ts';
import { createTakeWithKey } from './announcement-in-keys.ts';

export interface LocksOptions {
  readonly isolates: number;
  readonly holdMs: number;
  readonly rounds: number;
  say(line: string): void;
}

export interface Asked {
  /** Until the last isolate has its answer. */
  readonly ms: number;
  /** The time that each call waited for its locks. */
  readonly waitMs: number;
  readonly waitP99Ms: number;
}

export interface LocksResult {
  readonly requests: number;
  /** Why calls were not counted, one reason for each. */
  readonly uncounted: readonly string[];
  readonly inKeys: Asked;
  readonly inPipeline: Asked;
  /** The ratio of the times. */
  readonly ratio: number;
}

/** Calls that wait for many others must not time out. */
const PATIENT_MS = 60_000;
const ANNOUNCED = { sequence: 1, rules: 'a'.repeat(16), callers: 'b'.repeat(16) };

export async function measureLocks({ isolates, holdMs, rounds, say }: LocksOptions): Promise<LocksResult> {
  await using cleanup = new AsyncDisposableStack();
  const server = cleanup.adopt(await startRedisServer({ port: 0, name: 'locks' }), ({ stop }) => stop());
  const waits: number[] = [];
  const gateway = cleanup.adopt(
    await startUpstashGateway({
      port: 0,
      token: 'token',
      redisUrl: server.url,
      name: 'locks',
      locks: { holdMs, onWait: (ms) => waits.push(ms) },
    }),
    ({ stop }) => stop(),
  );
  const client = createClient({ url: gateway.url, token: 'token' });
  const signal = () => AbortSignal.timeout(PATIENT_MS);
  await createRulesPointer(client).write(ANNOUNCED, signal());
  const store = createUpstashStore(client);
  const takeWithKey = await createTakeWithKey(client, formatAnnouncement(ANNOUNCED));
  const subjects = await Promise.all(
    Array.from({ length: isolates }, (_, i) => checksOf(mixedRules(1, 1_000), { subject: `isolate ${i}` })),
  );

  const uncounted: string[] = [];
  /** All isolates ask at once. */
  const crowd = (noted: Asked[], take: (checks: readonly Check[]) => Promise<unknown>): Slice => {
    return async () => {
      waits.length = 0;
      const startedAtMs = performance.now();
      const answers = await Promise.allSettled(subjects.map(take));
      const ms = performance.now() - startedAtMs;
      for (const answer of answers) if (answer.status === 'rejected') uncounted.push(reasonOf(answer.reason));
      const sorted = waits.toSorted((a, b) => a - b);
      const waitP99Ms = sorted[Math.floor(sorted.length * 0.99)] ?? Number.NaN;
      noted.push({ ms, waitMs: median(waits), waitP99Ms });
      return ms;
    };
  };
  const [inKeys, inPipeline]: [Asked[], Asked[]] = [[], []];
  const times = await interleave(
    {
      inKeys: crowd(inKeys, (checks) => takeWithKey(checks, signal())),
      inPipeline: crowd(inPipeline, (checks) => store.take({ checks, withAnnouncement: true }, signal())),
    },
    { rounds, say },
  );
  const ratio = medianRatio(times.inKeys, times.inPipeline);
  const requests = (inKeys.length + inPipeline.length) * isolates;
  return { requests, uncounted, inKeys: middle(inKeys), inPipeline: middle(inPipeline), ratio };
}

const reasonOf = (error: unknown) => (error instanceof CounterStoreError ? error.failure : String(error));

/** The median of the counted rounds. The first one warms up. */
function middle([, ...noted]: readonly Asked[]): Asked {
  const of = (field: keyof Asked) => median(noted.map((asked) => asked[field]));
  return { ms: of('ms'), waitMs: of('waitMs'), waitP99Ms: of('waitP99Ms') };
}
