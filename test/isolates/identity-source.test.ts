// The operator's own authentication decides who calls, in real isolates: while it fails, is slow, lies or floods, no
// request is lost, and nobody passes more often than as the caller that Weir knows, or as an address.
import { createServer, request as httpRequest, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { freshIp, type IsolateName, type Weir } from '../../local/weir.ts';
import { startWeir } from '../shared/weir.ts';

const LIMIT = 3;
const ISOLATES: readonly IsolateName[] = ['one', 'two'];
/** Half of it is for finding the caller. */
const DEADLINE_MS = 2_000;

type Mode = (answer: ServerResponse, user: string) => void;

const json =
  (body: unknown): Mode =>
  (answer) =>
    void answer.end(JSON.stringify(body));
const status =
  (code: number): Mode =>
  (answer, user) =>
    void answer.writeHead(code).end(JSON.stringify({ userId: user }));

/** What the source does instead of an answer. */
const FAULTS: Readonly<Record<string, Mode>> = {
  'answers 500': status(500),
  'answers 429': status(429),
  'answers 405': status(405),
  'sends elsewhere': (answer) => void answer.writeHead(302, { Location: '/other' }).end(),
  'breaks the connection': (answer) => void answer.destroy(),
  'breaks the body off': (answer) => {
    answer.writeHead(200, { 'Content-Length': '100' }).write('{"userId":"root"');
    setTimeout(() => answer.destroy(), 5);
  },
  'is slower than the request waits': (answer, user) =>
    void setTimeout(() => answer.end(JSON.stringify({ userId: user })), DEADLINE_MS / 2 + 300),
  'never answers': () => {},
  'never ends its body': (answer) => void answer.writeHead(200).write('{"userId":"root"'),
  'answers HTML': (answer) => void answer.end('<html>Welcome, root</html>'),
  'answers a list': json([{ userId: 'root' }]),
  'answers null': json(null),
  'has ids of other types': json({ userId: { $ne: '' } }),
  'has a list of ids': json({ userId: ['root'] }),
  'has an empty id': json({ userId: '', apiKeyId: 'key' }),
  'has ids with control characters': json({ userId: 'root\r\nX-Admin: 1' }),
  'has ids with blanks around': json({ userId: ' root' }),
  'has ids of half a character': json({ userId: '\ud800' }),
  'has ids of 300 characters': json({ userId: 'r'.repeat(300) }),
  'has claims that are a list': json({ userId: 'root', claims: ['admin'] }),
  'has a time that is a text': json({ userId: 'root', ttlSeconds: '60' }),
  'answers 10 MB': (answer) => void answer.end(`{"userId":"root","x":"${'x'.repeat(10_000_000)}"}`),
};

const server = createServer((request, answer) => {
  const { authorization, cookie } = request.headers;
  const user = /^(?:Bearer |session=)(known-[\w-]+)$/.exec(authorization ?? cookie ?? '')?.[1];
  asked.push({ method: request.method, url: request.url, headers: request.headers });
  answer.on('error', () => {});
  if (request.method !== 'POST') return void answer.writeHead(405).end();
  if (mode) return mode(answer, user ?? 'root');
  answer.end(JSON.stringify(user === undefined ? {} : (users.get(user) ?? { userId: user })));
});
let mode: Mode | undefined;
let asked: { method: string | undefined; url: string | undefined; headers: Record<string, unknown> }[] = [];
/** What the source says of its users besides their id. */
const users = new Map<string, object>();

let weir: Weir;
beforeAll(async () => {
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const { port } = server.address() as AddressInfo;
  weir = await startWeir(
    {
      IDENTITY: `http://127.0.0.1:${port}/who?from=weir`,
      IDENTITY_HEADERS: 'X-API-Key, Authorization, Cookie: session',
      DEADLINE_MS: String(DEADLINE_MS),
    },
    { isolates: ISOLATES },
  );
  const rule = { algorithm: 'sliding-window-log', limit: LIMIT, windowSeconds: 3600 };
  await weir.admin('/rules', {
    method: 'POST',
    body: { ...rule, resource: '/limited/*', scope: 'user' },
  });
  await weir.admin('/tiers', { method: 'POST', body: { name: 'gold' } });
  for (const isolate of ISOLATES)
    await vi.waitFor(
      async () => {
        const { headers } = await weir.call('/limited/x', { isolate });
        expect(headers.get('X-RateLimit-Limit')).toBe(String(LIMIT));
      },
      { timeout: 30_000 },
    );
});
/** One for each fault. The source has named them, and its answers are no longer fresh. */
const staleUsers = new Map(Object.keys(FAULTS).map((name, i) => [name, `known-stale-${i}`]));
beforeAll(async () => {
  for (const user of staleUsers.values()) {
    users.set(user, { userId: user, ttlSeconds: 1 });
    await untilKnown(user);
  }
  await new Promise((later) => setTimeout(later, 1_100));
});
afterAll(async () => {
  await weir?.[Symbol.asyncDispose]();
  server.closeAllConnections();
  server.close();
});

interface Seen {
  readonly status: number;
  /** As the origin got it. */
  readonly weir: Record<string, string>;
}

/** `isHidden`: behind another credential, which the source does not know. */
async function callAs(
  user: string,
  path = '/free',
  isolate: IsolateName = 'one',
  ip = freshIp(),
  isHidden = false,
): Promise<Seen> {
  const other = isHidden && { 'X-API-Key': crypto.randomUUID() };
  return call({ Authorization: `Bearer ${user}`, ...other }, path, isolate, ip);
}

async function call(
  sent: Record<string, string>,
  path = '/free',
  isolate: IsolateName = 'one',
  ip = freshIp(),
): Promise<Seen> {
  const answer = await weir.call(path, { isolate, ip, headers: sent });
  const body = (await answer.json()) as { headers?: [string, string][]; code?: string };
  if (answer.status !== 200) expect([answer.status, body.code]).toEqual([429, 'rate-limited']);
  const headers = (body.headers ?? []).filter(([name]) => /^X-Weir-(?!Hop|Region)/.test(name));
  return { status: answer.status, weir: Object.fromEntries(headers) };
}

const untilKnown = (user: string, isolate: IsolateName = 'one') =>
  vi.waitFor(async () => expect((await callAs(user, '/free', isolate)).weir['X-Weir-User']).toBe(user), {
    timeout: 30_000,
  });

const statusesOf = async (requests: readonly (() => Promise<Seen>)[]) => {
  const statuses: number[] = [];
  for (const request of requests) statuses.push((await request()).status);
  return statuses;
};
const EXACTLY_THE_LIMIT = [200, 200, 200, 429, 429];

let names = 0;
const newUser = () => `known-${++names}`;

describe('the source', () => {
  it('is asked once, and names user, key, tenant and tier', async () => {
    const user = newUser();
    users.set(user, { userId: user, apiKeyId: 'k1', tenantId: 'acme', tier: 'gold', ttlSeconds: 600 });
    asked = [];
    const expected = {
      'X-Weir-User': user,
      'X-Weir-Key-Id': 'k1',
      'X-Weir-Tenant': 'acme',
      'X-Weir-Tier': 'gold',
    };
    for (let i = 0; i < 5; i += 1) expect((await callAs(user)).weir).toEqual(expected);
    // The other isolate finds the answer in KV.
    expect((await callAs(user, '/free', 'two')).weir).toEqual(expected);
    expect(asked).toHaveLength(1);
    const [{ url, headers } = { url: '', headers: {} as Record<string, unknown> }] = asked;
    expect([url, headers['authorization'], headers['cf-connecting-ip']]).toEqual([
      '/who?from=weir',
      `Bearer ${user}`,
      undefined,
    ]);
    expect(headers['x-weir-hop']).toMatch(/^[0-9a-f]{16}$/);
  });

  it('gets of the cookies only the one that is named, and is not asked without credentials', async () => {
    asked = [];
    expect((await call({ Cookie: 'theme=dark; lang=en' })).weir['X-Weir-User']).toBeUndefined();
    expect(asked).toEqual([]);
    await call({ Cookie: 'theme=dark; session=s1; lang=en' });
    expect(asked.map(({ headers }) => headers['cookie'])).toEqual(['session=s1']);
  });

  it('names the caller also in the second of two headers of cookies, and behind a header that is too long', async () => {
    const user = newUser();
    const named = (sent: readonly string[]) =>
      new Promise<string | undefined>((resolve, reject) => {
        const { host, origin } = new URL(weir.isolates.urls['one'] ?? '');
        const headers = ['Host', host, 'CF-Connecting-IP', freshIp(), ...sent];
        const request = httpRequest(`${origin}/free`, { headers }, async (response) => {
          const { headers: got } = JSON.parse(Buffer.concat(await response.toArray()).toString());
          resolve(new Map<string, string>(got).get('X-Weir-User'));
        });
        request.on('error', reject).end();
      });
    expect(await named(['Cookie', 'theme=dark', 'Cookie', `session=${user}`])).toBe(user);
    expect(await named(['Authorization', `Bearer ${user}`, 'X-API-Key', 'x'.repeat(8_193)])).toBe(user);
    expect(await named(['Authorization', `Bearer ${user}${'x'.repeat(8_193)}`])).toBeUndefined();
  });

  it('leaves out of KV whatever could be a credential', async () => {
    const kv = await weir.isolates.kv();
    const { keys } = await kv.list({ prefix: 'identity:' });
    expect(keys.length).toBeGreaterThan(0);
    for (const { name } of keys) {
      expect(name).toMatch(/^identity:[\w-]{43}$/);
      expect(await kv.get(name)).not.toContain('Bearer');
    }
  });

  it('may know nobody: the request counts by its address, whatever credentials it shows', async () => {
    const ip = freshIp();
    const statuses = await statusesOf(
      [1, 2, 3, 4, 5].map((i) => () => callAs(`nobody-${i}`, '/limited/nobody', ISOLATES[i % 2], ip)),
    );
    expect(statuses).toEqual(EXACTLY_THE_LIMIT);
  });
});

describe.each(Object.entries(FAULTS))('while the source %s,', (name, fault) => {
  const path = `/limited/${name.replaceAll(' ', '-')}`;

  it('a caller that it has named before goes on as itself, and all others count by address', async () => {
    // Weir has closed its breaker, if the fault before has opened it.
    await untilKnown(newUser());
    const user = staleUsers.get(name) ?? '';
    mode = fault;
    try {
      const asItself = [1, 2, 3, 4, 5].map((i) => () => callAs(user, path, 'one', freshIp(), i % 2 === 0));
      expect(await statusesOf(asItself)).toEqual(EXACTLY_THE_LIMIT);
      const ip = freshIp();
      const unknown = [1, 2, 3, 4, 5].map((i) => callAs(`new-${name}-${i}`, path, 'one', ip));
      const statuses = (await Promise.all(unknown)).map((seen) => seen.status);
      expect(statuses.sort()).toEqual(EXACTLY_THE_LIMIT);
    } finally {
      mode = undefined;
    }
  });
});

it('a flood of new credentials loses no request, once Weir knows that the source hangs', async () => {
  mode = FAULTS['never answers'];
  try {
    await callAs('flood');
    const flood = Array.from({ length: 150 }, (_, i) => callAs(`flood-${i}`));
    expect(new Set((await Promise.all(flood)).map((seen) => seen.status))).toEqual(new Set([200]));
  } finally {
    mode = undefined;
  }
});

describe('an answer that is fresh ends', () => {
  it('when the caller is revoked through the admin route', async () => {
    const user = newUser();
    users.set(user, { userId: user, apiKeyId: 'k2', ttlSeconds: 600 });
    for (const isolate of ISOLATES) await untilKnown(user, isolate);
    users.set(user, {});
    for (const isolate of ISOLATES)
      expect((await callAs(user, '/free', isolate)).weir['X-Weir-User']).toBe(user);
    const revoked = await weir.admin('/callers/revoke', { method: 'POST', body: { apiKeyId: 'k2' } });
    expect(revoked).toEqual({ revoked: ['apiKey:k2'], warnings: [] });
    for (const isolate of ISOLATES)
      await vi.waitFor(
        async () => expect((await callAs(user, '/free', isolate)).weir['X-Weir-User']).toBeUndefined(),
        { timeout: 30_000 },
      );
    const { items } = await weir.admin<{ items: object[] }>('/history?entity=callers');
    expect(items).toMatchObject([
      { entity: 'callers', entityId: 'apiKey:k2', action: 'created', actor: 'admin' },
    ]);
    const [{ changeId } = { changeId: 0 }] = items as { changeId: number }[];
    await expect(weir.admin(`/history/${changeId}/rollback`, { method: 'POST' })).rejects.toThrow(
      /^409 .*not-undone/,
    );
  });

  it('when the row of its user changes, which also has the tier that the source does not name', async () => {
    const user = newUser();
    users.set(user, { userId: user, ttlSeconds: 600 });
    await untilKnown(user);
    await weir.admin('/users', { method: 'POST', body: { id: user, tier: 'gold' } });
    await vi.waitFor(async () => expect((await callAs(user)).weir['X-Weir-Tier']).toBe('gold'), {
      timeout: 30_000,
    });
  });

  it('for a caller on the deny list, whatever the source says', async () => {
    const user = newUser();
    await untilKnown(user);
    await weir.admin('/lists', { method: 'POST', body: { list: 'deny', kind: 'user', value: user } });
    await vi.waitFor(
      async () => {
        const { status: answered } = await weir.call('/free', {
          headers: { Authorization: `Bearer ${user}` },
        });
        expect(answered).toBe(403);
      },
      { timeout: 30_000 },
    );
  });
});

it('another Worker is asked through its binding; whom it does not know gets 401 with UNVERIFIED=reject', async () => {
  // The demo Worker answers with an object that names nobody.
  const variables = { IDENTITY: 'service:DEMO', UNVERIFIED: 'reject' };
  await using other = await startWeir(variables, { isolates: ['one'] });
  await other.admin('/publish', { method: 'POST' });
  const statusWith = async (headers: Record<string, string>) => (await other.call('/x', { headers })).status;
  await expect.poll(() => statusWith({ Authorization: 'Bearer x' }), { timeout: 30_000 }).toBe(401);
  expect(await statusWith({})).toBe(200);
});
