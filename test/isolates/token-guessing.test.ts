// Guessing tokens from outside, and sending bodies to Weir's own paths before it knows who asks.
import { request } from 'node:http';
import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freshIp, type IsolateName, type Weir } from '../../local/weir.ts';
import { startWeir } from '../shared/weir.ts';

const TOKENS = { check: 'a-token-that-may-check', admin: 'a-token-that-may-do-all' };

let weir: Weir;
beforeAll(async () => {
  const tokens = Object.entries(TOKENS).map(([role, token]) => ({ name: `the ${role}`, token, role }));
  weir = await startWeir({ ADMIN_TOKENS: JSON.stringify(tokens) }, { isolates: ['one', 'two'] });
  const rule = { scope: 'global', algorithm: 'fixed-window', limit: 1_000, windowSeconds: 86_400 };
  await weir.admin('/rules', { method: 'POST', body: { ...rule, name: 'jobs', resource: '/jobs' } });
});
afterAll(() => weir?.[Symbol.asyncDispose]());

interface Guess {
  readonly ip: string;
  readonly token: string;
  readonly isolate?: IsolateName;
}

const bearer = (token: string) => ({ Authorization: `Bearer ${token}` });
const body = { rule: 'jobs', peek: true };

const DOORS: Readonly<Record<string, (guess: Guess) => Promise<Response>>> = {
  'POST /_weir/check': ({ token, ...call }) =>
    weir.call('/_weir/check', { ...call, method: 'POST', body, headers: bearer(token) }),
  'POST /_weir/check/refund': ({ token, ...call }) =>
    weir.call('/_weir/check/refund', { ...call, method: 'POST', body: {}, headers: bearer(token) }),
  'GET /_weir/admin/rules': ({ token, ...call }) =>
    weir.call('/_weir/admin/rules', { ...call, headers: bearer(token) }),
  'GET /_weir/metrics': ({ token, ...call }) =>
    weir.call('/_weir/metrics', { ...call, headers: bearer(token) }),
  'GET /_weir/health': ({ token, ...call }) =>
    weir.call('/_weir/health', { ...call, headers: bearer(token) }),
  'POST /_weir/login': ({ token, ip, isolate = 'one' }) => {
    const site = weir.isolates.urls[isolate] ?? '';
    const headers = { 'CF-Connecting-IP': ip, 'X-Weir-Region': 'us', Origin: site };
    return fetch(`${site}/_weir/login`, {
      method: 'POST',
      headers,
      body: new URLSearchParams({ token }),
      redirect: 'manual',
    });
  },
};

/** All that a guesser can see, but for the seconds that are left of the minute. */
async function seen(answer: Response) {
  const headers = [...answer.headers].filter(([name]) => name !== 'date' && name !== 'retry-after');
  const text = (await answer.text()).replace(/(?<=again in |"retry-after":)\d+/, 'some');
  return { status: answer.status, headers, text };
}

/** Runs it again if another minute has begun meanwhile, because failures are counted by the minute. */
async function inOneMinute<T>(work: () => Promise<T>): Promise<T> {
  for (;;) {
    const minute = () => Math.floor(Date.now() / 60_000);
    const before = minute();
    const result = await work();
    if (minute() === before) return result;
  }
}

describe('after ten wrong tokens at POST /_weir/check', () => {
  it.each(Object.keys(DOORS))('%s answers right and wrong tokens alike', async (name) => {
    const door = DOORS[name];
    const guess = DOORS['POST /_weir/check'];
    if (!door || !guess) throw new Error('there is no such door');
    await inOneMinute(async () => {
      const ip = freshIp();
      for (let i = 0; i < 10; i += 1)
        expect((await guess({ ip, token: `a-guess-of-16-letters-${i}` })).status).toBe(401);
      for (const isolate of ['one', 'two'] as const) {
        const right = await seen(await door({ ip, isolate, token: TOKENS.admin }));
        const wrong = await seen(await door({ ip, isolate, token: 'one-more-guess-of-16' }));
        const again = await seen(await door({ ip, isolate, token: TOKENS.admin }));
        expect(right.status).toBe(429);
        expect(right).toEqual(wrong);
        expect(again).toEqual(wrong);
      }
    });
  });

  it('an address that did not guess is served', async () => {
    const check = DOORS['POST /_weir/check'];
    expect((await check?.({ ip: freshIp(), token: TOKENS.check }))?.status).toBe(200);
  });
});

