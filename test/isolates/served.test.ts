// What the runtime itself does to a request, with nothing in front of it: upgrades, and clients that leave.
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { LocalRegion } from '../../local/regions.ts';
import { freshIp } from '../../local/weir.ts';
import { type Ask, type ServedWeir, serveWeir } from './served-weir.ts';

let weir: ServedWeir;
beforeAll(async () => {
  const access = { teamDomain: 'https://team.cloudflareaccess.com', audience: 'weir' };
  weir = await serveWeir({ ADMIN_ACCESS: JSON.stringify(access) });
  const rule = { scope: 'ip', algorithm: 'fixed-window', limit: 10, windowSeconds: 3_600 };
  const rules = [
    { name: 'reads', resource: '/methods', methods: ['GET'] },
    { name: 'places', resource: '/places', algorithm: 'concurrency', limit: 1 },
    { name: 'queue', resource: '/queue', algorithm: 'leaky-bucket', limit: 3_600, action: 'throttle' },
    { name: 'many', resource: '/both', limit: 30, spill: false },
    { name: 'metered', resource: '/metered', limit: 100, costFromOrigin: true },
    { name: 'refunding', resource: '/refunding', refundOnError: true },
    { name: 'few', resource: '/both/*', limit: 1, central: true, refundOnError: true },
  ];
  for (const fields of rules) await weir.admin('/rules', { ...rule, ...fields });
});
afterAll(() => weir?.[Symbol.asyncDispose]());

/** Enough time to leave, even on a busy machine. */
const SLOW_MS = 1_000;

/** See breaker.ts. */
const TRUSTED_MS = 1_000;
const JUDGED_CALLS = 20;
/** After this time a region that has not answered has failed. */
const HALF_DEADLINE_MS = 5_000;

/** Every Redis answers slowly while `during` runs. */
async function withSlowRedis(during: () => Promise<void>): Promise<void> {
  const each = (change: (faults: LocalRegion['gateway']['faults']) => Promise<void>) =>
    Promise.all(weir.regions.map(({ gateway }) => change(gateway.faults)));
  await each((faults) => faults.set({ latencyMs: SLOW_MS }));
  await during().finally(() => each((faults) => faults.clear()));
}

/** How many calls have reached any Redis. */
async function redisCalls(): Promise<number> {
  const stats = await Promise.all(weir.regions.map(({ gateway }) => gateway.stats()));
  return stats.reduce((sum, { requests }) => sum + requests, 0);
}

/** How often the counting script has run. Other calls come and go: once a minute, isolates report to the census. */
async function scriptRuns(): Promise<number> {
  const runs = await Promise.all(
    weir.regions.map(async ({ redis: { url } }) => {
      const redis = new Redis(url);
      const stats = await redis.info('commandstats').finally(() => redis.disconnect());
      return Number(/^cmdstat_evalsha:calls=(\d+)/m.exec(stats)?.[1] ?? 0);
    }),
  );
  return runs.reduce((sum, count) => sum + count, 0);
}

/**
 * Sends a request, and resets the connection while Redis is asked. Resolves when the script has run this often for it.
 */
async function leaveUndecided(path: string, asked: Ask, runs: number): Promise<void> {
  const [callsBefore, runsBefore] = [await redisCalls(), await scriptRuns()];
  const sent = weir.ask(path, asked);
  await expect.poll(redisCalls, { interval: 10 }).toBeGreaterThan(callsBefore);
  sent.socket?.resetAndDestroy();
  await expect.poll(scriptRuns).toBe(runsBefore + runs);
}

/** Sends a request, and resets the connection while the origin is asked. */
async function leaveUnanswered(path: string, asked: Ask): Promise<void> {
  weir.origin.requests.clear();
  const sent = weir.ask(path, asked);
  await expect.poll(() => weir.origin.requests.total, { interval: 10 }).toBe(1);
  sent.socket?.resetAndDestroy();
}

async function left(path: string, ip: string, rule: string): Promise<number | undefined> {
  const { applies } = await weir.admin<Explained>('/explain', { path, ip });
  return applies.find(({ name }) => name === rule)?.left?.remaining;
}

interface Explained {
  readonly applies: readonly {
    readonly name: string;
    readonly left: { readonly remaining: number } | null;
  }[];
}

