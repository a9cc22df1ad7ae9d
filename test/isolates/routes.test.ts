// Requests on their way to several origins, in workerd: a URL, another Worker, and the zone's own origin.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Origin, startOrigin } from '../../local/origin.ts';
import { freshIp, type Weir } from '../../local/weir.ts';
import { getAs } from '../shared/get-as.ts';
import { startWeir } from '../shared/weir.ts';

let weir: Weir;
let second: Origin;
beforeAll(async () => {
  second = await startOrigin();
  weir = await startWeir();
  await addRoute({ name: 'second', resource: '/second/*', stripPrefix: '/second', origin: second.url });
  await addRoute({
    name: 'worker',
    resource: '/worker/*',
    stripPrefix: '/worker',
    origin: 'service:DEMO',
    headers: { 'X-Edge': 'weir' },
  });
  await addRoute({ name: 'zone', resource: '/zone/*', origin: 'pass' });
  await addRoute({ name: 'by host', host: '*.shop.test', origin: second.url });
  await addRoute({ name: 'slow', resource: '/slow/*', origin: second.url, timeoutMs: 1_000 });
});
afterAll(async () => {
  await weir?.[Symbol.asyncDispose]();
  await second?.stop();
});

const addRoute = (body: object) => weir.admin('/routes', { method: 'POST', body });

interface Echo {
  readonly path: string;
  readonly headers: [string, string][];
}

const callAs = (host: string, path: string) =>
  getAs(`${weir.isolates.urls['one']}${path}`, {
    Host: host,
    'CF-Connecting-IP': freshIp(),
    'X-Weir-Region': 'us',
  });

const originHost = () => new URL(weir.stack.originUrl).host;

it('routes are in force in every isolate', async () => {
  for (const isolate of ['one', 'two', 'three'] as const)
    await expect
      .poll(async () => ((await (await weir.call('/second/warm-up', { isolate })).json()) as Echo).path)
      .toBe('/warm-up');
});

describe('a request goes', () => {
  it('to the default origin if no route takes it', async () => {
    const echo = (await (await weir.call('/elsewhere?a=1')).json()) as Echo;
    expect(echo.path).toBe('/elsewhere?a=1');
    expect(new Map(echo.headers).get('Host')).toBe(originHost());
  });

  it('to the URL of its route, without the stripped prefix, in every spelling of the path', async () => {
    for (const path of ['/second/x/?a=1', '/SECOND/x/?a=1', '//second//x/?a=1', '/%73econd/x/?a=1']) {
      const echo = (await (await weir.call(path)).json()) as Echo;
      expect([path, echo.path]).toEqual([path, '/x/?a=1']);
      expect(new Map(echo.headers).get('Host')).toBe(new URL(second.url).host);
    }
  });

  it('to another Worker, with the headers of the route, the host that the client used, and the caller', async () => {
    const { id, key } = await weir.admin<{ id: string; key: string }>('/keys', {
      method: 'POST',
      body: { userId: 'ann' },
    });
    const ip = freshIp();
    const answer = await weir.call('/worker/x?a=1', {
      method: 'POST',
      body: { hello: 'Worker' },
      ip,
      headers: { 'X-API-Key': key, 'X-Weir-User': 'root', 'X-Weir-Tenant': 'made up' },
    });
    const echo = (await answer.json()) as { url: string; body: string; headers: [string, string][] };
    expect(new URL(echo.url).pathname).toBe('/x');
    expect(echo.body).toBe('{"hello":"Worker"}');
    const sent = new Map(echo.headers);
    expect(sent.get('x-edge')).toBe('weir');
    expect(sent.get('x-forwarded-host')).toBe(new URL(weir.isolates.urls['one'] ?? '').host);
    const names = ['x-weir-user', 'x-weir-key-id', 'x-weir-tenant', 'x-forwarded-for'];
    expect(names.map((name) => sent.get(name))).toEqual(['ann', id, undefined, ip]);
  });

  it('to another Worker, whose encoded answer passes unchanged', async () => {
    const answer = await weir.call('/worker/x?gzip=1', { headers: { 'Accept-Encoding': 'gzip' } });
    expect(answer.headers.get('Content-Encoding')).toBe('gzip');
    expect(await answer.json()).toMatchObject({ origin: 'the demo Worker' });
  });

  it('to the origin of the zone, under the URL that the client asked for', async () => {
    const { body } = await callAs(originHost(), '/zone/x?a=1');
    expect((JSON.parse(body) as Echo).path).toBe('/zone/x?a=1');
  });

  it('to the route of its host', async () => {
    for (const host of ['eu.shop.test', 'EU.shop.test:8080', 'a.b.shop.test.']) {
      const { body } = await callAs(host, '/x');
      expect([host, new Map((JSON.parse(body) as Echo).headers).get('Host')]).toEqual([
        host,
        new URL(second.url).host,
      ]);
    }
    const { body } = await callAs('shop.test', '/x');
    expect(new Map((JSON.parse(body) as Echo).headers).get('Host')).toBe(originHost());
  });

  it('to an origin for no longer than its route allows', async () => {
    const answer = await weir.call('/slow?hang=1');
    expect([answer.status, await answer.json()]).toMatchObject([504, { code: 'origin-timeout' }]);
  });
});

it('a request that loops is refused at once, and charged only once', async () => {
  const rule = {
    resource: '/zone/*',
    scope: 'global',
    algorithm: 'fixed-window',
    limit: 100,
    windowSeconds: 3600,
  };
  await weir.admin('/rules', { method: 'POST', body: rule });
  await expect.poll(async () => (await weir.call('/zone/loop')).headers.get('X-RateLimit-Limit')).toBe('100');
  const answer = await weir.call('/zone/loop');
  const before = Number(answer.headers.get('X-RateLimit-Remaining'));
  expect([answer.status, await answer.json()]).toMatchObject([508, { code: 'loop-detected' }]);
  expect(Number((await weir.call('/zone/loop')).headers.get('X-RateLimit-Remaining'))).toBe(before - 1);
});

it('a change of a route is in force in every isolate, without a restart', async () => {
  const { id } = await weir.admin<{ id: string }>('/routes', {
    method: 'POST',
    body: { name: 'moving', resource: '/moving/*', origin: second.url },
  });
  const hostOf = async (isolate: 'one' | 'three') =>
    new Map(((await (await weir.call('/moving', { isolate })).json()) as Echo).headers).get('Host');
  for (const isolate of ['one', 'three'] as const)
    await expect.poll(() => hostOf(isolate)).toBe(new URL(second.url).host);
  await weir.admin(`/routes/${id}`, { method: 'DELETE' });
  for (const isolate of ['one', 'three'] as const)
    await expect.poll(() => hostOf(isolate)).toBe(originHost());
});

it('health shows how each origin has answered', async () => {
  await weir.call('/worker?status=503', { isolate: 'two' });
  const { isolate } = await weir.health<{ isolate: { origins: object[] } }>('two');
  expect(isolate.origins).toContainEqual(
    expect.objectContaining({
      route: 'worker',
      origin: 'service:DEMO',
      state: 'failing',
      lastFailure: 'error',
    }),
  );
  expect(isolate.origins).toContainEqual(expect.objectContaining({ route: 'second', state: 'ok' }));
});
