// The choice of an origin, loops, and the known health of each origin.
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import type { OriginRoute, ServiceBinding } from '../../src/core/matching/origin-routes.ts';
import { compileOriginRoutes, hostOf } from '../../src/core/matching/origin-routes.ts';
import { readClientRequest } from '../../src/http/guard.ts';
import {
  createLoopGuard,
  createOriginChooser,
  createOriginHealth,
  nameOfRoute,
  type OriginsOptions,
} from '../../src/proxy/origins.ts';
import type { ProxyResult } from '../../src/proxy/proxy.ts';
import { useOrigin } from '../local/origin-harness.ts';
import { SILENT_LOG } from '../telemetry/silent.ts';
import { openOrigins, route } from './origins-harness.ts';

const { current } = useOrigin();

function choose(routes: readonly OriginRoute[], url: string, options: Partial<OriginsOptions> = {}) {
  const { pathname, search } = new URL(url);
  const chooser = createOriginChooser({
    defaultOrigin: 'https://default.example.com/base/',
    timeoutMs: 1_000,
    service: () => undefined,
    canOverrideHost: true,
    ...options,
  });
  const route = compileOriginRoutes(routes)?.find(hostOf(url), pathname.toLowerCase());
  return chooser(url, { path: pathname, query: search, route });
}

describe('a request', () => {
  it('is counted under the name of its route, or as default if no route takes it', () => {
    const shop = route({ name: 'shop', host: 'www.example.com', prefix: '/shop', origin: 'pass' });
    const nameOf = (url: string, matchPath: string) =>
      nameOfRoute(openOrigins({ routes: [shop] }).routeOf(url, matchPath));
    expect(nameOf('https://www.example.com/Shop/cart', '/shop/cart')).toBe('shop');
    expect(nameOf('https://api.example.com/shop/cart', '/shop/cart')).toBe('default');
    expect(nameOfRoute(openOrigins().routeOf('https://www.example.com/shop', '/shop'))).toBe('default');
  });

  it('goes to the default origin if no route takes it', () => {
    for (const routes of [[], [route({ host: 'other.example.com', origin: 'pass' })]])
      expect(choose(routes, 'https://api.example.com/x?y=1')).toMatchObject({
        routeName: undefined,
        url: 'https://default.example.com/base/x?y=1',
        via: 'network',
        timeoutMs: 1_000,
      });
  });

  it('goes to the origin of its route, without the stripped prefix and with the settings of the route', () => {
    const api = route({
      name: 'api',
      prefix: '/api',
      stripPrefix: '/api',
      origin: 'https://origin.example.com/v2/',
      timeoutMs: 50,
      hostHeader: 'inner.example.com',
      headers: { 'X-Key': 'k' },
    });
    expect(choose([api], 'https://api.example.com/API/users?y=1')).toEqual({
      routeName: 'api',
      origin: api.origin,
      // The origin reads the host of the URL. Cloudflare connects to the host in `resolveOverride`.
      url: 'https://inner.example.com/v2/users?y=1',
      resolveOverride: 'origin.example.com',
      via: 'network',
      timeoutMs: 50,
      headers: { 'X-Key': 'k' },
    });
  });

  it('keeps the host of its origin in development, where the runtime cannot connect elsewhere', () => {
    const api = route({ origin: 'https://origin.example.com:8443', hostHeader: 'inner.example.com' });
    expect(choose([api], 'https://a.example.com/x', { canOverrideHost: false })).toMatchObject({
      url: 'https://origin.example.com:8443/x',
      resolveOverride: undefined,
    });
    expect(choose([api], 'https://a.example.com/x')).toMatchObject({
      url: 'https://inner.example.com:8443/x',
      resolveOverride: 'origin.example.com',
    });
  });

  it('goes to the zone with the URL that the client asked for', () => {
    const zone = route({ origin: 'pass', prefix: '/shop' });
    expect(choose([zone], 'https://www.example.com/shop/1?a')).toMatchObject({
      url: 'https://www.example.com/shop/1?a',
      via: 'network',
    });
  });

  it('goes to another Worker, which reads its host from the URL', () => {
    const binding: ServiceBinding = { fetch: async () => new Response() };
    const service = (name: string) => (name === 'SHOP' ? binding : undefined);
    const shop = (hostHeader: string | null) => [route({ origin: 'service:SHOP', hostHeader })];
    expect(choose(shop(null), 'https://www.example.com/x', { service })).toMatchObject({
      url: 'https://www.example.com/x',
      via: binding,
    });
    expect(choose(shop('shop.example.com'), 'https://www.example.com/x', { service })).toMatchObject({
      url: 'https://shop.example.com/x',
      resolveOverride: undefined,
    });
  });
});

function forward(
  origins: ReturnType<typeof openOrigins>,
  pathAndQuery: string,
  headers: Record<string, string> = {},
) {
  const request = readClientRequest(new Request(`https://www.example.com${pathAndQuery}`, { headers }));
  const [path = '/'] = pathAndQuery.split('?');
  return origins.forward(request, {
    path,
    query: /\?.*/.exec(pathAndQuery)?.[0] ?? '',
    route: origins.routeOf(request.url, path),
    isFirst: true,
    caller: undefined,
  });
}

