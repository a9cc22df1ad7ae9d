// A real Prometheus scrapes Weir: three isolates under load, one of them killed, and a region that goes down.

import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { afterAll, beforeAll, expect, inject, it } from 'vitest';
import { startIsolates } from '../../local/isolates.ts';
import { close, LOOPBACK, listen } from '../../local/ports.ts';
import { findOrInstallPrometheus, type Prometheus, startPrometheus } from '../../local/prometheus.ts';
import type { Weir } from '../../local/weir.ts';
import { rounds } from '../rounds.ts';
import { createSharedParts } from '../shared/parts.ts';
import { startWeir } from '../shared/weir.ts';

const TOKEN = 'an-admin-token-for-tests';
const AUTHORIZATION = { Authorization: `Bearer ${TOKEN}` };
const REQUESTS = rounds(150, 3_000);
/** Time enough for an answer on a busy machine: Prometheus gives up a scrape when the next one is due. */
const SCRAPE_EVERY_MS = 500;

const cleanup = new AsyncDisposableStack();
let weir: Weir;
let prometheus: Prometheus;
let promtool: string;
/** The addresses of the isolates that are alive. */
let alive: string[];
let killOne: () => Promise<void>;

beforeAll(async () => {
  const programs = await findOrInstallPrometheus({ say: (line) => console.log(line) });
  promtool = programs.promtool;
  const variables = { TELEMETRY_SECONDS: '0.1' };
  weir = cleanup.use(await startWeir(variables));
  const bundle = await createSharedParts(inject('sharedParts')).worker();
  const settings = { ...weir.stack.variables, ...variables, ADMIN_TOKEN: TOKEN, DEADLINE_MS: '10000' };
  // In its own process, so that it can be killed.
  const third = await startIsolates({ names: ['killed'], bundle, variables: settings });
  cleanup.use(third);
  const killed = third.urls['killed'] ?? '';
  alive = [weir.isolates.urls['one'] ?? '', weir.isolates.urls['two'] ?? '', killed];
  killOne = async () => {
    alive = alive.filter((url) => url !== killed);
    await third[Symbol.asyncDispose]();
  };
  await weir.admin('/rules', {
    method: 'POST',
    body: {
      name: 'small',
      resource: '/small',
      scope: 'ip',
      algorithm: 'fixed-window',
      limit: 5,
      windowSeconds: 3600,
    },
  });
  await weir.admin('/routes', {
    method: 'POST',
    body: { name: 'tiny', resource: '/small/*', origin: weir.stack.originUrl },
  });
  const target = await startFront();
  prometheus = cleanup.use(
    await startPrometheus({
      binary: programs.prometheus,
      target,
      token: TOKEN,
      scrapeEveryMs: SCRAPE_EVERY_MS,
    }),
  );
});
afterAll(() => cleanup.disposeAsync());

let turn = 0;
const next = () => alive[turn++ % alive.length] ?? '';

/** Prometheus asks the isolates in turn, as with one host name. */
async function startFront(): Promise<string> {
  const server = createServer(async (request, response) => {
    const answer = await fetch(`${next()}${request.url}`, { headers: AUTHORIZATION }).catch(() => undefined);
    response.writeHead(answer?.status ?? 502, { 'Content-Type': 'text/plain; version=0.0.4' });
    response.end(await answer?.text());
  });
  const port = await listen(server, 0, 'the front of a test');
  cleanup.defer(() => close(server));
  return `${LOOPBACK}:${port}`;
}

async function send(count: number, path: string, region = 'us'): Promise<void> {
  for (let i = 0; i < count; i += 1) {
    const answer = await fetch(`${next()}${path}`, {
      headers: { 'CF-Connecting-IP': '10.9.9.9', 'X-Weir-Region': region },
    });
    await answer.body?.cancel();
  }
}

const TOTAL = 'sum(weir_requests_total)';
const numberAt = async (expression: string, atSeconds?: number): Promise<number> =>
  Number((await prometheus.query(expression, atSeconds))[0]?.value[1] ?? 0);
const metricsText = async () => (await fetch(`${next()}/_weir/metrics`, { headers: AUTHORIZATION })).text();

