// Counts the commands that Upstash bills for one decision: EVALSHA and every command inside. The counts are exact, so
// tests use them, too.
import type { AlgorithmId } from '../../src/core/counting/algorithms/registry.ts';
import type { Check } from '../../src/core/counting/check.ts';
import { parseAnswer } from '../../src/redis/wire.ts';
import type { Table } from '../shared/bench.ts';
import type { BenchRedis } from './bench-redis.ts';
import { createPeer, PEERS_OF, type PeerAlgorithm } from './peer.ts';
import {
  type BenchRule,
  COUNTS,
  type Count,
  checksOf,
  type LoadedScript,
  mixedRules,
  takeCall,
} from './rules.ts';

const BUDGET = { admitted: 4, denied: 3 } as const;
/** Long, so that no window ends between two requests. */
const WINDOW_MS = 86_400_000;

export type Verdict = keyof typeof BUDGET;

export interface Commands {
  /** For a subject that was never seen before. */
  readonly fresh: number;
  /** For a subject that has counters; the most of all tries. */
  readonly steady: number;
}

let names = 0;
const newSubject = () => `198.51.100.${++names}`;

export async function countCommands(
  redis: BenchRedis,
  script: LoadedScript,
  rules: readonly BenchRule[],
  verdict: Verdict,
): Promise<Commands> {
  const once = async (verdictWanted: Verdict, subject: string, used: readonly BenchRule[], cost = 1) => {
    const checks = await checksOf(used, { subject, cost, seat: `seat-${++names}` });
    return redis.billed(async () =>
      expectVerdict(await redis.run([takeCall(script, checks)]), checks, verdictWanted),
    );
  };
  const subject = newSubject();
  if (verdict === 'admitted') {
    const fresh = await once('admitted', subject, rules);
    return {
      fresh,
      steady: Math.max(await once('admitted', subject, rules), await once('admitted', subject, rules)),
    };
  }
  const full = rules.map((rule) => ({ ...rule, limit: 1 }));
  const lastFull = rules.map((rule, i) => (i === rules.length - 1 ? { ...rule, limit: 1 } : rule));
  const other = newSubject();
  // A subject never seen before is denied only if the cost exceeds the limit.
  const fresh = await once('denied', newSubject(), full, 2);
  await once('admitted', subject, full);
  await once('admitted', other, lastFull);
  return {
    fresh,
    steady: Math.max(await once('denied', subject, full), await once('denied', other, lastFull)),
  };
}

function expectVerdict(replies: readonly unknown[], checks: readonly Check[], verdict: Verdict): void {
  const { outcomes } = parseAnswer('take', replies[0], checks);
  const admitted = outcomes.every(({ allowed }) => allowed);
  if (admitted !== (verdict === 'admitted')) throw new Error(`expected a request to be ${verdict}`);
}

/** Several rules of one algorithm. */
export const rulesOf = (algorithm: AlgorithmId, count: Count): BenchRule[] =>
  Array.from({ length: count }, (_, i) => ({ algorithm, limit: 1_000, windowMs: WINDOW_MS + i }));

type PerCount = Record<Count, number>;
export interface CommandsResult {
  readonly admitted: PerCount;
  readonly denied: PerCount;
  /** The same rules, with one call for each. */
  readonly peer: { readonly admitted: PerCount; readonly denied: PerCount };
}

export async function measureCommands(redis: BenchRedis, script: LoadedScript): Promise<CommandsResult> {
  const worst = async (verdict: Verdict) => {
    const counts: Partial<PerCount> = {};
    for (const count of COUNTS) {
      const rules = mixedRules(count, 1_000).map((rule, i) => ({ ...rule, windowMs: WINDOW_MS + i }));
      const { fresh, steady } = await countCommands(redis, script, rules, verdict);
      counts[count] = Math.max(fresh, steady);
    }
    return counts as PerCount;
  };
  const [admitted, denied] = [await worst('admitted'), await worst('denied')];
  const peer = { admitted: await peerWorst(redis, 'admitted'), denied: await peerWorst(redis, 'denied') };
  await redis.clear();
  return { admitted, denied, peer };
}

async function peerWorst(redis: BenchRedis, verdict: Verdict): Promise<PerCount> {
  const peer = await createPeer(redis);
  const alone = async (algorithm: PeerAlgorithm) => {
    const limit = verdict === 'admitted' ? 1_000 : 1;
    const calls = await peer.calls({ algorithm, limit, windowMs: WINDOW_MS }, ['198.51.100.1']);
    await redis.clear();
    const first = await redis.billed(() => redis.run(calls));
    const second = await redis.billed(() => redis.run(calls));
    return verdict === 'admitted' ? Math.max(first, second) : second;
  };
  const counts: Partial<PerCount> = {};
  for (const count of COUNTS) {
    counts[count] = 0;
    for (const algorithm of PEERS_OF[count]) counts[count] += await alone(algorithm);
  }
  return counts as PerCount;
}

export function commandsTable({ admitted, denied, peer }: CommandsResult): Table {
  const row = (verdict: Verdict, ours: PerCount, theirs: PerCount) => [
    verdict,
    ...COUNTS.map((count) => ours[count]),
    `≤ ${BUDGET[verdict]}`,
    COUNTS.every((count) => ours[count] <= BUDGET[verdict]) ? 'yes' : 'NO',
    COUNTS.map((count) => theirs[count]).join(' / '),
  ];
  return {
    title: 'Billed commands per decision (the worse of a fresh subject and a known one)',
    head: ['decision', '1 rule', '3 rules', '5 rules', 'budget', 'met', '@upstash/ratelimit'],
    rows: [row('admitted', admitted, peer.admitted), row('denied', denied, peer.denied)],
  };
}
