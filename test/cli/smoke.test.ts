// The smoke test of a deployment, on the local stack: three regions, KV, Postgres, and each of them broken once.
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Weir } from '../../local/weir.ts';
import { findPageHost } from '../../src/admin/smoke.ts';
import { startWeir } from '../shared/weir.ts';
import { runCli, urlOf, variablesOf } from './run-cli.ts';

let weir: Weir;
beforeAll(async () => {
  weir = await startWeir({}, { isolates: ['one'] });
});
afterAll(() => weir[Symbol.asyncDispose]());

interface Finding {
  readonly part: string;
  readonly check: string;
  readonly state: string;
  readonly found: string;
}
const smoke = async () => {
  const { code, out } = await runCli(['smoke', '--json'], variablesOf(weir));
  const { findings } = JSON.parse(out) as { findings: Finding[] };
  return { code, findings, not: findings.filter(({ state }) => state !== 'ok') };
};

/** These tests set no ADMIN_HOST. */
const SHARED_HOST = { part: 'page', check: 'host of its own', state: 'warning' };

test('a page with a host of its own passes', () => {
  expect(findPageHost('admin.example.com')).toMatchObject({ state: 'ok', found: 'admin.example.com' });
});

test('a deployment that was never published passes, with a warning about what is missing', async () => {
  const { code, findings, not } = await smoke();
  expect(not).toMatchObject([{ part: 'postgres', check: 'tables', state: 'warning' }, SHARED_HOST]);
  expect(code).toBe(0);
  for (const region of ['us', 'eu', 'ap'])
    expect(findings.filter(({ part }) => part === `redis ${region}`).map(({ check }) => check)).toEqual(
      expect.arrayContaining(['distance', 'Lua features', 'counting script']),
    );
  expect(findings.filter(({ check }) => check === 'clock')).toHaveLength(2);
});

test('a published deployment passes, and a table shows the checks', async () => {
  await weir.admin('/publish', { method: 'POST' });
  const { code, out } = await runCli(['smoke', urlOf(weir)], {
    ADMIN_TOKEN: weir.token,
  });
  expect(out).toMatch(/^part +check +state +found$/m);
  expect(out).toMatch(/^redis us +distance +ok +\d+ ms for a round trip/m);
  expect(out).toMatch(/^kv +write and read +ok/m);
  expect(code).toBe(0);
});

test('a region that does not answer is named, and the others are still checked', async () => {
  await weir.withFault('eu', { status: 500 }, async () => {
    const { code, not, findings } = await smoke();
    expect(not).toMatchObject([{ part: 'redis eu', check: 'distance', state: 'failed' }, SHARED_HOST]);
    expect(findings.some(({ part, check }) => part === 'redis ap' && check === 'clock')).toBe(true);
    expect(code).toBe(1);
  });
});

test('without Postgres everything else is still checked, and no secret is shown', async () => {
  await weir.stack.stopPostgres();
  const { code, out } = await runCli(['smoke'], variablesOf(weir));
  expect(out).toMatch(/^postgres +distance +failed +Postgres does not answer/m);
  expect(out).toMatch(/^redis us +counting script +ok/m);
  expect(out).not.toContain(weir.stack.databaseUrl);
  expect(code).toBe(1);
});
