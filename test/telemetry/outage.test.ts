// All Redis servers freeze: the alert fires while the outage lasts, by what real isolates tell Prometheus. Afterwards
// each request has been counted once, and no series has gone back.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { healRegion, regionFault } from '../../local/fault-catalogue.ts';
import { findOrInstallPrometheus } from '../../local/prometheus.ts';
import { type IsolateName, REGIONS, type Weir } from '../../local/weir.ts';
import { startWeir } from '../shared/weir.ts';

const ISOLATES: readonly IsolateName[] = ['one', 'two', 'three'];
const ALERTS = fileURLToPath(new URL('../../ops/alerts.yml', import.meta.url));
const frozen = regionFault('redis-frozen', { slowMs: 0 });

let weir: Weir;
let promtool: string;
beforeAll(async () => {
  ({ promtool } = await findOrInstallPrometheus({ say: (line) => console.log(line) }));
  // The deadline opens breakers soon. Prometheus asks Postgres by itself only at midnight.
  weir = await startWeir({ TELEMETRY_SECONDS: '0.1', DEADLINE_MS: '300', DATABASE_CHECK_MINUTES: '1440' });
  await weir.admin('/rules', {
    method: 'POST',
    body: {
      name: 'all',
      resource: '/*',
      scope: 'ip',
      algorithm: 'fixed-window',
      limit: 1_000_000,
      windowSeconds: 3600,
    },
  });
});
afterAll(() => weir?.[Symbol.asyncDispose]());

type Samples = ReadonlyMap<string, number>;

async function scrape(isolate: IsolateName): Promise<Samples> {
  const headers = { Authorization: `Bearer ${weir.token}` };
  const text = await (await weir.call('/_weir/metrics', { isolate, headers })).text();
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return new Map(
    lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ')))]),
  );
}

const sumOf = (samples: Samples, series: RegExp) =>
  [...samples].reduce((sum, [name, value]) => (series.test(name) ? sum + value : sum), 0);

let sent = 0;
let degraded = 0;
async function load(rounds: number): Promise<void> {
  for (let i = 0; i < rounds; i += 1)
    await Promise.all(
      ISOLATES.map(async (isolate) => {
        const answer = await weir.call('/x', { isolate });
        await answer.body?.cancel();
        sent += 1;
        if (answer.headers.get('X-Weir-Fallback') === 'open') degraded += 1;
      }),
    );
}

/** Whether promtool finds the alert firing at the last minute, if each scrape is a minute after the one before it. */
function firing(scrapes: readonly Samples[], alert: string): boolean {
  const names = new Set(scrapes.flatMap((samples) => [...samples.keys()]));
  const series = [...names].map((name) => ({
    series: name,
    values: scrapes.map((samples) => samples.get(name) ?? '_').join(' '),
  }));
  const folder = mkdtempSync(join(tmpdir(), 'weir-outage-'));
  const test = {
    rule_files: [ALERTS],
    tests: [
      {
        interval: '1m',
        input_series: series,
        promql_expr_test: [
          {
            expr: `count(ALERTS{alertname="${alert}",alertstate="firing"}) > bool 0`,
            eval_time: `${scrapes.length - 1}m`,
            exp_samples: [{ labels: '{}', value: 1 }],
          },
        ],
      },
    ],
  };
  try {
    const file = join(folder, 'test.yml');
    // JSON is YAML.
    writeFileSync(file, JSON.stringify(test));
    return spawnSync(promtool, ['test', 'rules', file], { encoding: 'utf8' }).status === 0;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

it('WeirFailOpen fires while all Redis servers are frozen, and every request is counted once', async () => {
  await load(3);
  await expect.poll(async () => sumOf(await scrape('one'), /^weir_requests_total/)).toBe(sent);
  const healthy = [await scrape('one'), await scrape('two'), await scrape('three')];
  expect(firing([...healthy, ...healthy], 'WeirFailOpen')).toBe(false);

  for (const name of REGIONS) await frozen.begin(weir.region(name));
  const scrapes = [...healthy];
  const volume = () => scrapes.map((samples) => sumOf(samples, /^weir_fallback_total\{step="open"/));
  try {
    // Each scrape comes after more requests than an isolate holds back, whichever isolate answers it.
    for (let minute = 0; minute < 6; minute += 1) {
      const before = Math.max(...volume());
      await expect
        .poll(
          async () => {
            await load(2);
            const isolate = ISOLATES[minute % ISOLATES.length] ?? 'one';
            const samples = await scrape(isolate);
            const seen = sumOf(samples, /^weir_fallback_total\{step="open"/);
            if (seen > before) scrapes.push(samples);
            return seen;
          },
          { timeout: 120_000 },
        )
        .toBeGreaterThan(before);
    }
    const last = scrapes.at(-1) ?? new Map();
    for (const region of REGIONS) {
      expect(last.get(`weir_region_up{region="${region}"}`)).toBe(0);
      // Open, or half-open before the next probe.
      const notClosed = new RegExp(`^weir_breaker_state\\{region="${region}",state="(open|half-open)"`);
      expect(sumOf(last, notClosed)).toBeGreaterThan(0);
    }
    expect([...last.keys()].filter((name) => name.startsWith('weir_isolates'))).toEqual([]);
    expect(firing(scrapes, 'WeirFailOpen')).toBe(true);
  } finally {
    for (const name of REGIONS) await healRegion(weir.region(name));
  }

  const total = async (series: RegExp) => {
    await load(1);
    // A region that is broken makes the next scrape read Postgres.
    let samples: Samples = new Map();
    await weir.withFault('ap', { status: 500 }, async () => {
      samples = await scrape('one');
    });
    return sumOf(samples, series) + sumOf(await storedIn('ap'), series);
  };
  /** What the broken region keeps: the next scrape shows it. */
  const storedIn = async (region: string) =>
    new Map([...(await scrape('one'))].filter(([name]) => name.includes(`store="${region}"`)));
  await expect.poll(async () => (await total(/^weir_fallback_total\{step="open"/)) - degraded).toBe(0);
  const settled = async () => {
    const already = sent;
    const counted = await total(/^weir_requests_total/);
    return counted >= already && counted <= sent;
  };
  await expect.poll(settled).toBe(true);

  // Against the last scrape of the outage: sums of regions are back, and none is smaller than it was.
  const after = await scrape('two');
  const highest = new Map<string, number>();
  for (const samples of [...scrapes, after])
    for (const [name, value] of samples)
      if (/_total\{|_count\{/.test(name)) {
        const earlier = highest.get(name) ?? 0;
        expect(value, name).toBeGreaterThanOrEqual(earlier);
        highest.set(name, value);
      }
});
