import { describe, expect, it } from 'vitest';
import { createRule } from './headers-harness.ts';
import { IP, useQuota } from './quota-harness.ts';

const { openIsolate, send, billed, withFault } = useQuota();

const HOUR = 3_600;
const names = (limits: readonly { policy: string }[]) => limits.map(({ policy }) => policy);
const bodyOf = async (answer: Response) => (await answer.json()) as Record<string, unknown>;
const perIp = createRule({ name: 'per ip', limit: 20, windowSeconds: HOUR });

describe('the quota of a caller', () => {
  it('has all limits, on every path, and what is left of them', async () => {
    const login = createRule({ name: 'login', resource: '/login', methods: ['POST'], limit: 3 });
    const { ask, take } = openIsolate({ rules: [perIp, login] });
    for (let i = 0; i < 4; i += 1) await take('/x');
    const answer = await ask();
    expect(answer.status).toBe(200);
    expect(answer.headers.get('Cache-Control')).toBe('no-store');
    expect(answer.headers.get('Content-Type')).toBe('application/json');
    expect(await bodyOf(answer)).toEqual({
      caller: { userId: null, apiKeyId: null, tenantId: null, tier: null },
      limits: [
        {
          policy: 'login',
          resource: '/login',
          methods: ['POST'],
          scope: 'ip',
          limit: 3,
          remaining: 3,
          resetAt: expect.any(String),
          windowSeconds: 60,
          allowed: true,
          retryAfterMs: 0,
        },
        expect.objectContaining({ policy: 'per ip', limit: 20, remaining: 16, methods: [] }),
      ],
    });
  });

  it('says when a limit is free again, and how long to wait if it is used up', async () => {
    const { limits, take } = openIsolate({ rules: [createRule({ limit: 2, windowSeconds: HOUR })] });
    await take('/x');
    const { nowMs } = await take('/x');
    const endMs = Math.ceil((nowMs + 1) / (HOUR * 1_000)) * HOUR * 1_000;
    const [limit] = await limits();
    expect(limit).toMatchObject({ remaining: 0, allowed: false, resetAt: new Date(endMs).toISOString() });
    expect(limit?.retryAfterMs).toSatisfy((ms: number) => ms > endMs - nowMs - 5_000 && ms <= endMs - nowMs);
  });

  it('has no wait for a request that can never pass', async () => {
    const { limits } = openIsolate({ rules: [createRule({ limit: 2, cost: 5 })] });
    expect(await limits()).toMatchObject([{ remaining: 2, allowed: false, retryAfterMs: null }]);
  });

  it('belongs to the caller: by key, user, tenant and tier', async () => {
    const tiers = [
      { name: 'free', limits: { calls: 10 }, isDefault: true },
      { name: 'gold', limits: { calls: 1_000, exports: null }, isDefault: false },
    ];
    const rules = [
      createRule({ name: 'calls', scope: 'user', limitName: 'calls', limit: null, priority: 1 }),
      createRule({ name: 'exports', resource: '/exports', limitName: 'exports', limit: 1, priority: 2 }),
    ];
    const gold = { userId: 'u1', apiKeyId: 'k1', tenantId: 't1', tier: 'gold' };
    const { ask } = openIsolate({ rules, tiers, keys: { 'raw-secret-key': gold } });
    const text = await (await ask({ key: 'raw-secret-key' })).text();
    expect(JSON.parse(text)).toMatchObject({ caller: gold, limits: [{ policy: 'calls', limit: 1_000 }] });
    expect(text).not.toContain('secret');
    expect(await bodyOf(await ask())).toMatchObject({
      // The default tier, by its name.
      caller: { tier: 'free' },
      limits: [
        { policy: 'calls', limit: 10 },
        { policy: 'exports', limit: 1 },
      ],
    });
  });

  it('leaves out shadow rules', async () => {
    const shadow = createRule({ name: 'shadow', action: 'log', resource: '/x' });
    expect(names(await openIsolate({ rules: [shadow, perIp] }).limits())).toEqual(['per ip']);
  });

  it('has the free seats, and takes none', async () => {
    const { limits, clock, take } = openIsolate({
      rules: [createRule({ algorithm: 'concurrency', limit: 3 })],
    });
    await take('/x');
    for (let i = 0; i < 3; i += 1) {
      expect(await limits()).toMatchObject([{ remaining: 2, allowed: true }]);
      clock.ms += 1_000;
    }
  });

  it('is empty for a caller on the allow list, and refused to a caller on the deny list', async () => {
    const entry = { kind: 'ip', value: IP, expiresAtMs: null } as const;
    const allowed = await openIsolate({ rules: [perIp], lists: [{ list: 'allow', ...entry }] }).ask();
    expect([allowed.status, (await bodyOf(allowed))['limits']]).toEqual([200, []]);
    const denied = await openIsolate({ rules: [perIp], lists: [{ list: 'deny', ...entry }] }).ask();
    expect([denied.status, (await bodyOf(denied))['code']]).toEqual([403, 'denied']);
  });

  it('is the quota of the IP for an unknown key, or a 401 with UNVERIFIED=reject', async () => {
    const counting = openIsolate({ rules: [perIp] });
    await counting.take('/x');
    expect(await counting.limits({ key: 'made up' })).toMatchObject([{ policy: 'per ip', remaining: 19 }]);
    const rejecting = openIsolate({ rules: [perIp], unverified: 'reject' });
    // Even right after another caller at that address got an answer.
    expect((await rejecting.ask()).status).toBe(200);
    const answer = await rejecting.ask({ key: 'made up' });
    expect([answer.status, (await bodyOf(answer))['code']]).toEqual([401, 'unverified-credentials']);
  });
});

