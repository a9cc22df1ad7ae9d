// What clients read from the built Worker: headers, denials and quotas, with all parts real.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freshIp, type Weir } from '../../local/weir.ts';
import { policiesIn } from '../http/headers-harness.ts';
import { startWeir } from '../shared/weir.ts';

const HOUR = 3_600;
const BUCKETS = ['token-bucket', 'leaky-bucket', 'gcra'] as const;
const RULES = [
  { name: 'per "ip" – %', resource: '/api/*', scope: 'ip', algorithm: 'fixed-window', limit: 20 },
  { name: 'bucket', resource: '/api/search', scope: 'ip', algorithm: 'token-bucket', limit: 2 },
  { name: 'shadow', resource: '/api/search', scope: 'global', algorithm: 'gcra', limit: 1, action: 'log' },
  {
    name: 'export',
    resource: '/export',
    scope: 'ip',
    algorithm: 'fixed-window',
    limitName: 'exports',
    cost: 9,
  },
  ...BUCKETS.map((algorithm) => ({
    resource: `/even/${algorithm}`,
    scope: 'ip',
    algorithm,
    limit: 30,
    windowSeconds: 60,
  })),
  { name: 'calls', resource: '/calls', scope: 'apiKey', algorithm: 'fixed-window', limitName: 'calls' },
];
/** Longer than an isolate trusts rules without confirmation. */
const IDLE_MS = 700;

interface Limit {
  readonly policy: string;
  readonly resetAt: string;
}

let weir: Weir;
beforeAll(async () => {
  weir = await startWeir();
  for (const tier of [
    { name: 'free', isDefault: true, limits: { calls: 2, exports: 5 } },
    { name: 'gold', limits: { calls: 50, exports: 900 } },
  ])
    await weir.admin('/tiers', { method: 'POST', body: tier });
  for (const rule of RULES)
    await weir.admin('/rules', { method: 'POST', body: { windowSeconds: HOUR, ...rule } });
  await new Promise((resolve) => setTimeout(resolve, IDLE_MS));
});
afterAll(() => weir?.[Symbol.asyncDispose]());

const parametersIn = (headers: Headers, field: 'RateLimit' | 'RateLimit-Policy') =>
  policiesIn(headers, field).map(({ name, parameters }) => [name, parameters]);

describe('headers', () => {
  it.each(BUCKETS)(
    'say when the whole %s is full again, although a region has a part of it',
    async (algorithm) => {
      const path = `/even/${algorithm}`;
      const ip = freshIp();
      const sentAtSeconds = Math.floor(Date.now() / 1_000);
      const { headers } = await weir.call(path, { ip });
      const heardAtSeconds = Math.ceil(Date.now() / 1_000);
      // A unit comes back every two seconds.
      expect(parametersIn(headers, 'RateLimit')).toEqual([[`even-${algorithm}-ip`, { r: 29, t: 2 }]]);
      const reset = Number(headers.get('X-RateLimit-Reset'));
      expect(reset).toBeGreaterThanOrEqual(sentAtSeconds + 2);
      expect(reset).toBeLessThanOrEqual(heardAtSeconds + 2);
      // A region's part drains more slowly than the whole limit. So the whole is free a little later, the later one asks.
      const quota = (await (await weir.call('/_weir/quota', { ip })).json()) as { limits: Limit[] };
      const limit = quota.limits.find(({ policy }) => policy === `even-${algorithm}-ip`);
      const quotaReset = Math.ceil(Date.parse(limit?.resetAt ?? '') / 1_000);
      expect(quotaReset).toBeGreaterThanOrEqual(reset);
      expect(quotaReset).toBeLessThanOrEqual(Math.ceil(reset + Date.now() / 1_000 - sentAtSeconds));
    },
  );

  it('name every enforced policy of an admitted request', async () => {
    const startedAtMs = performance.now();
    const { status, headers } = await weir.call('/api/search');
    const tookSeconds = Math.ceil((performance.now() - startedAtMs) / 1_000);
    expect(status).toBe(200);
    expect(parametersIn(headers, 'RateLimit-Policy')).toEqual([
      ['api-all-ip', { q: 20, w: HOUR }],
      ['api-search-ip', { q: 2, w: HOUR }],
    ]);
    expect(parametersIn(headers, 'RateLimit')).toEqual([
      [
        'api-search-ip',
        { r: 1, t: expect.toSatisfy((t: number) => t <= HOUR / 2 && t >= HOUR / 2 - tookSeconds) },
      ],
      ['api-all-ip', { r: 19, t: expect.any(Number) }],
    ]);
    expect(headers.get('X-RateLimit-Limit')).toBe('2');
    expect(headers.get('X-RateLimit-Remaining')).toBe('1');
    expect(headers.get('Retry-After')).toBeNull();
  });

  it('and the body of a denial give the same wait', async () => {
    const ip = freshIp();
    for (let i = 0; i < 2; i += 1) await weir.call('/api/search', { ip });
    const answer = await weir.call('/api/search', { ip });
    const retryAfter = Number(answer.headers.get('Retry-After'));
    const [decisive] = policiesIn(answer.headers, 'RateLimit');
    expect(answer.status).toBe(429);
    expect(decisive).toEqual({ name: 'api-search-ip', parameters: { r: 0, t: retryAfter } });
    expect(retryAfter).toSatisfy((seconds: number) => seconds > HOUR / 2 - 60 && seconds <= HOUR / 2);
    expect(await answer.json()).toMatchObject({
      policy: 'api-search-ip',
      'retry-after': retryAfter,
      'violated-policies': ['api-search-ip'],
    });
  });

  it('are the whole answer to a denied HEAD request', async () => {
    const answer = await weir.call('/export', { method: 'HEAD' });
    expect([answer.status, await answer.text()]).toEqual([429, '']);
    expect(answer.headers.get('X-RateLimit-Cost')).toBe('9');
    expect(answer.headers.get('Retry-After')).toBeNull();
  });
});

