// Cloudflare Access in front of the admin route, beside tokens.
import { OpenAPIHono } from '@hono/zod-openapi';
import { expect, test } from 'vitest';
import type { AdminEnv } from '../../src/admin/app.ts';
import { createAuth, createGate as openGate, sessionsOf } from '../../src/admin/auth.ts';
import { createPage } from '../../src/page/page.tsx';
import { AUDIENCE, useAccess } from './access-jwt-harness.ts';
import { TOKENS } from './harness.ts';

const { access, assert } = useAccess();

const createGate = (admins: string[] = []) => {
  const app = new OpenAPIHono<AdminEnv>().basePath('/_weir/admin');
  app.use(
    createAuth(
      openGate({
        regions: [],
        auth: {
          tokens: Object.values(TOKENS),
          access: { teamDomain: `${access.certs.url}/`, audience: AUDIENCE, admins },
        },
        deadlineMs: 1_000,
        now: () => access.nowMs,
      }),
    ),
  );
  app.all('/*', (c) => c.json(c.get('actor')));
  return async (jwt: string | undefined, { method = 'GET', ...headers }: Record<string, string> = {}) =>
    app.fetch(
      new Request('https://weir.test/_weir/admin/rules', {
        method,
        headers: { ...(jwt && { 'Cf-Access-Jwt-Assertion': jwt }), ...headers },
      }),
    );
};

test('an assertion from Access opens the admin route, as a token does', async () => {
  const response = await createGate(['alice@example.com'])(await assert(), { method: 'DELETE' });
  expect(await response.json()).toEqual({ name: 'alice@example.com', role: 'admin' });
});

test('a person who is not listed may only read', async () => {
  const call = createGate();
  expect((await call(await assert())).status).toBe(200);
  expect((await call(await assert(), { method: 'DELETE' })).status).toBe(403);
});

test('a wrong assertion counts as a failed attempt', async () => {
  const call = createGate();
  for (let i = 0; i < 10; i += 1) expect((await call('nonsense')).status).toBe(401);
  expect((await call(await assert())).status).toBe(429);
});

test('a token takes precedence over an assertion', async () => {
  const call = createGate();
  const response = await call(await assert(), { Authorization: `Bearer ${TOKENS.admin.token}` });
  expect(await response.json()).toMatchObject({ name: TOKENS.admin.name });
  expect((await call(await assert(), { Authorization: 'Bearer wrong' })).status).toBe(401);
});

test('while the keys of Access cannot be fetched, no attempt is counted and tokens work', async () => {
  access.certs.mode = 'error';
  const call = createGate();
  for (let i = 0; i < 11; i += 1) {
    const response = await call(await assert());
    expect(response.status).toBe(503);
    expect(await response.json()).toMatchObject({ code: 'access-unavailable' });
  }
  expect((await call(undefined, { Authorization: `Bearer ${TOKENS.admin.token}` })).status).toBe(200);
});

test('another site cannot make a browser change anything', async () => {
  const call = createGate(['alice@example.com']);
  const from = async (Origin: string, method = 'POST') =>
    (await call(await assert(), { method, Origin })).status;
  expect(await from('https://evil.test')).toBe(403);
  expect(await from('null')).toBe(403);
  expect(await from('https://weir.test')).toBe(200);
  expect(await from('https://evil.test', 'GET')).toBe(200);
});

test('a script in a browser needs the CSRF token of the page, and a program does not', async () => {
  const call = createGate(['alice@example.com']);
  const csrf = await sessionsOf({
    regions: [],
    auth: { tokens: [] },
    deadlineMs: 1_000,
    now: () => access.nowMs,
  }).csrfOfAccess('alice@example.com');
  const ask = async (method: string, headers: Record<string, string>) =>
    (await call(await assert(), { method, ...headers })).status;
  for (const method of ['GET', 'POST']) {
    expect(await ask(method, { 'Sec-Fetch-Dest': 'empty' })).toBe(403);
    expect(await ask(method, { 'Sec-Fetch-Dest': 'empty', 'X-Weir-Csrf': `${csrf}x` })).toBe(403);
    expect(await ask(method, { 'Sec-Fetch-Dest': 'empty', 'X-Weir-Csrf': csrf })).toBe(200);
    expect(await ask(method, {})).toBe(200);
  }
  expect(await ask('GET', { 'Sec-Fetch-Dest': 'document' })).toBe(200);
  expect(await ask('POST', { 'Sec-Fetch-Dest': 'document' })).toBe(403);
});

test('the page takes the name from Access, and has no log-in form, no session and no log-out button', async () => {
  const services = {
    regions: [],
    auth: { tokens: [], access: { teamDomain: access.certs.url, audience: AUDIENCE, admins: [] } },
    deadlineMs: 1_000,
    now: () => access.nowMs,
  };
  const sessions = sessionsOf(services);
  const page = createPage({ gate: openGate(services, sessions), sessions });
  const show = async (path: string, jwt?: string) => {
    const request = new Request(`https://weir.test${path}`, {
      headers: jwt ? { 'Cf-Access-Jwt-Assertion': jwt } : {},
    });
    const answer = await page(request);
    return { status: answer.status, html: await answer.text(), cookie: answer.headers.get('Set-Cookie') };
  };
  const frame = await show('/_weir/', await assert());
  const csrf = await sessions.csrfOfAccess('alice@example.com');
  expect(frame.html).toContain(`data-name="alice@example.com" data-role="read" data-csrf="${csrf}"`);
  for (const absent of ['Log out', 'Log in', 'Admin token']) expect(frame.html).not.toContain(absent);
  expect(frame.html).toContain('alice@example.com (read only)');
  expect(frame.html).toContain('<noscript><p class="notice">This page needs JavaScript.</p></noscript>');
  // Access is asked with every request, so there is no session to keep.
  expect(frame.cookie).toBeNull();
  expect((await show('/_weir/')).html).toContain('Admin token');
  expect(await show('/_weir/', 'nonsense')).toMatchObject({
    status: 401,
    html: expect.stringContaining('is not valid'),
  });
});