describe('asking for the quota', () => {
  it('charges nothing and writes nothing, in one call that is billed as three commands', async () => {
    const rules = Array.from({ length: 150 }, (_, i) =>
      createRule({ resource: `/r${i}`, scope: i % 2 ? 'ip' : 'global', limit: 5 }),
    );
    const { ask, limits, clock } = openIsolate({ rules });
    // From the second call on, Redis knows the script.
    await ask();
    clock.ms += 1_000;
    const before = await billed();
    expect(await limits()).toHaveLength(150);
    expect((await billed()) - before).toBe(3);
    expect(await send((redis) => redis.dbsize())).toBe(0);
  });

  it('again within a second costs nothing, and gets the same answer', async () => {
    const { limits, clock, take } = openIsolate({ rules: [perIp] });
    expect(await limits()).toMatchObject([{ remaining: 20 }]);
    await take('/x');
    const before = await billed();
    clock.ms += 999;
    expect(await limits()).toMatchObject([{ remaining: 20 }]);
    expect(await billed()).toBe(before);
    clock.ms += 1;
    expect(await limits()).toMatchObject([{ remaining: 19 }]);
  });

  it('in another region gets the count of that region', async () => {
    const { limits, take } = openIsolate({ rules: [perIp] });
    await take('/x');
    expect(await limits({ region: 'us' })).toMatchObject([{ remaining: 19 }]);
    expect(await limits({ region: 'eu' })).toMatchObject([{ remaining: 20 }]);
    expect(await limits({ region: 'us' })).toMatchObject([{ remaining: 19 }]);
  });

  it('is not answered from memory if the rules may be old', async () => {
    const { ask, take } = openIsolate({ rules: [perIp], isStale: true });
    for (const remaining of [20, 19, 18]) {
      const answer = await ask();
      expect(answer.headers.get('X-Weir-Degraded')).toBe('stale-rules');
      expect(await bodyOf(answer)).toMatchObject({ limits: [{ remaining }] });
      await take('/x');
    }
  });

  it('is not answered from memory for another caller', async () => {
    const keys = { a: { apiKeyId: 'a', userId: 'u' }, b: { apiKeyId: 'b', userId: 'u' } };
    const { ask } = openIsolate({ rules: [perIp], keys });
    const apiKeyIdOf = async (key: string) => (await bodyOf(await ask({ key })))['caller'];
    expect(await apiKeyIdOf('a')).toMatchObject({ apiKeyId: 'a' });
    expect(await apiKeyIdOf('b')).toMatchObject({ apiKeyId: 'b' });
  });

  it('reaches Redis at most fifty times a second, no matter how many callers ask', async () => {
    const { ask, clock } = openIsolate({ rules: [perIp] });
    const askAll = async () => {
      const answers = await Promise.all(Array.from({ length: 60 }, (_, i) => ask({ ip: `192.0.2.${i}` })));
      return answers.map(({ status }) => status);
    };
    // From the second call on, Redis knows the script.
    await ask();
    clock.ms += 1_000;
    const before = await billed();
    const statuses = await askAll();
    expect(statuses.filter((status) => status === 200)).toHaveLength(50);
    expect(statuses.filter((status) => status === 429)).toHaveLength(10);
    expect((await billed()) - before).toBe(150);
    const busy = await ask({ ip: '198.51.100.1' });
    expect([busy.status, busy.headers.get('Retry-After')]).toEqual([429, '1']);
    expect(await bodyOf(busy)).toMatchObject({ code: 'quota-busy' });
    // An address that got an answer before still gets one.
    expect((await ask({ ip: '192.0.2.0' })).status).toBe(200);
    clock.ms += 1_000;
    expect((await ask({ ip: '198.51.100.1' })).status).toBe(200);
  });

  it('leaves room for other addresses, no matter how often one asks as different callers', async () => {
    const keys = Object.fromEntries(Array.from({ length: 60 }, (_, i) => [`k${i}`, { apiKeyId: `k${i}` }]));
    const { ask } = openIsolate({ rules: [perIp], keys });
    const ofOne = await Promise.all(Object.keys(keys).map((key) => ask({ ip: '192.0.2.1', key })));
    expect(ofOne.filter(({ status }) => status === 200)).toHaveLength(25);
    expect((await ask({ ip: '192.0.2.2' })).status).toBe(200);
  });

  it('with a method other than GET or HEAD is refused', async () => {
    const { ask } = openIsolate({ rules: [perIp] });
    for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS']) {
      const answer = await ask({ method });
      expect([answer.status, answer.headers.get('Allow')]).toEqual([405, 'GET, HEAD']);
    }
    expect((await ask({ method: 'HEAD' })).status).toBe(200);
  });

  it('in a region that does not exist is an error', async () => {
    const answer = await openIsolate({ rules: [perIp] }).ask({ region: 'mars' });
    expect([answer.status, (await bodyOf(answer))['code']]).toEqual([400, 'unknown-region']);
  });
});

describe('a quota that is not known', () => {
  it('because Redis is down is a 503, until Redis is back', async () => {
    const { ask, degraded } = openIsolate({ rules: [perIp] });
    await withFault({ status: 500 }, async () => {
      const answer = await ask();
      expect([answer.status, answer.headers.get('Retry-After')]).toEqual([503, '5']);
      expect(answer.headers.get('X-Weir-Degraded')).toBe('unavailable');
      expect(await bodyOf(answer)).toMatchObject({ code: 'counters-unavailable' });
      expect(degraded).toEqual(['unavailable']);
    });
    expect((await ask()).status).toBe(200);
  });

  it('because there are no rules yet is a 503', async () => {
    const answer = await openIsolate({ isCold: true }).ask();
    expect([answer.status, answer.headers.get('X-Weir-Degraded')]).toEqual([503, 'no-rules']);
    expect(await bodyOf(answer)).toMatchObject({ code: 'rules-unavailable' });
  });

  it('is a 503 without the reason if DEGRADED_HEADER is off', async () => {
    const answer = await openIsolate({ isCold: true, showsDegraded: false }).ask();
    expect([answer.status, answer.headers.get('X-Weir-Degraded')]).toEqual([503, null]);
  });
});
