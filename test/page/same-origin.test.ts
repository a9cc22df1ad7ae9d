// A script on a proxied page attacks the page of Weir, in a real Chromium: on the same host, and with an ADMIN_HOST.
import { request } from 'node:http';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import type { Weir } from '../../local/weir.ts';
import { startWeir } from '../shared/weir.ts';
import { startChromium, TOKEN } from './browser.ts';
import { type EvilOrigin, startEvilOrigin } from './evil-origin.ts';

/** Browsers keep secure cookies on every name below localhost without TLS. Both names are of one site. */
const API_HOST = 'api.weir.localhost';
const ADMIN_HOST = 'admin.weir.localhost';

let browser: Browser;
let origin: EvilOrigin;
const cleanup = new AsyncDisposableStack();
beforeAll(async () => {
  origin = cleanup.use(await startEvilOrigin());
  browser = await startChromium();
  cleanup.defer(() => browser.close());
});
afterAll(() => cleanup.disposeAsync());

const startBehind = (variables: Record<string, string>) =>
  startWeir({ ORIGIN_URL: origin.url, ...variables }, { isolates: ['one'], hasPage: true });

const urlOn = (weir: Weir, host: string) => (weir.isolates.urls['one'] ?? '').replace('127.0.0.1', host);

type State = Awaited<ReturnType<BrowserContext['storageState']>>;
/** By address: the cookies of the person who has logged in there. */
const states = new Map<string, State>();

/** A browser in which somebody has logged in at the page. */
async function logIn(url: string, { isKept = false } = {}): Promise<BrowserContext> {
  const storageState = states.get(url);
  const context = await browser.newContext(storageState && { storageState });
  if (!isKept) onTestFinished(() => context.close());
  context.setDefaultTimeout(60_000);
  if (storageState) return context;
  const page = await context.newPage();
  await page.goto(`${url}/_weir/`);
  await page.fill('#token', TOKEN);
  await page.click('button:has-text("Log in")');
  await page.waitForSelector('h1:has-text("Overview")');
  await page.close();
  states.set(url, await context.storageState());
  return context;
}

/** By address: a proxied page in a browser in which a person has logged in, for tests that leave nothing behind there. */
const tabs = new Map<string, Page>();

/** Loads the page anew, in the same tab: each new one starts a process of the browser. */
async function openKept(url: string, search = ''): Promise<Page> {
  const kept = tabs.get(url) ?? (await (await logIn(url, { isKept: true })).newPage());
  tabs.set(url, kept);
  onTestFinished(async () => {
    const others = kept.context().pages();
    await Promise.all(others.filter((page) => page !== kept).map((page) => page.close()));
  });
  await kept.goto(`${url}/${search}`);
  expect(await kept.title()).toBe('A proxied page');
  return kept;
}

async function openProxied(context: BrowserContext, url: string): Promise<Page> {
  const page = await context.newPage();
  await page.goto(url);
  expect(await page.title()).toBe('A proxied page');
  return page;
}

const steal = (page: Page, target: string) => page.evaluate<string[]>(`steal(${JSON.stringify(target)})`);
const change = (page: Page, target: string) => page.evaluate<number[]>(`change(${JSON.stringify(target)})`);

/** The proxied page opens the page of Weir in a window of its own, and reads that window. */
async function readPopup(page: Page, target: string): Promise<string> {
  const opening = page.context().waitForEvent('page');
  await page.evaluate(`popUp(${JSON.stringify(`${target}/_weir/`)})`);
  const popup = await opening;
  await popup.waitForSelector('h1:has-text("Overview")');
  return page.evaluate<string>('readPopUp()');
}

interface Asked {
  readonly method?: string;
  readonly headers?: Record<string, string>;
}

const WITH_TOKEN = { Authorization: `Bearer ${TOKEN}` };

/** A request with any spelling of the host, which `fetch` would not send. */
const ask = (weir: Weir, host: string, path: string, { method = 'GET', headers = {} }: Asked = {}) =>
  new Promise<{ status: number; body: string }>((resolve, reject) => {
    const { hostname, port } = new URL(weir.isolates.urls['one'] ?? '');
    const asked = request({ hostname, port, path, method, headers: { ...headers, Host: host } }, (answer) => {
      let body = '';
      answer.on('data', (chunk) => {
        body += chunk;
      });
      answer.on('end', () => resolve({ status: answer.statusCode ?? 0, body }));
    });
    asked.on('error', reject).end();
  });

async function expectUntouched(weir: Weir, host: string): Promise<void> {
  const read = async (path: string) =>
    JSON.parse((await ask(weir, host, `/_weir/admin${path}`, { headers: WITH_TOKEN })).body);
  expect(await read('/settings')).toMatchObject({ enforcement: 'on' });
  expect(await read('/keys')).toMatchObject({ items: [] });
}

const publish = (weir: Weir, host: string) =>
  ask(weir, host, '/_weir/admin/publish', { method: 'POST', headers: WITH_TOKEN });