it('increase() is the number of requests, minus at most those that a killed isolate had not flushed', async () => {
  for (const region of ['us', 'eu']) await send(6, '/small', region);
  await expect.poll(() => numberAt(TOTAL)).toBe(12);
  const startSeconds = Date.now() / 1_000;
  // A busy machine misses scrapes. Without one before the load, increase() could not see all of it.
  await expect.poll(() => numberAt('min(timestamp(weir_requests_total))')).toBeGreaterThan(startSeconds);

  await send(REQUESTS, '/small');
  await expect.poll(() => numberAt(TOTAL)).toBe(12 + REQUESTS);
  // Only the last third of these can be lost: what the killed isolate has counted and not flushed.
  await send(30, '/small');
  await killOne();
  await send(REQUESTS, '/small', 'eu');
  const sent = 12 + 2 * REQUESTS + 30;
  await expect.poll(() => numberAt(TOTAL)).toBeGreaterThanOrEqual(sent - 10);
  const endSeconds = Date.now() / 1_000;
  const total = await numberAt(TOTAL);
  expect(total).toBeLessThanOrEqual(sent);

  // increase() extrapolates to the ends of the range, by up to one scrape interval.
  const range = Math.ceil(endSeconds - startSeconds);
  const increase = await numberAt(`sum(increase(weir_requests_total[${range}s]))`, endSeconds);
  const scrapes = await numberAt(`sum_over_time(up[${range}s])`, endSeconds);
  expect(increase).toBeGreaterThan((total - 12) * (1 - 3 / scrapes) - 1);
  expect(increase).toBeLessThan((total - 12) * (1 + 3 / scrapes) + 1);
});

it('no counter ever goes back, no matter which isolate Prometheus scrapes', async () => {
  const names = [...(await metricsText()).matchAll(/^# TYPE (\w+) (counter|histogram)$/gm)];
  expect(names.length).toBeGreaterThan(5);
  for (const [, name, type] of names) {
    const series = type === 'histogram' ? `${name}_count` : name;
    expect(await numberAt(`max(resets(${series}[1h]))`), series).toBe(0);
  }
});

it('requests and answers of origins are counted by the name of the route', async () => {
  const text = await metricsText();
  for (const series of [
    'weir_requests_total{region="us",route="tiny",result="admitted",store="us"}',
    'weir_requests_total{region="us",route="tiny",result="denied",store="us"}',
    'weir_origin_responses_total{route="tiny",class="2xx",store="us"}',
  ])
    expect(text).toContain(`\n${series} `);
});

it('promtool accepts the metrics', async () => {
  const { status, stdout, stderr } = spawnSync(promtool, ['check', 'metrics'], {
    input: await metricsText(),
    encoding: 'utf8',
  });
  expect(status, `${stdout}${stderr}`).toBe(0);
});

it('every panel of the dashboard has data', async () => {
  const dashboard = JSON.parse(
    readFileSync(new URL('../../ops/grafana-dashboard.json', import.meta.url), 'utf8'),
  );
  const targets: { expr: string }[] = dashboard.panels.flatMap(
    ({ targets }: { targets: unknown[] }) => targets,
  );
  expect(targets.length).toBeGreaterThan(20);
  for (const { expr } of targets)
    await expect
      .poll(async () => (await prometheus.query(expr.replaceAll('$__rate_interval', '1h'))).length, {
        message: expr,
      })
      .toBeGreaterThan(0);
});

it('a region that does not answer is left out and reported as down, and the others stay', async () => {
  // An isolate flushes to the nearest region of the request that it has just answered.
  const metricsAfterOneOf = async (region: string) => {
    await send(1, '/small', region);
    return metricsText();
  };
  await expect.poll(() => metricsAfterOneOf('eu')).toMatch(/weir_requests_total\{.*store="eu"\}/);
  const before = await metricsText();
  expect(before).toContain('weir_region_up{region="us"} 1');
  expect(before).toMatch(/weir_requests_total\{.*store="us"\}/);
  await weir.withFault('us', { status: 500 }, async () => {
    const during = await metricsText();
    expect(during).toContain('weir_region_up{region="us"} 0');
    expect(during).not.toMatch(/store="us"/);
    expect(during).toMatch(/weir_requests_total\{.*store="eu"\}/);
  });
  expect(await metricsText()).toMatch(/weir_requests_total\{.*store="us"\}/);
});

it('metrics are refused without a token', async () => {
  expect((await fetch(`${next()}/_weir/metrics`)).status).toBe(401);
});
