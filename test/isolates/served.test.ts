// What the runtime itself does to a request, with nothing in front of it: upgrades, and clients that leave.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freshIp } from '../../local/weir.ts';
import { type ServedWeir, serveWeir } from './served-weir.ts';

let weir: ServedWeir;
beforeAll(async () => {
  const access = { teamDomain: 'https://team.cloudflareaccess.com', audience: 'weir' };
  weir = await serveWeir({ ADMIN_ACCESS: JSON.stringify(access) });
  const rule = { scope: 'ip', algorithm: 'fixed-window', limit: 10, windowSeconds: 3_600 };
  await weir.admin('/rules', { ...rule, name: 'reads', resource: '/methods', methods: ['GET'] });
});
afterAll(() => weir?.[Symbol.asyncDispose]());

describe('a request with Upgrade: websocket', () => {
  const upgrade = {
    Connection: 'Upgrade',
    Upgrade: 'websocket',
    'Sec-WebSocket-Version': '13',
    'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==',
  };

  it.each(['PUT', 'POST', 'DELETE', 'OPTIONS', 'HEAD'])(
    'that is a %s reaches the origin as what it is',
    async (method) => {
      weir.origin.requests.clear();
      expect(await weir.status('/methods', { ip: freshIp(), method, headers: upgrade })).toBe(200);
      const [seen] = weir.origin.requests.entries;
      expect([seen?.method, seen?.websocket]).toEqual([method, false]);
      expect(seen?.headers.map(([name]) => name.toLowerCase())).not.toContain('upgrade');
    },
  );

  it('that is a GET is a WebSocket', async () => {
    weir.origin.requests.clear();
    expect(await weir.status('/methods', { ip: freshIp(), headers: upgrade })).toBe(101);
    expect(weir.origin.requests.entries[0]).toMatchObject({ method: 'GET', websocket: true });
  });
});

it('what could make another request of it, and credentials of Access, do not reach the origin', async () => {
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
