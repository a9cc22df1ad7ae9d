// Where the counters of a subject are kept: all in one key (as Weir does), one key per rule, or a hash. The
// first two by Weir's own script; all three by a small script that does little but read and write.
import type { BenchOptions, Table } from '../shared/bench.ts';
import { inTurns, interleave, median, type Slice } from '../shared/rounds.ts';
import { fixed } from '../shared/table.ts';
import type { BenchRedis, ShaCall } from './bench-redis.ts';
import layoutScript from './layout.lua';
import { COUNTS, type Count, checksOf, mixedRules, subjects, takeCall } from './rules.ts';

const ROUNDS = 41;
const SLICE = 500;
const LIMIT = 1_000_000;
const WINDOW_MS = 60_000;
const LAYOUTS = ['weir', 'weirKeyPerRule', 'value', 'keys', 'hash'] as const;
type Layout = (typeof LAYOUTS)[number];

const TITLES: Record<Layout, string> = {
  weir: 'Weir, one key per subject (as it is)',
  weirKeyPerRule: 'Weir, one key per rule',
  value: 'storage alone, one string per subject',
  keys: 'storage alone, one string per rule',
  hash: 'storage alone, one hash per subject',
};

interface Cost {
  readonly micros: number;
  /** Of the second request, when everything is there. */
  readonly commands: number;
  readonly bytes: number;
}

export type LayoutResult = Record<Layout, Record<Count, Cost>>;

type Calls = Record<Layout, (count: Count, subject: string) => Promise<ShaCall>>;

export async function measureLayout(
  redis: BenchRedis,
  weirSha: string,
  { say }: BenchOptions,
): Promise<LayoutResult> {
  const calls = callsOf(weirSha, await redis.load(layoutScript));
  const slices: Record<string, Slice> = {};
  for (const [i, [layout, count]] of pairs().entries()) {
    // Subjects of their own: a key that they shared would hold the rules of all.
    const all = await Promise.all(subjects(i).map((subject) => calls[layout](count, subject)));
    const part = inTurns(all, SLICE);
    slices[`${layout} ${count}`] = () => redis.micros(part());
  }
  const series = await interleave(slices, { rounds: ROUNDS, say: (line) => say(`layout: ${line}`) });

  const result = Object.fromEntries(LAYOUTS.map((layout) => [layout, {}])) as LayoutResult;
  for (const [layout, count] of pairs()) {
    const call = await calls[layout](count, '203.0.113.7');
    await redis.clear();
    await redis.run([call]);
    const commands = await redis.billed(() => redis.run([call]));
    const micros = median(series[`${layout} ${count}`] ?? []);
    result[layout][count] = { micros, commands, bytes: await redis.bytes() };
  }
  await redis.clear();
  return result;
}

const pairs = () => LAYOUTS.flatMap((layout) => COUNTS.map((count) => [layout, count] as const));

function callsOf(weirSha: string, storageSha: string): Calls {
  const weir = (keyPerRule: boolean) => async (count: Count, subject: string) =>
    takeCall(weirSha, await checksOf(mixedRules(count, LIMIT), { subject, keyPerRule }));
  const storage = (layout: 'value' | 'keys' | 'hash') => async (count: Count, subject: string) => {
    const keyPerRule = layout === 'keys';
    const checks = await checksOf(mixedRules(count, LIMIT), { subject, keyPerRule });
    const keys = [...new Set(checks.map(({ key }) => (keyPerRule ? key : `${key}:${layout}`)))];
    return { sha: storageSha, keys, args: [layout, String(WINDOW_MS), ...checks.map(({ id }) => id)] };
  };
  return {
    weir: weir(false),
    weirKeyPerRule: weir(true),
    value: storage('value'),
    keys: storage('keys'),
    hash: storage('hash'),
  };
}

export function layoutTable(result: LayoutResult): Table {
  const list = (layout: Layout, show: (cost: Cost) => string) =>
    COUNTS.map((count) => show(result[layout][count])).join(' / ');
  return {
    title: 'State layout, for 1 / 3 / 5 rules of one subject',
    head: ['layout', 'µs', 'commands', 'bytes'],
    rows: LAYOUTS.map((layout) => [
      TITLES[layout],
      list(layout, ({ micros }) => fixed(micros, 1)),
      list(layout, ({ commands }) => String(commands)),
      list(layout, ({ bytes }) => String(bytes)),
    ]),
    notes: [
      '"Storage alone" counts two windows for each rule and decides nothing: see bench/engine/layout.lua.',
    ],
  };
}
