import { beforeAll, describe, expect, it, vi } from 'vitest';
import { admin, billed, call, freshIp, redis, sql, withFault } from './worker.ts';

// An hour long, so that the tests do not cross the end of a window.
beforeAll(async () => {
  await sql('delete from weir.rules');
  await sql(`insert into weir.rules (name, resource, scope, algorithm, "limit", window_seconds) values
    ('per ip', '/*', 'ip', 'fixed-window', 20, 3600),
    ('login', '/login', 'ip', 'fixed-window', 3, 3600)`);
  expect((await call('/_weir/admin/publish', { method: 'POST', headers: admin })).status).toBe(200);
  // A new isolate waits for its rules only for a while. On a busy machine, the first requests may pass without them.
  const limit = async () => (await call('/x', { ip: freshIp() })).headers.get('X-RateLimit-Limit');
  await vi.waitFor(async () => expect(await limit()).toBe('20'), { timeout: 60_000 });
});

const statuses = async (count: number, path: string, options: Parameters<typeof call>[1]) => {
  const answers = await Promise.all(Array.from({ length: count }, () => call(path, options)));
  return answers.map((answer) => answer.status).sort();
};
/** A key outlives its last counter by this long at most: see lua/counters/take.lua. */
const IDLE_MS = 15_000;
const times = (count: number, status: number) => Array<number>(count).fill(status);

describe('the gateway', () => {
  it('admits exactly the limit of concurrent requests and denies the rest', async () => {
    const ip = freshIp();
    expect(await statuses(50, '/x', { ip })).toEqual([...times(20, 200), ...times(30, 429)]);
  });

  it('charges no other rule for a request that one rule denies', async () => {
    const ip = freshIp();
    expect(await statuses(10, '/login', { ip })).toEqual([...times(3, 200), ...times(7, 429)]);
    expect((await call('/x', { ip })).headers.get('X-RateLimit-Remaining')).toBe('16');
  });

  it('counts each IP on its own', async () => {
    expect(await statuses(4, '/login', { ip: freshIp() })).toEqual([200, 200, 200, 429]);
    expect(await statuses(3, '/login', { ip: freshIp() })).toEqual([200, 200, 200]);
  });

  it('counts every spelling of a path as the same', async () => {
    const ip = freshIp();
    for (const path of ['/login', '//Login/', '/x/%2e%2E/%6Cogin'])
      expect((await call(path, { ip })).status).toBe(200);
    for (const path of ['/LOGIN', '/login;a=1', '/./login'])
      expect((await call(path, { ip })).status).toBe(429);
  });

  it('refuses a path that can be read in two ways', async () => {
    const answer = await call('/a%2Flogin');
    expect(answer.status).toBe(400);
    expect(await answer.json()).toMatchObject({ code: 'bad-path', detail: '%2F is not allowed in a path' });
  });

  it('tells an admitted client what is left, by the rule nearest to its limit', async () => {
    const { headers } = await call('/login');
    expect(headers.get('X-RateLimit-Limit')).toBe('3');
    expect(headers.get('X-RateLimit-Remaining')).toBe('2');
    expect(headers.get('X-RateLimit-Cost')).toBe('1');
    expect(headers.get('Retry-After')).toBeNull();
    expect(headers.get('X-Weir-Degraded')).toBeNull();
  });

  it('tells a denied client the rule and how long to wait', async () => {
    const ip = freshIp();
    await statuses(3, '/login', { ip });
    const answer = await call('/login', { ip });
    const [seconds] = (await redis('us', 'TIME')) as [string];
    const reset = Number(answer.headers.get('X-RateLimit-Reset'));
    expect(reset % 3600).toBe(0);
    expect(Math.abs(reset - Number(seconds) - Number(answer.headers.get('Retry-After')))).toBeLessThanOrEqual(
      1,
    );
    expect(answer.headers.get('Content-Type')).toBe('application/problem+json');
    expect(await answer.json()).toMatchObject({
      type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
      code: 'rate-limited',
      policy: 'login-ip',
      'violated-policies': ['login-ip'],
    });
  });

  it('has one limit for all regions', async () => {
    const ip = freshIp();
    expect(await statuses(3, '/login', { ip, region: 'eu' })).toEqual(times(3, 200));
    expect(await statuses(2, '/login', { ip, region: 'ap' })).toEqual(times(2, 429));
  });

  it('refuses a region that does not exist', async () => {
    const answer = await call('/x', { region: 'mars' });
    expect(answer.status).toBe(400);
    expect(await answer.json()).toMatchObject({
      code: 'unknown-region',
      detail: 'X-Weir-Region must be one of us, eu, ap.',
    });
  });

  it('leaves only keys that expire', async () => {
    const ip = freshIp();
    await call('/login', { ip });
    const keys = (await redis('us', 'KEYS', `weir:{ip:=${ip}}*`)) as string[];
    expect(keys).toHaveLength(1);
    for (const key of keys)
      expect(await redis('us', 'PTTL', key)).toSatisfy((ms: number) => ms > 0 && ms <= 3_600_000 + IDLE_MS);
  });

  it('costs one script run, one clock, one read and one write, for any number of rules of the IP', async () => {
    const ip = freshIp();
    for (const path of ['/x', '/login']) {
      const before = await billed('us');
      await call(path, { ip });
      const after = await billed('us');
      expect(after.requests - before.requests).toBe(4);
      // The announcement is read along at most four times a second.
      expect(after.announcements - before.announcements).toBeLessThanOrEqual(1);
    }
  });
});

