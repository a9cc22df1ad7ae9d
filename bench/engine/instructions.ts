// The instructions that Redis runs inside EVALSHA for one decision, counted by Callgrind. Unlike time, they do not
// depend on what else the machine does.

import { execFile } from 'node:child_process';
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { findOrInstallRedis } from '../../local/redis-server.ts';
import { ALGORITHM_IDS, type AlgorithmId } from '../../src/core/counting/algorithms/registry.ts';
import { type Callgrind, findOrInstallCallgrind } from '../instructions/callgrind.ts';
import type { BenchOptions, Table } from '../shared/bench.ts';
import { fixed } from '../shared/table.ts';
import { type BenchRedis, type ShaCall, startBenchRedis } from './bench-redis.ts';
import { createPeer, PEERS_OF, type PeerAlgorithm } from './peer.ts';
import {
  type BenchRule,
  COUNTS,
  type Count,
  checksOf,
  loadInto,
  mixedRules,
  subjects,
  takeCall,
} from './rules.ts';

/** So many that single calls that differ (a new second, a rehash) do not matter. */
const CALLS = 500;
const LIMIT = 1_000_000;
const WINDOW_MS = 60_000;
/** The same rules for a denial: nothing is left, and nothing comes back while the bench runs. */
const USED_UP = { limit: 1, windowMs: 3_600_000 };

/** Weir's instructions, in relation to those of the peer's calls for the same rules. */
const TARGETS = { admitted: { 1: 1.15, 3: 0.65, 5: 0.5 }, denied: { 1: 1.25, 3: 0.7, 5: 0.55 } } as const;
type Verdict = keyof typeof TARGETS;

export interface Instructions {
  /** For one decision. */
  readonly admitted: Record<Count, number>;
  readonly denied: Record<Count, number>;
  readonly peer: { readonly admitted: Record<Count, number>; readonly denied: Record<Count, number> };
  readonly ratios: { readonly admitted: Record<Count, number>; readonly denied: Record<Count, number> };
  readonly algorithms: Record<AlgorithmId, number>;
  /** One sliding-window-counter: a subject never seen before, the first request of a window, options. */
  readonly cases: Record<'fresh' | 'newWindow' | 'cost' | 'burst', number>;
}

interface Counter extends AsyncDisposable {
  readonly redis: BenchRedis;
  /** For one call. */
  count(calls: readonly ShaCall[]): Promise<number>;
}

export async function measureInstructions(options: BenchOptions): Promise<Instructions | undefined> {
  const callgrind = await findOrInstallCallgrind(options);
  if (!callgrind) return undefined;
  await using counter = await startCounter(callgrind, options);
  return await measure(counter, options);
}