describe('the quota', () => {
  const quota = async (ip: string, headers: Record<string, string> = {}) =>
    (await (await weir.call('/_weir/quota', { ip, headers })).json()) as {
      caller: object;
      limits: { policy: string; limit: number; remaining: number }[];
    };
  const left = ({ limits }: Awaited<ReturnType<typeof quota>>) =>
    limits.map(({ policy, limit, remaining }) => `${policy}: ${remaining} of ${limit}`).sort();

  it('shows what is left after requests', async () => {
    const ip = freshIp();
    for (let i = 0; i < 3; i += 1) await weir.call('/api/x', { ip });
    expect(left(await quota(ip))).toEqual([
      'api-all-ip: 17 of 20',
      'api-search-ip: 2 of 2',
      'calls-key: 2 of 2',
      ...BUCKETS.map((algorithm) => `even-${algorithm}-ip: 30 of 30`).sort(),
      'export-ip: 5 of 5',
    ]);
  });

  it('of a key shows its limits, and never the key', async () => {
    const { id, key } = await weir.admin<{ id: string; key: string }>('/keys', {
      method: 'POST',
      body: { tier: 'gold' },
    });
    await new Promise((resolve) => setTimeout(resolve, IDLE_MS));
    const headers = { 'X-API-Key': key };
    await weir.call('/calls', { headers });
    const answer = await quota(freshIp(), headers);
    expect(answer.caller).toEqual({ userId: null, apiKeyId: id, tenantId: null, tier: 'gold' });
    expect(left(answer)).toContain('calls-key: 49 of 50');
    expect(JSON.stringify(answer)).not.toContain(key);
  });

  it('shows new rules even in an isolate that answers nothing else', async () => {
    const ip = freshIp();
    const names = async () => {
      const answer = await weir.call('/_weir/quota', { isolate: 'three', ip });
      return ((await answer.json()) as { limits: { policy: string }[] }).limits.map(({ policy }) => policy);
    };
    expect(await names()).not.toContain('late-ip');
    const late = {
      name: 'late',
      resource: '/late',
      scope: 'ip',
      algorithm: 'gcra',
      limit: 1,
      windowSeconds: 60,
    };
    await weir.admin('/rules', { method: 'POST', body: late });
    // The isolate keeps an answer for at most a second.
    await expect.poll(names).toContain('late-ip');
  });

  it('has no body for HEAD, and refuses POST', async () => {
    const head = await weir.call('/_weir/quota', { method: 'HEAD' });
    expect([head.status, await head.text()]).toEqual([200, '']);
    const post = await weir.call('/_weir/quota', { method: 'POST', body: {} });
    expect([post.status, post.headers.get('Allow')]).toEqual([405, 'GET, HEAD']);
  });
});
