// What a client can forge about its request, in workerd: other spellings of a host, headers that origins trust, and ways
// to hide a credential from Weir and still show it to the origin.
import { request as httpRequest } from 'node:http';
import { SignJWT } from 'jose';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { freshIp, type Weir } from '../../local/weir.ts';
import { madeUpKey } from '../rules/callers-harness.ts';
import { startWeir } from '../shared/weir.ts';

const rule = { scope: 'ip', algorithm: 'sliding-window-log', windowSeconds: 3600 };

const SECRET = 'a-secret-of-at-least-thirty-two-characters';

let weir: Weir;
let deniedKey: string;
beforeAll(async () => {
  const jwt = { JWT: JSON.stringify({ algorithms: ['HS256'] }), JWT_SECRET: SECRET };
  weir = await startWeir({ ...jwt, DEADLINE_MS: '4000' }, { isolates: ['one'] });
  const { id, key } = await weir.admin<{ id: string; key: string }>('/keys', { method: 'POST', body: {} });
  deniedKey = key;
  const denied = [
    { kind: 'apiKey', value: id },
    { kind: 'user', value: 'mallory' },
  ];
  for (const entry of denied)
    await weir.admin('/lists', { method: 'POST', body: { list: 'deny', ...entry } });
  const body = { ...rule, resource: '/by-host', limit: 1, hosts: ['shop.test', '*.wild.test'] };
  await weir.admin('/rules', { method: 'POST', body });
  const byRoute = { name: 'shop', host: 'shop.test', resource: '/routed/*', origin: weir.stack.originUrl };
  await weir.admin('/routes', { method: 'POST', body: { ...byRoute, headers: { 'X-Route': 'shop' } } });
  await vi.waitFor(
    async () => {
      const { headers } = JSON.parse((await send('/routed', { Host: 'shop.test' })).body) as Echo;
      expect(new Map(headers).get('X-Route')).toBe('shop');
    },
    { timeout: 30_000 },
  );
});
afterAll(() => weir?.[Symbol.asyncDispose]());

interface Echo {
  readonly headers: [string, string][];
}

function send(path: string, headers: Record<string, string | string[]>, ip = freshIp()) {
  const all = { 'CF-Connecting-IP': ip, 'X-Weir-Region': 'us', ...headers };
  return new Promise<{ status: number; body: string }>((resolve, reject) => {
    const call = httpRequest(`${weir.isolates.urls['one']}${path}`, { headers: all }, async (response) => {
      const chunks = await response.toArray();
      resolve({ status: response.statusCode ?? 0, body: Buffer.concat(chunks).toString() });
    });
    call.on('error', reject).end();
  });
}

describe('a rule and a route of a host', () => {
  const spellings = [
    'shop.test',
    'SHOP.test',
    'shop.test.',
    'shop.test..',
    'shop.test......',
    'shop.test:80',
    'shop.test:8443',
    'shop.test..:80',
  ];

  it.each([...spellings, 'a.wild.test', 'a.wild.test..', 'A.WILD.TEST..:443'])(
    'hold for Host: %s',
    async (host) => {
      const ip = freshIp();
      const first = await send('/by-host', { Host: host }, ip);
      const second = await send('/by-host', { Host: host }, ip);
      expect([first.status, second.status]).toEqual([200, 429]);
    },
  );

  it.each(spellings)('take a request with Host: %s', async (host) => {
    const { headers } = JSON.parse((await send('/routed', { Host: host })).body) as Echo;
    expect(new Map(headers).get('X-Route')).toBe('shop');
  });

  // The runtime refuses these itself, before the Worker runs.
  it.each(['shop%2Etest', 'shop.test%2e', '%73hop.test', 'user@shop.test'])(
    'see no request with Host: %s',
    async (host) => expect((await send('/by-host', { Host: host })).status).toBe(500),
  );
});

describe('the origin', () => {
  const FORGED = {
    'X-Original-URL': '/admin',
    'X-Original-URI': '/admin',
    'X-Rewrite-URL': '/admin',
    'X-Forwarded-Uri': '/admin',
    'X-Forwarded-Path': '/admin',
    'X-Forwarded-Method': 'DELETE',
    'X-Forwarded-Prefix': '/admin',
    'X-Forwarded-Port': '1',
    'X-Forwarded-User': 'root',
    'X-HTTP-Method-Override': 'DELETE',
    Forwarded: 'for=203.0.113.66;host=evil.test',
    'X-Client-IP': '203.0.113.66',
    X_Real_IP: '203.0.113.66',
    CF_Connecting_IP: '203.0.113.66',
    'X-Weir-User': 'root',
  };

  it('gets none of the headers that it would trust, and the real address in the others', async () => {
    const ip = freshIp();
    const forged = { ...FORGED, 'X-Real-IP': '203.0.113.66', 'True-Client-IP': '203.0.113.66' };
    const { headers } = JSON.parse((await send('/echo', forged, ip)).body) as Echo;
    const seen = Object.fromEntries(headers.map(([name, value]) => [name.toLowerCase(), value]));
    for (const name of Object.keys(FORGED)) expect(seen).not.toHaveProperty(name.toLowerCase());
    expect(seen).toMatchObject({ 'x-real-ip': ip, 'true-client-ip': ip, 'x-forwarded-for': ip });
  });
});

describe('a caller on the deny list', () => {
  const keysAtOrigin = (body: string) =>
    (JSON.parse(body) as Echo).headers
      .filter(([name]) => /^x.api.key$/i.test(name))
      .map(([, value]) => value);

  it('is refused', async () => {
    expect((await send('/echo', { 'X-API-Key': deniedKey })).status).toBe(403);
    expect((await send('/echo', await mallory())).status).toBe(403);
  });

  it.each(['X_API_Key', 'X-API_Key', 'x_api-key'])('shows the origin no key in %s', async (name) => {
    expect(keysAtOrigin((await send('/echo', { [name]: deniedKey })).body)).toEqual([]);
  });

  // An origin may read the first line only.
  it.each([
    ['twice', () => [deniedKey, deniedKey]],
    ['before an empty one', () => [deniedKey, '']],
    ['after an empty one', () => ['', deniedKey]],
  ])('shows the origin no valid key in a line of its own: %s', async (_, lines) => {
    const { body } = await send('/echo', { 'X-API-Key': lines() });
    expect(keysAtOrigin(body)).toEqual([lines().join(', ').trim()]);
  });

  it('is refused beside a made-up key that takes too long to look up', async () => {
    await weir.stack.neon.faults.set({ hang: true });
    try {
      const { status } = await send('/echo', { ...(await mallory()), 'X-API-Key': await madeUpKey() });
      expect(status).toBe(403);
    } finally {
      await weir.stack.neon.faults.clear();
    }
  });
});

async function mallory() {
  const token = await new SignJWT({})
    .setProtectedHeader({ alg: 'HS256' })
    .setSubject('mallory')
    .setExpirationTime('1h')
    .sign(new TextEncoder().encode(SECRET));
  return { Authorization: `Bearer ${token}` };
}