describe('on the way to the origin', () => {
  it('a request has the headers of its route, which replace those of the client', async () => {
    const origins = openOrigins({
      routes: [route({ origin: current().url, headers: { 'X-Key': 'ours', Accept: 'text/x' } })],
    });
    const { response } = await forward(origins, '/x', { 'X-Key': 'theirs' });
    const { headers } = (await response.json()) as { headers: [string, string][] };
    const sent = new Map(headers.map(([name, value]) => [name.toLowerCase(), value]));
    expect([sent.get('x-key'), sent.get('accept')]).toEqual(['ours', 'text/x']);
  });

  it('a request whose host is renamed tells Cloudflare where to connect', async () => {
    const asked = vi.spyOn(globalThis, 'fetch').mockResolvedValue(new Response());
    onTestFinished(() => asked.mockRestore());
    const named = route({ origin: 'https://origin.example.com', hostHeader: 'inner.example.com' });
    await forward(openOrigins({ routes: [named] }), '/x');
    expect(asked).toHaveBeenCalledWith(
      'https://inner.example.com/x',
      expect.objectContaining({ cf: { resolveOverride: 'origin.example.com' } }),
    );
  });

  it('a request to a service that is not bound gets a 502 with a code of its own', async () => {
    const { response } = await forward(openOrigins({ routes: [route({ origin: 'service:GONE' })] }), '/x');
    expect([response.status, await response.json()]).toMatchObject([502, { code: 'origin-not-bound' }]);
  });
});

describe('the loop guard', () => {
  const guardOf = (identity: string) => createLoopGuard({ identity, log: SILENT_LOG });
  const marked = (hop: string) => new Request('https://weir.test/', { headers: { 'X-Weir-Hop': hop } });
  const own = () => guardOf('one').mark(new Request('https://weir.test/'), true);

  it('refuses a request that this Weir has sent itself, in this isolate or another one', async () => {
    const answer = await guardOf('one').refuse(marked(await own()));
    expect([answer?.status, await answer?.json()]).toMatchObject([508, { code: 'loop-detected' }]);
  });

  it('refuses such a request even if it passed another Weir, which adds its own id', async () => {
    const both = await guardOf('two').mark(marked(await own()), false);
    expect(both).toMatch(/^[0-9a-f]{16}, [0-9a-f]{16}$/);
    expect((await guardOf('one').refuse(marked(both)))?.status).toBe(508);
    expect(await guardOf('three').refuse(marked(both))).toBeUndefined();
  });

  it('does not refuse a request of another Weir, or a mark that a client made up', async () => {
    const guard = guardOf('two');
    for (const hop of [await own(), 'x', '', 'a'.repeat(10_000)])
      expect(await guard.refuse(marked(hop))).toBeUndefined();
    expect(await guard.mark(marked('made up'), false)).toMatch(/^[0-9a-f]{16}$/);
  });

  it('refuses a request that has passed eight Weirs', async () => {
    const eight = Array.from({ length: 8 }, (_, i) => `${i}`.repeat(16)).join(', ');
    expect((await guardOf('one').refuse(marked(eight)))?.status).toBe(508);
  });
});

describe('the health of an origin', () => {
  const ORIGIN = { routeName: 'api', origin: 'https://api.example.com' };
  const answered = (status: number): ProxyResult => ({
    kind: 'answered',
    response: new Response(null, { status }),
  });
  const failed = (reason: 'timeout' | 'unreachable' | 'client-gone'): ProxyResult => ({
    kind: 'failed',
    reason,
    response: new Response(),
  });

  it('is unknown before the first request', () => {
    expect(createOriginHealth(() => 0).report(ORIGIN)).toEqual({
      route: 'api',
      origin: ORIGIN.origin,
      state: 'unknown',
      lately: {},
      lastOkAt: null,
      lastFailureAt: null,
      lastFailure: null,
    });
  });

  it('depends on its last twenty requests', () => {
    let ms = 0;
    const health = createOriginHealth(() => ms);
    const record = (result: ProxyResult, times: number) => {
      for (let i = 0; i < times; i += 1) health.of(ORIGIN).note(result);
    };
    record(answered(500), 3);
    record(answered(404), 17);
    expect(health.report(ORIGIN)).toMatchObject({
      state: 'ok',
      lately: { ok: 17, error: 3 },
      lastFailure: 'error',
    });
    ms = 1_000;
    record(failed('timeout'), 6);
    record(failed('unreachable'), 4);
    // A client that disconnects says nothing about the origin.
    record(failed('client-gone'), 20);
    expect(health.report(ORIGIN)).toEqual({
      route: 'api',
      origin: ORIGIN.origin,
      state: 'failing',
      lately: { ok: 10, timeout: 6, unreachable: 4 },
      lastOkAt: '1970-01-01T00:00:00.000Z',
      lastFailureAt: '1970-01-01T00:00:01.000Z',
      lastFailure: 'unreachable',
    });
    record(answered(200), 20);
    expect(health.report(ORIGIN)).toMatchObject({ state: 'ok', lately: { ok: 20 } });
  });

  it('is reported for the default origin and for each route in force', async () => {
    const api = route({ name: 'api', prefix: '/api', origin: current().url });
    const origins = openOrigins({ defaultOrigin: 'http://127.0.0.1:1', routes: [api] });
    await forward(origins, '/api');
    await forward(origins, '/other');
    expect(origins.report()).toMatchObject([
      { route: null, origin: 'http://127.0.0.1:1', state: 'failing', lately: { unreachable: 1 } },
      { route: 'api', origin: current().url, state: 'ok', lately: { ok: 1 } },
    ]);
  });
});
