// A request after its decision: its turn, its real cost, its refund, and what the origin learns.
import { request } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freshIp, type Weir } from '../../local/weir.ts';
import { startWeir } from '../shared/weir.ts';

let weir: Weir;
beforeAll(async () => {
  weir = await startWeir({ ORIGIN_TIMEOUT_MS: '2000' }, { isolates: ['one'] });
});
afterAll(() => weir?.[Symbol.asyncDispose]());

let lastPath = 0;
/** A rule for a path of its own, in force. */
async function limited(fields: object): Promise<string> {
  lastPath += 1;
  const path = `/limited-${lastPath}`;
  const rule = {
    resource: `${path}/*`,
    scope: 'ip',
    algorithm: 'fixed-window',
    windowSeconds: 3600,
    ...fields,
  };
  await weir.admin('/rules', { method: 'POST', body: rule });
  await expect
    .poll(async () => (await weir.call(path, { ip: freshIp() })).headers.get('X-RateLimit-Limit'))
    .not.toBeNull();
  return path;
}

const remaining = async (path: string, ip: string) => {
  const explained = await weir.admin<{ applies: { left: { remaining: number } }[] }>('/explain', {
    method: 'POST',
    body: { path, ip },
  });
  return explained.applies[0]?.left.remaining;
};

/**
 * Sends a request. Call the result to make the client leave. workerd notices a reset connection, not a half-closed one.
 */
function ask(url: string, headers: Record<string, string>): () => void {
  const asked = request(url, { headers });
  asked.on('error', () => {});
  asked.end();
  return () => asked.socket?.resetAndDestroy();
}

describe('throttle', () => {
  it('lets requests wait if their turn comes in time, and denies the others', async () => {
    const path = await limited({
      algorithm: 'leaky-bucket',
      action: 'throttle',
      limit: 30,
      windowSeconds: 60,
      maxDelayMs: 2_500,
    });
    const ip = freshIp();
    const startedAtMs = performance.now();
    const calls = Array.from({ length: 6 }, async () => {
      const { status } = await weir.call(path, { ip });
      return { status, tookMs: performance.now() - startedAtMs };
    });
    const answers = await Promise.all(calls);
    const passed = answers.filter(({ status }) => status === 200).map(({ tookMs }) => tookMs);
    // One passes at once, one two seconds later. The third would wait longer than allowed.
    expect(passed).toHaveLength(2);
    expect(Math.max(...passed)).toBeGreaterThanOrEqual(1_900);
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(4);
  });

  it('gives up the turn of a client that leaves while it waits', async () => {
    const path = await limited({
      algorithm: 'leaky-bucket',
      action: 'throttle',
      limit: 2,
      windowSeconds: 60,
      burst: 2,
      maxDelayMs: 30_000,
    });
    const ip = freshIp();
    await weir.call(path, { ip });
    expect(await remaining(path, ip)).toBe(1);
    const headers = { 'CF-Connecting-IP': ip, 'X-Weir-Region': 'us' };
    const leave = ask(`${weir.isolates.urls['one']}${path}`, headers);
    await expect.poll(() => remaining(path, ip)).toBe(0);
    leave();
    await expect.poll(() => remaining(path, ip)).toBe(1);
  });
});

describe('the cost that the origin names', () => {
  const settled = (limit: number) => limited({ limit, costFromOrigin: true });

  it('is settled above the first charge, and its header does not reach the client', async () => {
    const path = await settled(100);
    const ip = freshIp();
    const answer = await weir.call(`${path}?cost=40`, { ip });
    expect(answer.headers.get('X-Weir-Cost')).toBeNull();
    await expect.poll(() => remaining(path, ip)).toBe(60);
  });

  it('is settled below the first charge', async () => {
    const path = await limited({ limit: 100, cost: 30, costFromOrigin: true });
    const ip = freshIp();
    await weir.call(`${path}?cost=10`, { ip });
    await expect.poll(() => remaining(path, ip)).toBe(90);
    await weir.call(`${path}?cost=0`, { ip });
    await expect.poll(() => remaining(path, ip)).toBe(90);
  });

  it('can leave nothing for the next request, although it is named only afterwards', async () => {
    const path = await settled(50);
    const ip = freshIp();
    expect((await weir.call(`${path}?cost=500`, { ip })).status).toBe(200);
    await expect.poll(() => remaining(path, ip)).toBe(0);
    expect((await weir.call(path, { ip })).status).toBe(429);
  });

  it.each(['-5', '1.5', '0x10', '+5', '1e3', '9'.repeat(13)])(
    'is not believed if it is "%s"',
    async (cost) => {
      const path = await limited({ limit: 100, cost: 30, costFromOrigin: true });
      const ip = freshIp();
      await weir.call(`${path}?header=${encodeURIComponent(`X-Weir-Cost:${cost}`)}`, { ip });
      // A later cost that Weir believes is settled by then.
      await weir.call(`${path}?cost=20`, { ip });
      await expect.poll(() => remaining(path, ip)).toBe(100 - 30 - 20);
    },
  );

  it('does not affect rules that count requests', async () => {
    const path = await limited({ limit: 100 });
    const ip = freshIp();
    await weir.call(`${path}?cost=40`, { ip });
    expect(await remaining(path, ip)).toBe(99);
  });

  it('counts the tokens of a streamed LLM answer', async () => {
    await weir.admin('/rules', {
      method: 'POST',
      body: {
        resource: '/llm',
        scope: 'ip',
        algorithm: 'sliding-window-log',
        limit: 1_000,
        windowSeconds: 3600,
        costFromOrigin: true,
      },
    });
    const ip = freshIp();
    await expect
      .poll(async () => (await weir.call('/llm?prompt=x', { ip: freshIp() })).headers.get('RateLimit'))
      .not.toBeNull();
    const answer = await weir.call('/llm?prompt=how+many+words+are+these&interval=1', { ip });
    const usage = /"total_tokens":(\d+)/.exec(await answer.text())?.[1];
    await expect.poll(() => remaining('/llm', ip)).toBe(1_000 - Number(usage));
  });
});