describe('the origin', () => {
  it('gets method, canonical path, query, headers and body, and its answer reaches the client', async () => {
    const answer = await call('/a//b/?q=1&status=201', {
      method: 'POST',
      body: 'hello',
      headers: { 'X-Mine': 'yes' },
    });
    expect(answer.status).toBe(201);
    const echo = (await answer.json()) as { headers: [string, string][] };
    expect(echo).toMatchObject({ method: 'POST', path: '/a/b/?q=1&status=201', body: 'hello' });
    expect(echo.headers.filter(([name]) => name.toLowerCase() === 'x-weir-region')).toEqual([]);
    expect(echo.headers.find(([name]) => name.toLowerCase() === 'x-mine')).toEqual([
      expect.anything(),
      'yes',
    ]);
  });

  it('may redirect, and the redirect reaches the client', async () => {
    const answer = await call('/x?status=302&location=/elsewhere');
    expect([answer.status, answer.headers.get('Location')]).toEqual([302, '/elsewhere']);
  });

  it('can use WebSockets through the gateway', async () => {
    const answer = await call('/socket', { headers: { Upgrade: 'websocket' } });
    expect(answer.status).toBe(101);
    const socket = answer.webSocket;
    socket?.accept();
    const echoed = new Promise((resolve) =>
      socket?.addEventListener('message', (event) => resolve(event.data)),
    );
    socket?.send('hello');
    expect(await echoed).toBe('hello');
    socket?.close();
  });

  it('that drops the connection causes a 502 with the code origin-unreachable', async () => {
    const answer = await call('/x?fail=reset');
    expect(answer.status).toBe(502);
    expect(await answer.json()).toMatchObject({ code: 'origin-unreachable' });
  });
});

describe('when Redis fails, the next region counts and the answer says why:', () => {
  it.each([
    [{ hang: true }, 'timeout'],
    [{ latencyMs: 5_000 }, 'timeout'],
    [{ status: 500 }, 'unavailable'],
    [{ status: 401 }, 'unavailable'],
    [{ garbage: true }, 'bad-reply'],
    [{ wrongShape: true }, 'bad-reply'],
    [{ resetMidReply: true }, 'unavailable'],
  ])('%o: %s', async (fault, reason) => {
    await withFault('ap', fault, async () => {
      const { status, headers } = await call('/x', { region: 'ap' });
      expect([status, headers.get('X-Weir-Degraded'), headers.get('X-Weir-Fallback')]).toEqual([
        200,
        reason,
        'next-region',
      ]);
      expect(headers.get('X-RateLimit-Limit')).toBe('20');
    });
    // More answered calls than failed ones, or the breaker would open.
    for (let i = 0; i < 3; i += 1)
      expect((await call('/x', { region: 'ap' })).headers.get('X-Weir-Degraded')).toBeNull();
  });

  it('a lost script cache loses no count', async () => {
    const ip = freshIp();
    await call('/x', { ip, region: 'eu' });
    await redis('eu', 'SCRIPT', 'FLUSH');
    const answer = await call('/x', { ip, region: 'eu' });
    expect(answer.headers.get('X-RateLimit-Remaining')).toBe('18');
  });
});
