// Requests go on by the last rules known, whatever part is down. Weir says what it cannot do.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freshIp, REGIONS, type Weir } from '../../local/weir.ts';
import { API_KEY_RANDOM_BYTES, createApiKey } from '../../src/identity/api-key.ts';
import { startWeir } from '../shared/weir.ts';

let weir: Weir;
beforeAll(async () => {
  weir = await startWeir();
});
afterAll(() => weir?.[Symbol.asyncDispose]());

const ruleFor = (resource: string, limit: number) => ({
  resource,
  scope: 'ip',
  algorithm: 'fixed-window',
  limit,
  windowSeconds: 3600,
});
const seen = async (path: string, call?: Parameters<Weir['call']>[1]) => {
  const { status, headers } = await weir.call(path, call);
  return [status, headers.get('X-RateLimit-Limit'), headers.get('X-Weir-Degraded')];
};

// In this order, because a part that is down stays down.
describe.sequential('before the first publication', () => {
  it('requests pass, and the answer says that there are no rules', async () => {
    expect(await seen('/x', { isolate: 'two' })).toEqual([200, null, 'no-rules']);
    const health = await weir.health('two');
    expect(health).toMatchObject({
      status: 'degraded',
      rules: { version: null },
      parts: { rules: 'missing' },
    });
  });

  it('the first publication is in force a moment later', async () => {
    await weir.admin('/rules', { method: 'POST', body: ruleFor('/x', 5) });
    await weir.admin('/rules', {
      method: 'POST',
      body: { ...ruleFor('/closed', 5), onUnavailable: 'closed' },
    });
    await weir.admin('/lists', { method: 'POST', body: { list: 'deny', kind: 'ip', value: '203.0.113.9' } });
    await expect.poll(() => seen('/x', { isolate: 'two' })).toEqual([200, '5', null]);
  });
});

describe.sequential('while Postgres is down', () => {
  beforeAll(() => weir.stack.stopPostgres());

  it('all isolates enforce the rules, even one that starts only now', async () => {
    for (const isolate of ['one', 'two', 'three'] as const)
      expect(await seen('/x', { isolate })).toEqual([200, '5', null]);
  });

  it('an API key that cannot be looked up identifies no caller, and the request does not fail', async () => {
    const key = await createApiKey(crypto.getRandomValues(new Uint8Array(API_KEY_RANDOM_BYTES)));
    expect(await seen('/x', { headers: { 'X-API-Key': key } })).toEqual([200, '5', 'caller-unknown']);
  });

  it('the admin route reports it, the cron run fails, and requests are still counted', async () => {
    await expect(weir.admin('/rules')).rejects.toThrow('"database-unavailable"');
    await expect(weir.admin('/publish', { method: 'POST' })).rejects.toThrow('"publish-failed"');
    await expect(weir.isolates.scheduled('one')).rejects.toThrow();
    expect(await seen('/x')).toEqual([200, '5', null]);
    const health = await weir.health('one');
    expect(health).toMatchObject({ status: 'degraded', parts: { postgres: 'down', rules: 'ok' } });
  });
});

describe.sequential('while the Redis of a region is down, too', () => {
  it('the next region counts, and the lists hold', async () => {
    await weir.withFault('ap', { status: 500 }, async () => {
      const ip = freshIp();
      expect(await seen('/x', { region: 'ap', ip })).toEqual([200, '5', 'unavailable']);
      const { headers } = await weir.call('/x', { region: 'ap', ip, isolate: 'two' });
      expect(headers.get('X-RateLimit-Remaining')).toBe('3');
      expect(headers.get('X-Weir-Fallback')).toBe('next-region');
      expect(await seen('/x', { region: 'ap', ip: '203.0.113.9' })).toEqual([403, null, null]);
    });
  });
});

describe.sequential('while the Redis of every region is down, too', () => {
  const withoutRedis = (during: () => Promise<void>) =>
    REGIONS.reduce((inner, region) => () => weir.withFault(region, { status: 500 }, inner), during)();

  it('requests pass uncounted, but the lists hold', async () => {
    await withoutRedis(async () => {
      expect(await seen('/x', { region: 'ap' })).toEqual([200, null, 'unavailable']);
      // Half a second later, the answer would also say that the rules are not confirmed.
      expect((await weir.call('/x', { region: 'ap', ip: '203.0.113.9' })).status).toBe(403);
    });
  });

  it('a rule that is closed lets no request pass uncounted', async () => {
    await withoutRedis(async () => {
      const answer = await weir.call('/closed', { region: 'ap' });
      expect([answer.status, answer.headers.get('Retry-After')]).toEqual([503, '5']);
      expect(await answer.json()).toMatchObject({
        type: 'https://iana.org/assignments/http-problem-types#temporary-reduced-capacity',
        code: 'temporary-reduced-capacity',
      });
    });
  });

  it('all is as before when the regions are back: requests are counted, and denied beyond the limit', async () => {
    // Another caller each time: a request while a breaker is still open uses up the limit elsewhere.
    for (const region of REGIONS)
      await expect.poll(() => seen('/closed', { region })).toEqual([200, '5', null]);
    const ip = freshIp();
    const answers: unknown[] = [];
    for (let i = 0; i < 6; i += 1) {
      const { status, headers } = await weir.call('/closed', { region: 'ap', ip });
      answers.push([status, headers.get('X-RateLimit-Remaining')]);
    }
    // For a second, an answer may still say that the rules are not confirmed. That does not change the count.
    expect(answers).toEqual([...['4', '3', '2', '1', '0'].map((left) => [200, left]), [429, '0']]);
    const redisOf = async () => {
      const { parts } = await weir.health<{ parts: Record<string, string> }>('one');
      return REGIONS.map((name) => parts[`redis:${name}`]);
    };
    await expect.poll(redisOf).toEqual(['ok', 'ok', 'ok']);
  });
});
