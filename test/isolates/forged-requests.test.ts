// What a client can forge about its request, in workerd: other spellings of a host, and headers that origins trust.
import { request as httpRequest } from 'node:http';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { freshIp, type Weir } from '../../local/weir.ts';
import { startWeir } from '../shared/weir.ts';

const rule = { scope: 'ip', algorithm: 'sliding-window-log', windowSeconds: 3600 };

let weir: Weir;
beforeAll(async () => {
  weir = await startWeir({}, { isolates: ['one'] });
  const body = { ...rule, resource: '/by-host', limit: 1, hosts: ['shop.test', '*.wild.test'] };
  await weir.admin('/rules', { method: 'POST', body });
  const byRoute = { name: 'shop', host: 'shop.test', prefix: '/routed', origin: weir.stack.originUrl };
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

function send(path: string, headers: Record<string, string>, ip = freshIp()) {
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
