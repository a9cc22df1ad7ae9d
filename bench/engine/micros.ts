// Measures Redis's own time for a decision: Weir's script beside those of the peer and a bare counter, in turns.
import type { BenchOptions, Table } from '../shared/bench.ts';
import { inTurns, interleave, median, medianRatio, type Slice, sumOf } from '../shared/rounds.ts';
import { fixed } from '../shared/table.ts';
import type { BenchRedis } from './bench-redis.ts';
import { createPeer, PEER_ALGORITHMS, PEERS_OF, type PeerAlgorithm } from './peer.ts';
import { type BenchRule, checksOf, type LoadedScript, mixedRules, subjects, takeCall } from './rules.ts';

const ROUNDS = 61;
const SLICE = 500;
/** No request is ever denied. */
const LIMIT = 1_000_000;
const WINDOW_MS = 60_000;
const TARGETS = { one: 1, three: 0.5, five: 0.4 } as const;
const COUNT_OF = { one: 1, three: 3, five: 5 } as const;
/** The burst of the token-bucket among the three rules. */
const BURST = 2 * LIMIT;
/** The cost of each request, for all three rules. */
const COST = 5;

/** The floor for any limiter: it counts, and decides nothing. */
const FLOOR = `local count = redis.call('INCR', KEYS[1])
if count == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return count`;

/** The three rules, with one more option. */
type Option = 'burst' | 'cost';
export type Micros = Record<keyof typeof TARGETS | Option | PeerAlgorithm | 'floor', number>;
export type Ratios = Record<keyof typeof TARGETS, number>;

export interface MicrosResult {
  readonly rounds: number;
  readonly micros: Micros;
  readonly ratios: Ratios;
  /** Relative to the three rules without the option. */
  readonly overPlain: Record<Option, number>;
}

export async function measureMicros(
  redis: BenchRedis,
  script: LoadedScript,
  { say, scaled }: BenchOptions,
): Promise<MicrosResult> {
  const on = { redis, script, size: scaled(SLICE) };
  const three = mixedRules(3, LIMIT);
  const slices: Record<keyof Micros, Slice> = {
    one: await weirSlice(on, 1, mixedRules(1, LIMIT)),
    peerSliding: await peerSlice(on, 'peerSliding'),
    three: await weirSlice(on, 3, three),
    peerFixed: await peerSlice(on, 'peerFixed'),
    burst: await weirSlice(on, 6, three.map(withBurst)),
    five: await weirSlice(on, 5, mixedRules(5, LIMIT)),
    peerToken: await peerSlice(on, 'peerToken'),
    cost: await weirSlice(on, 7, three, COST),
    floor: await floorSlice(on),
  };
  const rounds = scaled(ROUNDS);
  const series = await interleave(slices, { rounds, say: (line) => say(`time: ${line}`) });
  await redis.clear();
  const ratio = (name: keyof Ratios) =>
    medianRatio(series[name], sumOf(...PEERS_OF[COUNT_OF[name]].map((algorithm) => series[algorithm])));
  return {
    rounds,
    micros: mapValues(series, median),
    ratios: { one: ratio('one'), three: ratio('three'), five: ratio('five') },
    overPlain: {
      burst: medianRatio(series.burst, series.three),
      cost: medianRatio(series.cost, series.three),
    },
  };
}

const mapValues = <K extends string, A, B>(record: Record<K, A>, map: (value: A) => B) =>
  Object.fromEntries(Object.entries<A>(record).map(([key, value]) => [key, map(value)])) as Record<K, B>;

const withBurst = (rule: BenchRule): BenchRule =>
  rule.algorithm === 'token-bucket' ? { ...rule, burst: BURST } : rule;

interface On {
  readonly redis: BenchRedis;
  readonly script: LoadedScript;
  /** The number of calls in a slice. */
  readonly size: number;
}

/** Every subject has counted in the previous window, like most real ones, so the sliding windows hold two windows. */
async function weirSlice(
  { redis, script, size }: On,
  set: number,
  rules: readonly BenchRule[],
  cost = 1,
): Promise<Slice> {
  const callsAt = (nowMs?: number) =>
    Promise.all(
      subjects(set).map(async (subject) => takeCall(script, await checksOf(rules, { subject, cost }), nowMs)),
    );
  await redis.run(await callsAt(Date.now() - WINDOW_MS));
  const part = inTurns(await callsAt(), size);
  return () => redis.micros(part());
}

async function peerSlice({ redis, size }: On, algorithm: PeerAlgorithm): Promise<Slice> {
  const peer = await createPeer(redis);
  // Each algorithm gets its own subjects: with one prefix, two of them would count in the same key.
  const own = subjects(100 + PEER_ALGORITHMS.indexOf(algorithm));
  const rule = { algorithm, limit: LIMIT, windowMs: WINDOW_MS };
  await redis.run(await peer.calls(rule, own, Date.now() - WINDOW_MS));
  const part = inTurns(own, size);
  return async () => redis.micros(await peer.calls(rule, part()));
}

async function floorSlice({ redis, size }: On): Promise<Slice> {
  const sha = await redis.load(FLOOR);
  const args = [String(WINDOW_MS)];
  const calls = subjects(200).map((subject) => ({ sha, keys: [`floor:${subject}`], args }));
  const part = inTurns(calls, size);
  return () => redis.micros(part());
}

export function microsTable({ rounds, micros, ratios, overPlain }: MicrosResult): Table {
  const { peerFixed, peerSliding, peerToken, floor } = micros;
  const row = (name: keyof Ratios, rules: string) => [
    rules,
    fixed(micros[name]),
    fixed(PEERS_OF[COUNT_OF[name]].reduce((sum, algorithm) => sum + micros[algorithm], 0)),
    fixed(ratios[name]),
    `≤ ${TARGETS[name]}`,
    ratios[name] <= TARGETS[name] ? 'yes' : 'NO',
  ];
  return {
    title: `Redis time per decision, µs (evalsha in INFO commandstats; ${subjects(0).length} subjects, all admitted)`,
    head: ['rules of one subject', 'Weir', '@upstash/ratelimit', 'ratio', 'target', 'met'],
    rows: [
      row('one', '1: sliding-window-counter'),
      row('three', '3: fixed, sliding, token'),
      row('five', '5: and sliding, token'),
      ['3, the token-bucket with a burst', fixed(micros.burst)],
      [`3, at a cost of ${COST}`, fixed(micros.cost)],
    ],
    notes: [
      `peer alone: fixed ${fixed(peerFixed)}, sliding ${fixed(peerSliding)}, token ${fixed(peerToken)};` +
        ` several rules are several calls. Bare INCR with PEXPIRE: ${fixed(floor)}.`,
      `Against the three rules without it: burst ${fixed(overPlain.burst)}, cost ${fixed(overPlain.cost)}.`,
      `Medians of ${rounds} rounds in turns; ratios are medians of each round's ratio. Only ratios mean something.`,
    ],
  };
}