interface Sent {
  readonly path: string;
  readonly token?: string;
  readonly isolate?: IsolateName;
  readonly type?: string;
}

/** Sends a megabyte in chunks, never ends the body, and resolves to what comes back. */
function sendEndless({ path, token, isolate = 'one', type = 'application/json' }: Sent): Promise<string> {
  const { hostname, port, origin } = new URL(weir.isolates.urls[isolate] ?? '');
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname);
    let said = '';
    socket.on('error', (error) => (said === '' ? reject(error) : resolve(said)));
    socket.on('close', () => resolve(said));
    socket.on('data', (data) => {
      said += data.toString();
      if (!said.includes('\r\n\r\n')) return;
      resolve(said);
      socket.destroy();
    });
    const head = [
      `POST ${path} HTTP/1.1`,
      `Host: ${hostname}:${port}`,
      `Origin: ${origin}`,
      `CF-Connecting-IP: ${freshIp()}`,
      'X-Weir-Region: us',
      `Content-Type: ${type}`,
      'Transfer-Encoding: chunked',
      ...(token === undefined ? [] : [`Authorization: Bearer ${token}`]),
    ];
    socket.write(`${head.join('\r\n')}\r\n\r\n`);
    const chunk = `4000\r\n${'x'.repeat(0x4000)}\r\n`;
    for (let i = 0; i < 64; i += 1) socket.write(chunk);
  });
}

describe('a body without an end', () => {
  it.each<[string, Sent, RegExp]>([
    [
      'of a log-in is refused after 8 KiB',
      { path: '/_weir/login', type: 'application/x-www-form-urlencoded' },
      /^HTTP\/1.1 413 /,
    ],
    ['of a check is refused after 64 KiB', { path: '/_weir/check', token: TOKENS.check }, /^HTTP\/1.1 413 /],
    ['of a check without a right token is not read', { path: '/_weir/check', token: 'x' }, /^HTTP\/1.1 401 /],
    ['of the admin route is not read without a token', { path: '/_weir/admin/rules' }, /^HTTP\/1.1 401 /],
  ])('%s', async (_, sent, answer) => {
    expect(await sendEndless(sent)).toMatch(answer);
  });

  it('says how much is allowed', async () => {
    const answer = await fetch(`${weir.isolates.urls['one']}/_weir/login`, {
      method: 'POST',
      headers: { 'CF-Connecting-IP': freshIp(), Origin: weir.isolates.urls['one'] ?? '' },
      body: new URLSearchParams({ token: 'x'.repeat(9_000) }),
    });
    expect([answer.status, await answer.json()]).toEqual([
      413,
      expect.objectContaining({ code: 'body-too-large', detail: 'At most 8 KiB.' }),
    ]);
  });
});

describe('a body of the admin route', () => {
  it('has a bound of 1 MiB, whatever its length is said to be', async () => {
    const name = 'n'.repeat(1024 * 1024);
    const stream = new Blob([JSON.stringify({ name })]).stream();
    const answer = await fetch(`${weir.isolates.urls['one']}/_weir/admin/tiers`, {
      method: 'POST',
      headers: { 'CF-Connecting-IP': freshIp(), 'Content-Type': 'application/json', ...bearer(TOKENS.admin) },
      body: stream,
      duplex: 'half',
    });
    expect([answer.status, await answer.json()]).toEqual([
      413,
      expect.objectContaining({ code: 'body-too-large', detail: 'At most 1 MiB.' }),
    ]);
  });

  it.each(['GET', 'HEAD'])('means nothing in a %s', async (method) => {
    const { promise, resolve, reject } = Promise.withResolvers<number | undefined>();
    const headers = { 'CF-Connecting-IP': freshIp(), 'Content-Length': '2', ...bearer(TOKENS.admin) };
    // fetch sends no body with these methods.
    request(`${weir.isolates.urls['one']}/_weir/admin/tiers`, { method, headers }, (answer) => {
      answer.resume();
      resolve(answer.statusCode);
    })
      .on('error', reject)
      .end('{}');
    expect(await promise).toBe(200);
  });
});