describe('without ADMIN_HOST, on the host of the API', () => {
  let weir: Weir;
  let url: string;
  beforeAll(async () => {
    weir = await startBehind({});
    url = urlOn(weir, API_HOST);
    await publish(weir, API_HOST);
  });
  afterAll(() => weir?.[Symbol.asyncDispose]());

  it('a script on a proxied page reads no document of the page, and nothing of the admin route', async () => {
    const page = await openKept(url);
    expect(await steal(page, '')).toEqual([]);
  });

  it('a script on a proxied page changes nothing', async () => {
    const page = await openKept(url);
    expect(await change(page, '')).toEqual([403, 403, 403, 403]);
    await expectUntouched(weir, API_HOST);
  });

  it.each(['unsafe-none', 'same-origin'])(
    'a proxied page with the opener policy "%s" reads no window with the page',
    async (policy) => {
      const page = await openKept(url, `?Cross-Origin-Opener-Policy=${policy}`);
      expect(await readPopup(page, url)).toBe('');
    },
  );

  it.each(['/admin/rules', '/admin/export', '/admin/nothing', '/metrics', '/health'])(
    'a proxied page reads no window in which it has opened %s, although the person sees it there',
    async (path) => {
      const page = await openKept(url);
      const opening = page.context().waitForEvent('page');
      await page.evaluate(`popUp('/_weir${path}')`);
      const popup = await opening;
      await popup.waitForLoadState();
      expect((await popup.innerText('body')).length).toBeGreaterThan(10);
      expect(await page.evaluate('textOfPopUp()')).toBe('');
    },
  );

  it('a script on a proxied page finds nothing of the admin route in the cache of the browser', async () => {
    const context = await logIn(url);
    const person = await context.newPage();
    const paths = new Set<string>();
    person.on('response', (answer) => {
      const { pathname, search } = new URL(answer.url());
      if (pathname.startsWith('/_weir/admin/')) paths.add(pathname + search);
    });
    await person.goto(`${url}/_weir/#/history`);
    await person.waitForSelector('h1:has-text("History")');
    await person.waitForLoadState('networkidle');
    for (const path of ['/_weir/admin/export', '/_weir/admin/settings']) {
      await person.evaluate(`fetch('${path}', {
        headers: { 'X-Weir-Csrf': document.body.dataset.csrf },
      }).then((answer) => answer.text())`);
    }
    expect([...paths]).toContain('/_weir/admin/history?limit=30');
    const page = await openProxied(context, `${url}/`);
    for (const path of paths)
      expect(await page.evaluate<number>(`statusInCache(${JSON.stringify(path)})`), path).toBe(0);
  });

  it.each(['fetch', 'preload'])(
    'a service worker of the API that takes the page by %s gets nothing, and the person learns why',
    async (way) => {
      const context = await logIn(url);
      const page = await openProxied(context, `${url}/`);
      await page.evaluate('register()');
      const person = await context.newPage();
      await person.goto(`${url}/_weir/?${way}`);
      expect(await person.innerText('body')).toContain('a service worker of this site asked for it');
      expect(await page.evaluate('stolen()')).toBe('');
    },
  );

  it('the origin cannot ask the browser for the token that a person has used as a password', async () => {
    const httpCredentials = { username: 'anybody', password: TOKEN };
    const context = await browser.newContext({ httpCredentials });
    onTestFinished(() => context.close());
    const page = await context.newPage();
    for (const path of ['/admin/docs', '/metrics', '/health']) await page.goto(`${url}/_weir${path}`);
    // What the person would type now. The browser asks only if it remembers no password for the realm.
    await context.setHTTPCredentials({ username: 'another', password: 'password' });
    await page.goto(`${url}/`);
    origin.credentials.splice(0);
    expect(await page.evaluate(`fetch('/?realm=weir').then(({ status }) => status)`)).toBe(200);
    expect(origin.credentials.filter(Boolean)).toEqual([`Basic ${btoa('another:password')}`]);
  });

  it('the origin cannot replace the session of a person, nor add a cookie for Weir’s paths', async () => {
    const context = await logIn(url);
    const before = await context.cookies(`${url}/_weir/`);
    const set = [
      '__Secure-weir=evil; Path=/_weir; Secure',
      '__secure-WEIR=evil; Path=/; Secure',
      '=__Secure-weir=evil; Path=/_weir/admin; Secure',
      'other=evil; PATH=/_weir/admin',
    ];
    const query = [...set, 'kept=1; Path=/'].map((cookie) => `set=${encodeURIComponent(cookie)}`).join('&');
    const page = await openProxied(context, `${url}/?${query}`);
    await page.waitForLoadState();
    const after = await context.cookies(`${url}/_weir/admin/keys`);
    expect(after.filter(({ name }) => name !== 'kept')).toEqual(before);
    expect(after.map(({ name }) => name)).toContain('kept');
  });
});

