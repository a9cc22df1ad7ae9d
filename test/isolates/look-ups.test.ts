// Addresses that make up keys: none of them turns a known key into an unknown one, its own or that of another address.
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { freshIp, type Weir } from '../../local/weir.ts';
import { madeUpKey } from '../rules/callers-harness.ts';
import { startWeir } from '../shared/weir.ts';

const LIMIT = 5;

let weir: Weir;
beforeAll(async () => {
  weir = await startWeir({}, { isolates: ['one'] });
  const rule = { scope: 'apiKey', algorithm: 'sliding-window-log', limit: LIMIT, windowSeconds: 3600 };
  await weir.admin('/rules', { method: 'POST', body: { ...rule, resource: '/limited' } });
  await vi.waitFor(
    async () => {
      const { headers } = await weir.call('/limited');
      expect(headers.get('X-RateLimit-Limit')).toBe(String(LIMIT));
    },
    { timeout: 30_000 },
  );
});
afterAll(() => weir?.[Symbol.asyncDispose]());

interface Issued {
  readonly id: string;
  readonly key: string;
}
const issue = () => weir.admin<Issued>('/keys', { method: 'POST', body: {} });
const call = (key: string, ip: string, path = '/any') =>
  weir.call(path, { ip, headers: { 'X-API-Key': key } });

/** Sends made-up keys from one address, one after the other, until Weir refuses to look up more of them. */
async function exhaust(ip: string): Promise<Response> {
  for (let i = 0; i < 100; i += 1) {
    const answer = await call(await madeUpKey(), ip);
    if (answer.status !== 200) return answer;
    await answer.body?.cancel();
  }
  throw new Error('Weir has looked up 100 made-up keys of one address, or let them pass');
}

describe('an address that makes up keys', () => {
  it('gets 429, how long to wait, and a message that says why', async () => {
    const answer = await exhaust(freshIp());
    expect([answer.status, answer.headers.get('Retry-After')]).toEqual([429, '1']);
    expect(answer.headers.get('Content-Type')).toBe('application/problem+json');
    expect(await answer.json()).toMatchObject({
      code: 'too-many-look-ups',
      detail: expect.stringContaining('API key'),
    });
  });

  it('does not escape the limit of a real key: over 8 addresses, exactly the limit passes', async () => {
    const { key } = await issue();
    const statuses: number[] = [];
    for (let i = 0; i < 8; i += 1) {
      const ip = freshIp();
      await exhaust(ip);
      for (let n = 0; n < LIMIT; n += 1) statuses.push((await call(key, ip, '/limited')).status);
    }
    // The answers of one address: not looked up (429), then counted by the key once the second is over.
    expect(new Set(statuses)).toContain(429);
    await vi.waitFor(async () => {
      const { headers } = await call(key, freshIp(), '/limited');
      expect(headers.get('X-RateLimit-Remaining')).toBe('0');
    });
    const passed = statuses.filter((status) => status === 200).length;
    expect(passed).toBeLessThanOrEqual(LIMIT);
  });

  it('does not get past a deny entry for its key', async () => {
    const { id, key } = await issue();
    const marker = freshIp();
    const deny = (kind: string, value: string) =>
      weir.admin('/lists', { method: 'POST', body: { list: 'deny', kind, value } });
    await deny('apiKey', id);
    await deny('ip', marker);
    await expect.poll(async () => (await weir.call('/any', { ip: marker })).status).toBe(403);
    const ip = freshIp();
    await exhaust(ip);
    for (let n = 0; n < 5; n += 1) expect([403, 429]).toContain((await call(key, ip)).status);
  });
});

describe('addresses that flood made-up keys', () => {
  it('leave the cold keys of other addresses what they are', async () => {
    const keys = await Promise.all(Array.from({ length: 20 }, issue));
    const attackers = Array.from({ length: 5 }, freshIp);
    let isOver = false;
    const flood = attackers.map(async (ip) => {
      while (!isOver) await (await call(await madeUpKey(), ip)).body?.cancel();
    });
    const seen: unknown[] = [];
    for (const { key } of keys) {
      const answer = await call(key, freshIp());
      seen.push(answer.status === 200 ? await keyIdAtOrigin(answer) : answer.status);
    }
    isOver = true;
    await Promise.all(flood);
    expect(seen).toEqual(keys.map(({ id }) => id));
  });
});

describe('honest callers', () => {
  it('behind one address, with 50 keys that the isolate has never seen, are all known in the same second', async () => {
    const keys = await Promise.all(Array.from({ length: 50 }, issue));
    const ip = freshIp();
    const seen = await Promise.all(keys.map(async ({ key }) => keyIdAtOrigin(await call(key, ip))));
    expect(seen).toEqual(keys.map(({ id }) => id));
  });

  it('with one key and many addresses are all known', async () => {
    const { id, key } = await issue();
    const answers = Array.from({ length: 50 }, async () => keyIdAtOrigin(await call(key, freshIp())));
    expect(new Set(await Promise.all(answers))).toEqual(new Set([id]));
  });
});

async function keyIdAtOrigin(answer: Response): Promise<string | undefined> {
  const { headers = [] } = (await answer.json()) as { headers?: [string, string][] };
  return headers.find(([name]) => name.toLowerCase() === 'x-weir-key-id')?.[1];
}