describe('when the origin does not answer', () => {
  it.each([
    ['fail=reset', 502, 'origin-unreachable'],
    ['hang=1', 504, 'origin-timeout'],
  ])(
    '%s: the client gets an error, and pays because the request may have reached the origin',
    async (fault, status, code) => {
      const path = await limited({ limit: 10, refundOnError: true });
      const ip = freshIp();
      const answer = await weir.call(`${path}?${fault}`, { ip });
      expect(answer.status).toBe(status);
      expect(await answer.json()).toMatchObject({ code });
      expect(await remaining(path, ip)).toBe(9);
    },
  );

  it('a rule with refundOnError refunds requests that Cloudflare could not connect, and no others', async () => {
    const [paid, free] = [await limited({ limit: 20 }), await limited({ limit: 20, refundOnError: true })];
    const ip = freshIp();
    const notConnected = [521, 523, 525, 526, 530];
    const answers = [500, 502, 503, 504, 520, 522, 524];
    for (const status of [...answers, ...notConnected])
      for (const path of [paid, free])
        expect((await weir.call(`${path}?status=${status}`, { ip })).status).toBe(status);
    await expect.poll(() => remaining(free, ip)).toBe(20 - answers.length);
    expect(await remaining(paid, ip)).toBe(20 - answers.length - notConnected.length);
  });
});

describe('the origin', () => {
  const headersSeen = async (headers: Record<string, string>) => {
    const answer = await weir.call('/echo', { headers });
    const echo = (await answer.json()) as { headers: [string, string][] };
    return new Map(echo.headers.map(([name, value]) => [name.toLowerCase(), value]));
  };

  it('learns from Weir who calls, and never from the client', async () => {
    await weir.admin('/tiers', { method: 'POST', body: { name: 'gold', limits: {} } });
    const { id, key } = await weir.admin<{ id: string; key: string }>('/keys', {
      method: 'POST',
      body: { userId: 'Ada Lovelace é', tier: 'gold' },
    });
    const spoofed = { 'X-Weir-User': 'root', 'X-Weir-Tier': 'enterprise', 'X-Weir-Anything': 'x' };
    const known = await headersSeen({ ...spoofed, 'X-API-Key': key });
    expect(known.get('x-weir-user')).toBe('Ada%20Lovelace%20%C3%A9');
    expect(known.get('x-weir-key-id')).toBe(id);
    expect(known.get('x-weir-tier')).toBe('gold');
    const unknown = await headersSeen(spoofed);
    expect([...unknown.keys()].filter((name) => name.startsWith('x-weir'))).toEqual(['x-weir-hop']);
  });

  it('may have its own limits, and their headers are renamed', async () => {
    const path = await limited({ limit: 10 });
    const own = ['X-RateLimit-Limit:7', 'RateLimit:"origin";r=3'].map(
      (text) => `header=${encodeURIComponent(text)}`,
    );
    const { headers } = await weir.call(`${path}?${own.join('&')}`);
    expect(headers.get('X-RateLimit-Limit')).toBe('10');
    expect(headers.get('X-Origin-RateLimit-Limit')).toBe('7');
    expect(headers.get('X-Origin-RateLimit')).toBe('"origin";r=3');
    expect(headers.get('RateLimit')).not.toContain('origin');
  });
});