describe('a client that leaves while its decision is pending', () => {
  // A warm isolate has no other work after a response that would keep it alive.
  beforeEach(async () => {
    for (const region of ['us', 'eu', 'ap'])
      for (const path of ['/methods', '/places'])
        expect(await weir.status(path, { ip: freshIp(), region })).toBe(200);
    await sleep(500);
  });

  it('holds no seat', async () => {
    const ip = freshIp();
    // Taken and released.
    await withSlowRedis(() => leaveUndecided('/places', { ip }, 2));
    await expect.poll(() => left('/places', ip, 'places')).toBe(1);
  });

  it('has no turn in a queue', async () => {
    const ip = freshIp();
    const all = await left('/queue', ip, 'queue');
    // Taken and given back.
    await withSlowRedis(() => leaveUndecided('/queue', { ip }, 2));
    await expect.poll(() => left('/queue', ip, 'queue')).toBe(all);
  });

  it('pays nothing in one region for a request that another region denies', async () => {
    const ip = freshIp();
    expect(await weir.status('/both', { ip })).toBe(200);
    const before = await redisCalls();
    await withSlowRedis(async () => {
      for (const region of ['us', 'eu', 'ap']) {
        const known = await redisCalls();
        const sent = weir.ask('/both', { ip, region });
        await expect.poll(redisCalls, { interval: 10 }).toBeGreaterThan(known);
        sent.socket?.resetAndDestroy();
      }
      // One of the regions denies. The others charge, ask that region, and give the charge back.
      await expect.poll(redisCalls).toBeGreaterThanOrEqual(before + 7);
    });
    await expect.poll(() => left('/both', ip, 'many')).toBe(29);
  });

  it('causes no request to the origin', async () => {
    weir.origin.requests.clear();
    await withSlowRedis(() => leaveUndecided('/places', { ip: freshIp() }, 2));
    expect(weir.origin.requests.total).toBe(0);
  });
});

describe('a client that leaves while the origin works', () => {
  it('holds no seat', async () => {
    const ip = freshIp();
    await leaveUnanswered('/places?hang=1', { ip });
    await expect.poll(() => left('/places', ip, 'places')).toBe(1);
    expect(weir.origin.requests.entries[0]?.state).toBe('aborted');
  });

  it('is charged its real cost: Weir waits until the origin names it', async () => {
    const ip = freshIp();
    await leaveUnanswered('/metered?delay=1000&cost=40&stream=100', { ip });
    await expect.poll(() => left('/metered', ip, 'metered')).toBe(60);
    // Nobody reads its answer.
    await expect.poll(() => weir.origin.requests.entries[0]?.state).toBe('aborted');
  });

  it('gets no refund, because the request may have reached the origin', async () => {
    const ip = freshIp();
    await leaveUnanswered('/refunding?hang=1', { ip });
    await expect.poll(() => weir.origin.requests.entries[0]?.state).toBe('aborted');
    const runs = await scriptRuns();
    await sleep(SLOW_MS);
    expect(await scriptRuns()).toBe(runs);
    expect(await left('/refunding', ip, 'refunding')).toBe(9);
  });
});

describe('a request with Upgrade: websocket', () => {
  const upgrade = {
    Connection: 'Upgrade',
    Upgrade: 'websocket',
    'Sec-WebSocket-Version': '13',
    'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==',
  };

  it.each(['PUT', 'POST', 'DELETE', 'OPTIONS', 'HEAD'])(
    'that is a %s reaches the origin as an ordinary request',
    async (method) => {
      weir.origin.requests.clear();
      expect(await weir.status('/methods', { ip: freshIp(), method, headers: upgrade })).toBe(200);
      const [seen] = weir.origin.requests.entries;
      expect([seen?.method, seen?.websocket]).toEqual([method, false]);
      expect(seen?.headers.map(([name]) => name.toLowerCase())).not.toContain('upgrade');
    },
  );

  it('that is a GET becomes a WebSocket', async () => {
    weir.origin.requests.clear();
    expect(await weir.status('/methods', { ip: freshIp(), headers: upgrade })).toBe(101);
    expect(weir.origin.requests.entries[0]).toMatchObject({ method: 'GET', websocket: true });
  });
});

it('override headers and credentials of Access do not reach the origin', async () => {
  weir.origin.requests.clear();
  const headers = {
    'X-HTTP-Method-Override': 'DELETE',
    'Cf-Access-Jwt-Assertion': 'secret',
    Cookie: 'a=1; CF_Authorization=secret',
  };
  expect(await weir.status('/methods', { ip: freshIp(), method: 'POST', headers })).toBe(200);
  const seen = new Map(
    weir.origin.requests.entries[0]?.headers.map(([name, value]) => [name.toLowerCase(), value]),
  );
  expect([...seen.keys()]).not.toContain('x-http-method-override');
  expect([...seen.values()].filter((value) => value.includes('secret'))).toEqual([]);
  expect(seen.get('cookie')).toBe('a=1');
});

// The last test, because the breaker stays open for a moment.
it('clients that leave do not hide a hung region: its breaker opens, and the next client does not wait', async () => {
  const [us] = weir.regions;
  // A region that answered a moment ago is trusted.
  await sleep(TRUSTED_MS);
  await us?.gateway.faults.set({ latencyMs: 60_000 });
  try {
    for (let i = 0; i < JUDGED_CALLS; i += 1) {
      const known = await redisCalls();
      const sent = weir.ask('/methods', { ip: freshIp() });
      await expect.poll(redisCalls, { interval: 10 }).toBeGreaterThan(known);
      sent.socket?.resetAndDestroy();
    }
    await sleep(HALF_DEADLINE_MS + SLOW_MS);
    const startedAtMs = performance.now();
    expect(await weir.status('/methods', { ip: freshIp() })).toBe(200);
    expect(performance.now() - startedAtMs).toBeLessThan(HALF_DEADLINE_MS);
  } finally {
    await us?.gateway.faults.clear();
  }
});
