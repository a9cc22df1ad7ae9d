// The whole stack as `npm run dev -- --upstash-lua` starts it: every script runs on gopher-lua, and limits are exact.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { ALGORITHM_IDS } from '../../src/core/counting/algorithms/registry.ts';
import { type DevProcess, readGuide, runDev } from '../e2e/dev-process.ts';

let dataDir: string;
let dev: DevProcess;
let guide: ReturnType<typeof readGuide>;
beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'weir-upstash-lua-'));
  dev = runDev({ WEIR_DATA_DIR: dataDir, DEADLINE_MS: '5000' }, '--upstash-lua');
  guide = readGuide(await dev.guide);
});
afterAll(async () => {
  dev.child.kill('SIGINT');
  await dev.ended;
  await rm(dataDir, { recursive: true, force: true });
});

const admin = (path: string, init: RequestInit = {}) =>
  fetch(`${guide.workerUrl}/_weir/admin${path}`, {
    ...init,
    headers: { Authorization: `Bearer ${guide.adminToken}`, 'Content-Type': 'application/json' },
  });

const LIMIT = 20;
/** A window whose borders are far from now. */
const windowSeconds = [86_400, 90_000, 100_000].find((seconds) => {
  const intoMs = Date.now() % (seconds * 1_000);
  return intoMs > 3_600_000 && intoMs < (seconds - 3_600) * 1_000;
});

const algorithms = ALGORITHM_IDS.filter((algorithm) => algorithm !== 'concurrency');

it.each(algorithms)('the stack admits exactly the limit by %s, and nothing fails', async (algorithm) => {
  const rule = {
    resource: `/by/${algorithm}`,
    scope: 'ip',
    algorithm,
    limit: LIMIT,
    windowSeconds,
    central: true,
  };
  expect((await admin('/rules', { method: 'POST', body: JSON.stringify(rule) })).status).toBe(201);
  const call = (ip: string) =>
    fetch(`${guide.workerUrl}${rule.resource}`, { headers: { 'CF-Connecting-IP': ip } });
  const inForce = async () => (await call('192.0.2.1')).headers.get('X-RateLimit-Limit') === String(LIMIT);
  await expect.poll(inForce).toBe(true);

  const caller = `198.51.100.${algorithms.indexOf(algorithm)}`;
  const answers: Response[] = [];
  while (answers.length < LIMIT + 10) answers.push(await call(caller));
  expect(answers.map(({ headers }) => headers.get('X-Weir-Degraded'))).toEqual(answers.map(() => null));
  expect(answers.map(({ status }) => status)).toEqual(answers.map((_, i) => (i < LIMIT ? 200 : 429)));
});

it('the stack runs no script on the Lua of Redis', async () => {
  for (const port of guide.redisPorts) {
    const redis = new Redis(port);
    expect(await redis.info('commandstats')).not.toMatch(/cmdstat_(eval|script)/);
    redis.disconnect();
  }
});