async function startCounter(callgrind: Callgrind, options: BenchOptions): Promise<Counter> {
  await using cleanup = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'weir-engine-bench-'));
  cleanup.defer(() => rm(folder, { recursive: true, force: true }));
  const file = join(folder, 'callgrind');
  const binary = join(folder, 'redis-server');
  const words = [
    ...[callgrind.valgrind, '-q', '--tool=callgrind', '--toggle-collect=evalShaCommand'],
    `--callgrind-out-file=${file}`,
  ];
  await writeFile(binary, `#!/bin/sh\nexec ${words.join(' ')} ${await findOrInstallRedis(options)} "$@"\n`);
  await chmod(binary, 0o755);
  const redis = cleanup.use(await startBenchRedis(binary));
  const tell = (word: string) => promisify(execFile)(callgrind.control, [word, String(redis.pid)]);
  let dumps = 0;
  const owned = cleanup.move();
  return {
    redis,
    async count(calls) {
      await tell('--zero');
      await redis.run(calls);
      await tell('--dump');
      dumps += 1;
      const [, total] = /^totals: (\d+)$/m.exec(await readFile(`${file}.${dumps}`, 'latin1')) ?? [];
      if (total === undefined) throw new Error('callgrind has written no total');
      return Number(total) / calls.length;
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

async function measure({ redis, count }: Counter, { say, scaled }: BenchOptions): Promise<Instructions> {
  const script = await loadInto(redis);
  const size = scaled(CALLS);
  let sets = 0;
  const newSubjects = () => subjects(++sets).slice(0, size);
  const callsFor = (rules: readonly BenchRule[], some: readonly string[], cost = 1) =>
    Promise.all(
      some.map(async (subject, i) =>
        takeCall(script, await checksOf(rules, { subject, cost, seat: `seat-${sets}-${i}` })),
      ),
    );
  const earlier = async (rules: readonly BenchRule[], some: readonly string[]) =>
    redis.run(
      await Promise.all(
        some.map(async (subject) =>
          takeCall(script, await checksOf(rules, { subject }), Date.now() - WINDOW_MS),
        ),
      ),
    );
  /** Subjects that have counted in the previous window and in this one. */
  const steady = async (rules: readonly BenchRule[], cost = 1) => {
    const some = newSubjects();
    await earlier(rules, some);
    await redis.run(await callsFor(rules, some));
    return count(await callsFor(rules, some, cost));
  };
  const deniedBy = async (rules: readonly BenchRule[]) => {
    const some = newSubjects();
    await redis.run(await callsFor(rules, some));
    return count(await callsFor(rules, some));
  };
  const peer = await createPeer(redis);
  const peerCost = async (algorithm: PeerAlgorithm, verdict: Verdict) => {
    const some = newSubjects();
    const rule = { algorithm, ...(verdict === 'denied' ? USED_UP : { limit: LIMIT, windowMs: WINDOW_MS }) };
    if (verdict === 'admitted') await redis.run(await peer.calls(rule, some, Date.now() - WINDOW_MS));
    await redis.run(await peer.calls(rule, some));
    return count(await peer.calls(rule, some));
  };
  const perCount = async (of: (n: Count) => Promise<number>) => {
    const counts: Partial<Record<Count, number>> = {};
    for (const n of COUNTS) counts[n] = await of(n);
    return counts as Record<Count, number>;
  };
  const peerCounts = async (verdict: Verdict) => {
    const alone = new Map<PeerAlgorithm, number>();
    for (const algorithm of PEERS_OF[3]) alone.set(algorithm, await peerCost(algorithm, verdict));
    return perCount(async (n) => PEERS_OF[n].reduce((sum, one) => sum + (alone.get(one) ?? 0), 0));
  };
  const one = mixedRules(1, LIMIT);
  const admitted = await perCount((n) => steady(mixedRules(n, LIMIT)));
  const denied = await perCount((n) => deniedBy(mixedRules(n, 1).map((rule) => ({ ...rule, ...USED_UP }))));
  say('instructions: 1, 3 and 5 rules');
  const peers = { admitted: await peerCounts('admitted'), denied: await peerCounts('denied') };
  const ratio = (verdict: Verdict) =>
    perCount(async (n) => (verdict === 'admitted' ? admitted : denied)[n] / peers[verdict][n]);
  const algorithms: Partial<Record<AlgorithmId, number>> = {};
  for (const algorithm of ALGORITHM_IDS)
    algorithms[algorithm] = await steady([{ algorithm, limit: 1_000, windowMs: WINDOW_MS }]);
  say('instructions: each algorithm');
  const fresh = await count(await callsFor(one, newSubjects()));
  const seen = newSubjects();
  await earlier(one, seen);
  const newWindow = await count(await callsFor(one, seen));
  const burst: BenchRule = { algorithm: 'token-bucket', limit: LIMIT, windowMs: WINDOW_MS, burst: 2 * LIMIT };
  return {
    admitted,
    denied,
    peer: peers,
    ratios: { admitted: await ratio('admitted'), denied: await ratio('denied') },
    algorithms: algorithms as Record<AlgorithmId, number>,
    cases: {
      fresh,
      newWindow,
      cost: await steady(one, 5),
      burst: await steady([burst]),
    },
  };
}

export function instructionsTable(measured: Instructions | undefined): Table {
  const title = 'Redis instructions per decision, in thousands (inside EVALSHA, counted by Callgrind)';
  const head = ['decision', 'Weir', '@upstash/ratelimit', 'ratio', 'target', 'met'];
  if (!measured) return { title, head, rows: [], notes: ['Valgrind runs on Linux only.'] };
  const thousands = (count: number) => (count / 1_000).toFixed(1);
  const row = (verdict: Verdict, n: Count) => {
    const ratio = measured.ratios[verdict][n];
    const target = TARGETS[verdict][n];
    return [
      `${verdict}, ${n} ${n === 1 ? 'rule' : 'rules'}`,
      thousands(measured[verdict][n]),
      thousands(measured.peer[verdict][n]),
      fixed(ratio),
      `≤ ${target}`,
      ratio <= target ? 'yes' : 'NO',
    ];
  };
  return {
    title,
    head,
    rows: [
      ...COUNTS.map((n) => row('admitted', n)),
      ...COUNTS.map((n) => row('denied', n)),
      ...Object.entries(measured.algorithms).map(([id, count]) => [id, thousands(count)]),
      ...Object.entries(measured.cases).map(([name, count]) => [name, thousands(count)]),
    ],
    notes: ['Subjects have counted in this window and in the one before, unless the row says otherwise.'],
  };
}
