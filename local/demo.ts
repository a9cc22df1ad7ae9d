// `npm run demo`: sends lively traffic of several callers and regions to a running `npm run dev`, so that the page has
// something to show. Each caller behaves differently, and one never stops hammering.
import { parseArgs } from 'node:util';
import { type DemoKey, demoKeys } from './demo-keys.ts';
import { type SteadyResult, steadyLoad } from './steady-load.ts';

const HELP = `npm run demo [-- --minutes 10] [--per-second 40]

  --minutes     end after so long (10, at most 120); Ctrl-C ends it sooner
  --per-second  requests a second, of all callers together (40, at most 200)

Needs a running \`npm run dev\`. PORT names its port (8787).`;

interface DemoCaller {
  /** This caller's part of all requests, relative to the other callers. */
  readonly weight: number;
  readonly ip: string;
  readonly key?: string | undefined;
  readonly regions: readonly string[];
  readonly paths: readonly string[];
}

/** Uses the keys that `npm run dev` made for ada and acme. */
const callersOf = ([ada, acme]: readonly DemoKey[]): readonly DemoCaller[] => [
  {
    weight: 30,
    ip: '198.51.100.10',
    key: acme?.key,
    regions: ['us', 'eu', 'ap'],
    paths: ['/api/orders', '/api/items/7'],
  },
  {
    weight: 8,
    ip: '198.51.100.20',
    key: ada?.key,
    regions: ['eu'],
    paths: ['/api/reports/1', '/api/orders'],
  },
  { weight: 10, ip: '203.0.113.7', regions: ['us'], paths: ['/login'] },
  { weight: 14, ip: '203.0.113.66', regions: ['ap'], paths: ['/api/search', '/'] },
  ...Array.from({ length: 12 }, (_, i) => ({
    weight: 2,
    ip: `192.0.2.${i + 1}`,
    regions: [['us', 'eu', 'ap'][i % 3] ?? 'us'],
    paths: ['/', '/hello', '/login', '/api/items/3'],
  })),
];

function chooser<T extends { readonly weight: number }>(all: readonly T[]): () => T {
  const total = all.reduce((sum, { weight }) => sum + weight, 0);
  return () => {
    let place = Math.random() * total;
    for (const one of all) {
      place -= one.weight;
      if (place < 0) return one;
    }
    return all[0] as T;
  };
}

const anyOf = <T>(list: readonly T[]): T => list[Math.floor(Math.random() * list.length)] as T;

async function send(url: string, { ip, key, regions, paths }: DemoCaller): Promise<number> {
  const answer = await fetch(`${url}${anyOf(paths)}`, {
    headers: { 'CF-Connecting-IP': ip, 'X-Weir-Region': anyOf(regions), ...(key && { 'X-API-Key': key }) },
    signal: AbortSignal.timeout(10_000),
  });
  await answer.arrayBuffer();
  return answer.status;
}

function parseNumber(name: string, text: string, most: number): number {
  const value = Number(text);
  if (value > 0 && value <= most) return value;
  throw new Error(`--${name} must be a number above 0, at most ${most}`);
}

const SLICE_MS = 5_000;

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      minutes: { type: 'string', default: '10' },
      'per-second': { type: 'string', default: '40' },
      help: { type: 'boolean' },
    },
  });
  if (values.help) return console.log(HELP);
  const endsAtMs = Date.now() + parseNumber('minutes', values.minutes, 120) * 60_000;
  const perSecond = parseNumber('per-second', values['per-second'], 200);
  const url = `http://localhost:${process.env['PORT'] || 8787}`;
  await fetch(`${url}/_weir/health`).catch(() => {
    throw new Error(`nothing answers at ${url}: start \`npm run dev\` first, or name its PORT`);
  });
  console.log(`weir: sending ${perSecond} requests a second to ${url}. Watch them at ${url}/_weir/`);
  const next = chooser(callersOf(await demoKeys()));
  while (Date.now() < endsAtMs) {
    const ms = Math.min(SLICE_MS, endsAtMs - Date.now());
    tell(await steadyLoad({ perSecond, ms, send: () => send(url, next()) }));
  }
}

function tell(results: readonly SteadyResult<number>[]): void {
  const counts = Map.groupBy(results, ({ value }) => (value === undefined ? 'no answer' : String(value)));
  console.log(`weir: ${[...counts].map(([status, all]) => `${status}: ${all.length}`).join(', ')}`);
}

try {
  await main();
} catch (error) {
  console.error(`weir: ${error instanceof Error ? error.message : error}`);
  process.exit(1);
}
