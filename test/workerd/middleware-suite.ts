import { createExecutionContext, createScheduledController, waitOnExecutionContext } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { Hono } from 'hono';
import { beforeAll, describe, expect, it } from 'vitest';
import { type LibraryBindings, scheduled, type WeirVariables, weir } from '../../src/hono.ts';
import { admin, freshIp, sql } from './worker.ts';

// The example of docs/library.md.
const app = new Hono<{ Bindings: LibraryBindings; Variables: WeirVariables }>();
app.use(async (c, next) => {
  c.res.headers.set('X-Outer', 'kept');
  await next();
});
app.use(weir());
app.get('/hello', (c) => c.text(`hello ${c.var.weirCaller?.userId ?? 'stranger'}`));
app.get('/one-at-a-time', (c) => c.text('here'));
app.get('/one-at-a-time/throws', () => {
  throw new Error('broken');
});
app.onError(() => new Response('sorry', { status: 500 }));
app.get('/elsewhere', () => Response.redirect('https://example.com/', 302));

const { ORIGIN_URL: _, ...bindings } = env as unknown as LibraryBindings & { ORIGIN_URL: string };

async function call(path: string, ip = freshIp(), init: RequestInit = {}): Promise<Response> {
  const context = createExecutionContext();
  const headers = { 'CF-Connecting-IP': ip, 'X-Weir-Region': 'us', ...(init.headers as object) };
  const answer = await app.fetch(
    new Request(`https://mine.test${path}`, { ...init, headers }),
    bindings,
    context,
  );
  // Reads the body first, because a seat is held, and work goes on, until the last byte.
  const body = await answer.arrayBuffer();
  await waitOnExecutionContext(context);
  return new Response(body, answer);
}

beforeAll(async () => {
  await sql('delete from weir.rules');
  await sql(`insert into weir.rules (name, resource, scope, algorithm, "limit", window_seconds) values
    ('hello', '/hello', 'ip', 'fixed-window', 2, 3600),
    ('one', '/one-at-a-time/*', 'ip', 'concurrency', 1, 3600)`);
  await scheduled(createScheduledController(), bindings);
});

describe('Weir as middleware', () => {
  it('limits the app behind it, and its headers show the limit', async () => {
    const ip = freshIp();
    const answers = [await call('/hello', ip), await call('/hello', ip), await call('/hello', ip)];
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 429]);
    expect(await answers[0]?.text()).toBe('hello stranger');
    expect(answers.map(({ headers }) => headers.get('X-RateLimit-Remaining'))).toEqual(['1', '0', '0']);
    expect(await answers[2]?.json()).toMatchObject({ code: 'rate-limited', policy: 'hello-ip' });
  });

  it('keeps headers of outer middleware on a refusal', async () => {
    const ip = freshIp();
    for (const status of [200, 200, 429]) {
      const answer = await call('/hello', ip);
      expect([answer.status, answer.headers.get('X-Outer')]).toEqual([status, 'kept']);
    }
  });

  it('releases seats after HEAD, after a body, and after a handler that throws', async () => {
    const ip = freshIp();
    const path = '/one-at-a-time';
    expect((await call(path, ip, { method: 'HEAD' })).status).toBe(200);
    expect((await call(`${path}/throws`, ip)).status).toBe(500);
    expect(await (await call(path, ip)).text()).toBe('here');
  });

  it('leaves the other answers of the app as they are', async () => {
    const redirect = await call('/elsewhere');
    expect([redirect.status, redirect.headers.get('Location')]).toEqual([302, 'https://example.com/']);
    expect((await call('/nothing')).status).toBe(404);
  });

  it('counts every spelling of a path, and answers Weir’s own paths', async () => {
    const ip = freshIp();
    for (const path of ['//hello', '/HELLO/']) await call(path, ip);
    expect((await call('/hello', ip)).status).toBe(429);
    expect((await call('/_weir/health')).status).toBe(200);
    expect((await call('/_weir/admin/rules', freshIp(), { headers: admin })).status).toBe(200);
  });

  it('names a missing setting', async () => {
    const { REGIONS: _regions, ...incomplete } = bindings;
    const unconfigured = new Hono().use(weir() as never);
    unconfigured.onError((error) => new Response(error.message, { status: 500 }));
    const answer = await unconfigured.fetch(
      new Request('https://mine.test/hello'),
      incomplete,
      createExecutionContext(),
    );
    expect(await answer.text()).toBe('Weir is not configured: REGIONS: is missing');
  });
});
