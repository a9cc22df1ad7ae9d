// The real promtool accepts the files of ops/, and every alert has a test and a section that says what to do.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, it } from 'vitest';
import { findOrInstallPrometheus } from '../../local/prometheus.ts';
import { readFleet } from '../../src/telemetry/fleet.ts';

const OPS = fileURLToPath(new URL('../../ops/', import.meta.url));
const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');
const alerts = [...read('ops/alerts.yml').matchAll(/- alert: (\w+)/g)].map(([, name = '']) => name);
const operations = read('docs/operations.md');

let promtool: string;
beforeAll(async () => {
  ({ promtool } = await findOrInstallPrometheus({ say: (line) => console.log(line) }));
});

const run = (...args: string[]) => {
  const { status, stdout, stderr } = spawnSync(promtool, args, { cwd: OPS, encoding: 'utf8' });
  expect(status, `${stdout}${stderr}`).toBe(0);
};

describe('promtool', () => {
  it('accepts the alert rules', () => run('check', 'rules', 'alerts.yml'));

  it('confirms that each alert fires when it should, and not before', () =>
    run('test', 'rules', 'alerts.test.yml'));

  it('accepts the example configuration of a scrape', () => {
    const folder = mkdtempSync(join(tmpdir(), 'weir-ops-'));
    try {
      for (const file of ['prometheus.yml', 'alerts.yml'])
        writeFileSync(join(folder, file), readFileSync(join(OPS, file)));
      writeFileSync(join(folder, 'weir-token'), 'a token');
      run('check', 'config', join(folder, 'prometheus.yml'));
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

describe('the alert', () => {
  it.each(alerts)('%s has a test, and a section in docs/operations.md', (alert) => {
    expect(read('ops/alerts.test.yml')).toContain(`alertname: ${alert}\n        exp_alerts:\n`);
    expect(operations.includes(`\n#### ${alert}\n`)).toBe(true);
  });
});

/** Those of a fleet that has counted nothing. */
const metricNames = async () =>
  (await readFleet(new Map(), { nowMs: 0, deadlineMs: 250, signal: AbortSignal.timeout(1_000) })).map(
    ({ name }) => name,
  );

it('every metric is explained in docs/operations.md', async () => {
  for (const name of await metricNames()) expect(operations.includes(`\`${name}\``), name).toBe(true);
});

it('alerts and the dashboard name only metrics that exist', async () => {
  const names = new Set(await metricNames());
  for (const file of ['ops/alerts.yml', 'ops/grafana-dashboard.json', 'ops/alerts.test.yml'])
    for (const [name] of read(file).matchAll(/weir_[a-z_]+(?=[{[) ])/g))
      expect(names, `${name} in ${file}`).toContain(name.replace(/_(bucket|sum|count)$/, ''));
});