describe('with ADMIN_HOST', () => {
  let weir: Weir;
  let api: string;
  let admin: string;
  beforeAll(async () => {
    weir = await startBehind({ ADMIN_HOST: 'Admin.Weir.LOCALHOST.' });
    api = urlOn(weir, API_HOST);
    admin = urlOn(weir, ADMIN_HOST);
    await publish(weir, ADMIN_HOST);
  });
  afterAll(() => weir?.[Symbol.asyncDispose]());
  beforeEach(() => origin.seen.splice(0));

  it.each([
    ADMIN_HOST,
    'ADMIN.weir.localhost',
    `${ADMIN_HOST}.`,
    `${ADMIN_HOST}:8443`,
    `Admin.Weir.Localhost.:80`,
  ])('the host %s answers the page and the admin route, and forwards nothing', async (host) => {
    expect((await ask(weir, host, '/_weir/')).body).toContain('Log in');
    expect((await ask(weir, host, '/_weir/admin/rules', { headers: WITH_TOKEN })).status).toBe(200);
    expect((await ask(weir, host, '/_weir/metrics', { headers: WITH_TOKEN })).status).toBe(200);
    expect(JSON.parse((await ask(weir, host, '/_weir/health', { headers: WITH_TOKEN })).body)).toHaveProperty(
      'parts',
    );
    for (const path of ['/', '/orders', '/_weirdo', '//_weir/../orders', '/_weir/../orders'])
      expect((await ask(weir, host, path)).status, path).toBe(404);
    expect(origin.seen).toEqual([]);
  });

  it.each([API_HOST, `x.${ADMIN_HOST}`, `${ADMIN_HOST}.evil.example`, 'localhost', '127.0.0.1'])(
    'the host %s answers 404 for the page and the admin route, even with a token',
    async (host) => {
      for (const path of [
        '/_weir',
        '/_weir/',
        '/_weir/login',
        '/_weir/logout',
        '/_weir/admin',
        '/_weir/admin/rules',
        '/_weir/admin/docs',
        '/_weir/metrics',
      ])
        expect((await ask(weir, host, path, { headers: WITH_TOKEN })).status, path).toBe(404);
      expect(
        JSON.parse((await ask(weir, host, '/_weir/health', { headers: WITH_TOKEN })).body),
      ).not.toHaveProperty('parts');
      expect((await ask(weir, host, '/_weir/quota')).status).toBe(200);
      expect((await ask(weir, host, '/orders')).status).toBe(200);
    },
  );

  it('a script on a proxied page gets nothing from either host', async () => {
    const context = await logIn(admin);
    for (const target of ['', admin]) {
      const page = await openProxied(context, `${api}/`);
      expect(await steal(page, target)).toEqual([]);
      const statuses = await change(page, target);
      expect(statuses.filter((status) => status !== 0 && status !== 404)).toEqual([]);
      await page.close();
    }
    const page = await openProxied(context, `${api}/?Cross-Origin-Opener-Policy=same-origin`);
    expect(await readPopup(page, admin)).toBe('');
    await expectUntouched(weir, ADMIN_HOST);
  });

  it('a service worker of the API never sees the page', async () => {
    const context = await logIn(admin);
    const page = await openProxied(context, `${api}/`);
    await page.evaluate('register()');
    const person = await context.newPage();
    await person.goto(`${admin}/_weir/`);
    await person.waitForSelector('h1:has-text("Overview")');
    expect(await page.evaluate('stolen()')).toBe('');
  });

  it('cookies that the API sets for the whole site do not touch the session', async () => {
    const context = await logIn(admin);
    const [session] = await context.cookies(`${admin}/_weir/`);
    expect(session).toMatchObject({ name: '__Host-weir', path: '/', secure: true, httpOnly: true });
    const cookies = ['__Host-weir', '__Secure-weir'].flatMap((name) =>
      ['/', '/_weir', '/_weir/admin'].map(
        (path) => `${name}=evil; Path=${path}; Domain=weir.localhost; Secure`,
      ),
    );
    const query = cookies.map((cookie) => `set=${encodeURIComponent(cookie)}`).join('&');
    const page = await openProxied(context, `${api}/?${query}`);
    expect(await context.cookies(`${admin}/_weir/admin/rules`)).toEqual([session]);
    // A script can set some of them without a header. Weir does not read those.
    await page.evaluate(`for (const cookie of ${JSON.stringify(cookies)}) document.cookie = cookie`);
    const person = await context.newPage();
    await person.goto(`${admin}/_weir/`);
    await person.waitForSelector('h1:has-text("Overview")');
    // The cookies of the attacker reach the origin, but never the session.
    expect(origin.cookies.join()).not.toContain(session?.value ?? '');
    const sent = await context.cookies(`${admin}/_weir/admin/rules`);
    expect(sent.filter(({ name }) => name === '__Host-weir')).toEqual([session]);
    expect(sent.length).toBeGreaterThan(1);
  });
});
