// A denied caller costs Redis nothing until its retry time, and is denied not a moment longer.
import { Redis } from 'ioredis';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { freshIp, type IsolateName, REGIONS } from '../../local/weir.ts';
import type { Answer } from './client.ts';
import { addRule, type FaultStack, LIMIT, recover, ruleFor, startFaultStack } from './harness.ts';

const ISOLATES: readonly IsolateName[] = ['one', 'two', 'three'];
const WINDOW_MS = 2_000;
const FELT_MS = 1_000;

let stack: FaultStack;
const redis: Record<string, Redis> = {};
beforeAll(async () => {
  stack = await startFaultStack();
  const { weir, client } = stack;
  await addRule(weir, ruleFor('/roomy', 1_000_000));
  await addRule(weir, ruleFor('/day', 3 * LIMIT));
  await addRule(weir, { ...ruleFor('/short', 3 * LIMIT), windowSeconds: WINDOW_MS / 1_000 });
  for (const region of REGIONS) redis[region] = new Redis(weir.region(region).redis.url);
  await recover({ client, isolates: ISOLATES });
});
afterAll(async () => {
  for (const client of Object.values(redis)) client.disconnect();
  await stack?.[Symbol.asyncDispose]();
});

const ask = (path: string, isolate: IsolateName, ip: string) => stack.client.ask({ path, isolate, ip });

/** How often Redis has run each command. */
async function commandsAt(region: string): Promise<ReadonlyMap<string, number>> {
  const text = (await redis[region]?.info('commandstats')) ?? '';
  const lines = text.matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm);
  return new Map([...lines].map(([, name = '', calls]) => [name, Number(calls)]));
}

/** What a report to the census runs. Isolates report after some seconds and once a minute, whoever calls. */
const CENSUS = ['eval', 'time', 'zadd', 'zremrangebyscore', 'zcard', 'pexpire'];

/**
 * The commands run meanwhile, except those of this measurement, of reports to the census, and of the announcement, which
 * isolates read a few times a second. A decision runs EVALSHA, a report EVAL.
 */
async function commandsDuring(during: () => Promise<void>): Promise<string[]> {
  const before = await Promise.all(REGIONS.map(commandsAt));
  await during();
  const after = await Promise.all(REGIONS.map(commandsAt));
  return after.flatMap((commands, i) => {
    const since = (name: string) => (commands.get(name) ?? 0) - (before[i]?.get(name) ?? 0);
    return [...commands.keys()].flatMap((name) => {
      const ran = since(name) - (CENSUS.includes(name) ? since('eval') : 0);
      return ran > 0 && name !== 'info' && name !== 'get' ? [`${REGIONS[i]} ${name} ${ran}`] : [];
    });
  });
}

/** Uses up the part of one region, and lets Redis deny each isolate once. */
async function useUp(path: string, ip: string): Promise<void> {
  for (let i = 0; i < LIMIT; i += 1) await ask(path, 'one', ip);
  for (const isolate of ISOLATES) expect((await ask(path, isolate, ip)).status).toBe(429);
}

describe('a subject that was denied', () => {
  it('costs Redis no command, however often it comes back', async () => {
    const ip = freshIp();
    await useUp('/day', ip);
    const answers: Answer[] = [];
    const ran = await commandsDuring(async () => {
      for (let i = 0; i < 100; i += 1)
        for (const isolate of ISOLATES) answers.push(await ask('/day', isolate, ip));
    });
    expect(ran).toEqual([]);
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([429]));
    for (const { degraded, header } of answers) {
      expect(degraded).toBeUndefined();
      expect(header('RateLimit')).toMatch(/^"day-ip";r=0;t=\d+$/);
      expect(Number(header('Retry-After'))).toBeGreaterThan(0);
    }
  });

  it('makes its isolate read the announcement only a few times a second', async () => {
    const ip = freshIp();
    await useUp('/day', ip);
    const before = (await commandsAt('us')).get('get') ?? 0;
    const startedAtMs = Date.now();
    while (Date.now() < startedAtMs + 1_000) await ask('/day', 'one', ip);
    const reads = ((await commandsAt('us')).get('get') ?? 0) - before;
    // Every 250 ms, and once at the start.
    expect(reads).toBeLessThanOrEqual(Math.ceil((Date.now() - startedAtMs) / 250) + 1);
    expect(reads).toBeGreaterThan(0);
  });

  it('is denied until its window ends, and by no isolate after that', async () => {
    const ip = freshIp();
    let endsAtMs = 0;
    do {
      // Early in a window, which is aligned to the clock that all of them share.
      await expect.poll(() => Date.now() % WINDOW_MS, { interval: 5 }).toBeLessThan(200);
      endsAtMs = (Math.floor(Date.now() / WINDOW_MS) + 1) * WINDOW_MS;
      for (const isolate of ISOLATES) while ((await ask('/short', isolate, ip)).status === 200);
      // On a busy machine the window may end before all of them have been denied.
    } while (Date.now() >= endsAtMs);
    const answers: Answer[] = [];
    while (answers.at(-1)?.status !== 200) answers.push(await ask('/short', 'two', ip));
    const early = answers.filter(({ status, answeredAtMs }) => status === 200 && answeredAtMs < endsAtMs);
    const late = answers.filter(({ status, sentAtMs }) => status === 429 && sentAtMs > endsAtMs);
    expect([early, late]).toEqual([[], []]);
    expect((await ask('/short', 'three', ip)).status).toBe(200);
  });
});

describe('every isolate forgets a denial within a second', () => {
  let ip: string;
  beforeEach(async () => {
    ip = freshIp();
    await useUp('/day', ip);
  });
  /** Asks all isolates all the time: each admits the subject in time. A busy machine takes some time for each step. */
  const expectToPass = async (sinceMs: number) => {
    let stepMs = 0;
    const passedAtMs = async (isolate: IsolateName): Promise<number> => {
      for (;;) {
        const { status, sentAtMs, answeredAtMs } = await ask('/day', isolate, ip);
        stepMs = Math.max(stepMs, answeredAtMs - sentAtMs);
        if (status === 200) return answeredAtMs;
        expect(answeredAtMs).toBeLessThan(sinceMs + 60_000);
      }
    };
    const lastAtMs = Math.max(...(await Promise.all(ISOLATES.map(passedAtMs))));
    expect(lastAtMs - sinceMs).toBeLessThanOrEqual(FELT_MS + 4 * stepMs);
  };

  it('when the counters of the subject are reset', async () => {
    await stack.weir.admin('/counters/reset', { method: 'POST', body: { scope: 'ip', subject: ip } });
    await expectToPass(Date.now());
  });

  it('when the rule is changed', async () => {
    const { items } = await stack.weir.admin<{ items: { id: string; name: string }[] }>('/rules');
    const id = items.find(({ name }) => name === 'day')?.id;
    await stack.weir.admin(`/rules/${id}`, { method: 'PATCH', body: { limit: 6 * LIMIT } });
    await expectToPass(Date.now());
  });
});
