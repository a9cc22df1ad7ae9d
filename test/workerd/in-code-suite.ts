// What the code of an app does with Weir: it checks, gives back and settles in its handlers, and says who calls.
import { createExecutionContext, createScheduledController, waitOnExecutionContext } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { Hono } from 'hono';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { createWeir, scheduled as scheduledWithoutHono } from '../../src/fetch.ts';
import {
  type AppCaller,
  type CheckAnswer,
  type LibraryBindings,
  scheduled,
  type WeirVariables,
  type WrittenRule,
  weir,
} from '../../src/hono.ts';
import { admin, freshIp, regions, sql } from './worker.ts';

const CHECK_TOKEN = 'a-token-that-may-check';
const variables = {
  DEADLINE_MS: '5000',
  PLAIN_HTTP: 'allow',
  ADMIN_TOKENS: JSON.stringify([{ name: 'jobs', token: CHECK_TOKEN, role: 'check' }]),
};
const { ORIGIN_URL: _, ...bindings } = env as unknown as LibraryBindings & { ORIGIN_URL: string };

const hour = { algorithm: 'fixed-window', windowSeconds: 3600 } as const;
/** Nobody asks for its resource: only checks use it. */
const search: WrittenRule = {
  ...{ name: 'search', policy: 'search', resource: '/checks/search' },
  ...{ ...hour, scope: 'user', limit: 10 },
};
const [region] = regions;
const rulesOf = (...rules: WrittenRule[]) => ({
  regions: [{ url: region?.url ?? '', token: region?.token ?? '' }],
  rules,
});

/** Asks an app, and waits for all that follows the answer. */
async function ask(
  app: { fetch(request: Request, env: object, context: ExecutionContext): Response | Promise<Response> },
  path: string,
  { ip = freshIp(), bound = variables, ...init }: RequestInit & { ip?: string; bound?: object } = {},
) {
  const context = createExecutionContext();
  const headers = { 'CF-Connecting-IP': ip, ...(init.headers as object) };
  const answer = await app.fetch(
    new Request(`https://mine.test${path}`, { ...init, headers }),
    bound,
    context,
  );
  const body = await answer.text();
  await waitOnExecutionContext(context);
  return { status: answer.status, headers: answer.headers, body };
}

let users = 0;
const freshUser = () => {
  users += 1;
  return `user-${Math.random()}-${users}`;
};

type App = { Variables: WeirVariables };

describe('a handler', () => {
  const app = new Hono<App>();
  app.use(
    weir({
      ...rulesOf(search, { name: 'all', resource: '/checks/all', scope: 'global', limit: 1e6, ...hour }),
      caller: (c) => ({ userId: c.req.header('X-User') }),
    }),
  );
  app.post('/run', async (c) => {
    const given = await c.req.json();
    const { check, refund, settle } = c.var.weir;
    if (given.settle) return c.json((await settle(given.settle, given.cost)) ?? null);
    if (given.refund) return c.json((await refund(given.refund)) ?? null);
    return c.json(await check(given));
  });
  app.onError((error) => new Response(error.message, { status: 500 }));

  const run = async (call: object, user?: string, ip?: string) => {
    const headers = user === undefined ? {} : { 'X-User': user };
    const { status, body } = await ask(app, '/run', {
      ...{ method: 'POST', headers, body: JSON.stringify(call) },
      ...(ip !== undefined && { ip }),
    });
    return status === 200 ? JSON.parse(body) : body;
  };

  it('charges the caller of its request as POST /_weir/check does, in the same counter', async () => {
    const user = freshUser();
    const first: CheckAnswer = await run({ rule: 'search', cost: 3 }, user);
    expect(first).toEqual({
      ...{ allowed: true, id: expect.any(String), retryAfterMs: null, delayMs: 0, degraded: null },
      results: [
        {
          ...{ policy: 'search', subject: user, allowed: true, limit: 10, remaining: 7, cost: 3 },
          ...{ resetAt: expect.any(String), retryAfterMs: null },
        },
      ],
    });
    const { body } = await ask(app, '/_weir/check', {
      method: 'POST',
      headers: { Authorization: `Bearer ${CHECK_TOKEN}` },
      body: JSON.stringify({ rule: 'search', subject: user, cost: 3 }),
    });
    expect(JSON.parse(body)).toEqual({
      ...first,
      id: expect.any(String),
      results: [{ ...first.results[0], remaining: 4, resetAt: expect.any(String) }],
    });
  });

  it('gets a denial as an answer, and charges nothing', async () => {
    const user = freshUser();
    expect(await run({ rule: 'search', cost: 8 }, user)).toMatchObject({ allowed: true });
    expect(await run({ rule: 'search', cost: 3 }, user)).toMatchObject({
      ...{ allowed: false, id: null, results: [{ remaining: 2 }] },
    });
    expect(await run({ rule: 'search', cost: 2 }, user)).toMatchObject({ allowed: true });
  });

  it('gives back what failed work has charged, once, and settles the rest to its real cost', async () => {
    const user = freshUser();
    const { id } = await run({ rule: 'search', cost: 6 }, user);
    expect(await run({ refund: id })).toBeNull();
    expect(await run({ refund: id })).toBe('#/id: was refunded or settled before');
    const second = await run({ rule: 'search', cost: 6 }, user);
    expect(await run({ settle: second.id, cost: 1 })).toEqual({ uncharged: 0 });
    const looked = await run({ rule: 'search', peek: true }, user);
    expect(looked.results[0].remaining).toBe(9);
  });

  it('may name another subject, or a rule for all', async () => {
    const other = freshUser();
    const named = await run({ rule: 'search', subject: other, cost: 4 }, freshUser());
    expect(named.results[0]).toMatchObject({ subject: other, remaining: 6 });
    const all = await run({ rule: 'all' }, freshUser());
    expect(all.results[0]).toMatchObject({ subject: null, allowed: true });
  });

  it('counts a caller without such an id by address, as requests are counted', async () => {
    const ip = freshIp();
    const { results } = await run({ rule: 'search', cost: 2 }, undefined, ip);
    expect(results[0]).toMatchObject({ subject: ip, remaining: 8 });
  });

  it('learns what is wrong with a call', async () => {
    expect(await run({ rule: 'none' })).toBe('#/rule: there is no such rule in force');
    expect(await run({ rule: 'search', cost: 0 })).toMatch(/^#\/cost: must be from 1 to /);
  });

  it('gets one answer for one idempotency key, and no answer to the call of another caller', async () => {
    const [user, other, idempotencyKey] = [freshUser(), freshUser(), freshUser()];
    const first = await run({ rule: 'search', cost: 3, idempotencyKey }, user);
    expect(await run({ rule: 'search', cost: 3, idempotencyKey }, user, freshIp())).toEqual(first);
    expect(await run({ rule: 'search', cost: 3, idempotencyKey }, other)).toBe(
      'The idempotency key was used for another call',
    );
  });
});

describe('an app that says who calls', () => {
  const hello: WrittenRule = { ...hour, resource: '/hello', scope: 'user', limit: 2 };

  function open(caller: (request: Request) => unknown, ...rules: WrittenRule[]) {
    const asked: string[] = [];
    const app = new Hono<App>();
    app.use(
      weir({
        ...rulesOf(hello, ...rules),
        tiers: [
          { name: 'free', limits: { calls: 1 }, isDefault: true },
          { name: 'pro', limits: { calls: 5 } },
        ],
        caller: (c) => {
          asked.push(c.req.path);
          return caller(c.req.raw) as AppCaller;
        },
      }),
    );
    app.get('*', (c) => c.json(c.var.weirCaller));
    return { app, asked };
  }
  const remaining = async (...from: Parameters<typeof ask>) =>
    (await ask(...from)).headers.get('X-RateLimit-Remaining');

  it.each([
    ['at once', (said: AppCaller) => said],
    ['after a while', async (said: AppCaller) => said],
  ])('has its callers counted from any address, whether it answers %s', async (_, how) => {
    const user = freshUser();
    const { app } = open(() => how({ userId: user, tenantId: 'acme', tier: 'pro' }));
    const ip = freshIp();
    const { body } = await ask(app, '/hello', { ip });
    expect(JSON.parse(body)).toEqual({ ip, address: ip, userId: user, tenantId: 'acme', tier: 'pro' });
    expect(await remaining(app, '/hello')).toBe('0');
    expect((await ask(app, '/hello')).status).toBe(429);
  });

  it('has callers whom it does not know counted by address', async () => {
    for (const nobody of [undefined, null]) {
      const { app } = open(() => nobody);
      const ip = freshIp();
      expect(await remaining(app, '/hello', { ip })).toBe('1');
      expect(await remaining(app, '/hello', { ip })).toBe('0');
      expect(await remaining(app, '/hello')).toBe('1');
    }
  });

  it('names keys, tenants, tiers and claims that rules count by', async () => {
    const said = {
      apiKeyId: `KEY-${freshUser()}`,
      tenantId: 42,
      tier: 'pro',
      claims: { plan: 'gold', n: 7 },
    };
    const { app } = open(
      () => said,
      { ...hour, resource: '/key', scope: 'apiKey', limit: 3 },
      { ...hour, resource: '/tenant', scope: 'tenant', limit: 4 },
      { ...hour, resource: '/tier', scope: 'tenant', limitName: 'calls' },
      { ...hour, resource: '/claim', scope: 'ip', by: ['claim:plan'], limit: 6 },
    );
    const paths = ['/key', '/tenant', '/tier', '/claim'];
    const left = await Promise.all(paths.map((path) => remaining(app, path)));
    expect(left).toEqual(['2', '3', '4', '5']);
    const { body } = await ask(app, '/other');
    expect(JSON.parse(body)).toMatchObject({
      ...{ apiKeyId: said.apiKeyId.toLowerCase(), tenantId: '42', claims: { plan: 'gold', n: '7' } },
    });
  });

  it.each([
    ['throws', () => Promise.reject(new RangeError('secret of the app')), 'RangeError', undefined],
    ['names no object', () => 'user-1', 'CallerError', 'the caller must be an object'],
    ['names nobody', () => ({ userId: '' }), 'CallerError', 'userId must be a text of 1 to 256'],
    ['names a long id', () => ({ userId: 'x'.repeat(257) }), 'CallerError', 'userId must be a text of 1'],
    ['names half a character', () => ({ tier: 'a\ud800' }), 'CallerError', 'tier must be a text of 1 to'],
    ['names a NUL', () => ({ tenantId: 'a\0' }), 'CallerError', 'tenantId must be a text of 1 to 256'],
    ['names a number that loses digits', () => ({ userId: 2 ** 53 }), 'CallerError', 'userId must be a text'],
  ])('has the request counted by address if it %s, and the log says so', async (_, caller, error, said) => {
    const lines: string[] = [];
    const warn = vi.spyOn(console, 'warn').mockImplementation((line) => void lines.push(line));
    try {
      const ip = freshIp();
      const { app } = open(caller);
      expect(await remaining(app, '/hello', { ip })).toBe('1');
      expect(await remaining(app, '/hello', { ip })).toBe('0');
      const [line] = lines.map((text) => JSON.parse(text)).filter(({ event }) => event === 'caller-failed');
      expect(line).toMatchObject({ event: 'caller-failed', error });
      if (said !== undefined) expect(line.said).toContain(said);
      expect(lines.join()).not.toContain('secret');
    } finally {
      warn.mockRestore();
    }
  });

  it('is asked once for each request that Weir limits, and for quotas', async () => {
    const user = freshUser();
    const { app, asked } = open(() => ({ userId: user }));
    await ask(app, '/hello');
    for (const path of ['/_weir/health', '/_weir/check', '/_WEIR/health', '/a%00b']) await ask(app, path);
    const { body } = await ask(app, '/_weir/quota');
    expect(JSON.parse(body)).toMatchObject({
      caller: { userId: user },
      limits: [{ policy: 'hello-user', remaining: 1 }],
    });
    expect(asked).toEqual(['/hello', '/_weir/quota']);
  });

  it('is asked by each use of Weir in its own way, after the middleware before it', async () => {
    const user = freshUser();
    const asked: string[] = [];
    const inner = new Hono<App & { Variables: { session: string } }>();
    inner.use(async (c, next) => {
      c.set('session', user);
      await next();
    });
    inner.use(
      weir<object, { session: string }>({
        ...rulesOf({ ...hour, resource: '/in/hello', scope: 'user', limit: 9 }),
        caller: (c) => {
          asked.push('inner');
          return { userId: c.var.session };
        },
      }),
    );
    inner.get('/hello', (c) => c.json(c.var.weir.caller));
    const app = new Hono<App>();
    app.use(
      weir({ ...rulesOf({ ...hour, resource: '/in/*', limit: 50 }), caller: () => void asked.push('outer') }),
    );
    app.route('/in', inner);
    expect(JSON.parse((await ask(app, '/in/hello')).body)).toMatchObject({ userId: user });
    expect(asked).toEqual(['outer', 'inner']);
  });
});

describe('with rules in Postgres', () => {
  const [banned, paying, known] = [freshUser(), freshUser(), freshUser()];
  beforeAll(async () => {
    await sql('delete from weir.rules');
    await sql(`insert into weir.rules (name, resource, scope, algorithm, "limit", window_seconds) values
      ('calls', '/calls', 'user', 'fixed-window', 5, 3600),
      ('jobs', '/checks/jobs', 'user', 'fixed-window', 10, 3600)`);
    const post = (path: string, body: object) =>
      ask(new Hono<App>().use(weir() as never), `/_weir/admin/${path}`, {
        ...{ method: 'POST', headers: { ...admin, 'Content-Type': 'application/json' } },
        ...{ body: JSON.stringify(body), bound: bindings },
      });
    const made = [
      await post('lists', { kind: 'user', value: banned, list: 'deny' }),
      await post('tiers', { name: 'gold', limits: { calls: 50 } }),
      await post('users', { id: known, tier: 'gold' }),
      await post('rules', {
        ...{ name: 'tiered', resource: '/tiered', scope: 'user', limitName: 'calls', tiers: ['gold'] },
        ...hour,
      }),
      await post('rules', {
        ...{ name: 'override', resource: '/calls', scope: 'user', subjects: [paying], limit: 77 },
        ...hour,
      }),
    ];
    expect(made.map(({ status, body }) => (status === 201 ? 201 : body))).toEqual(made.map(() => 201));
    await scheduled(createScheduledController(), bindings);
  });

  const open = (userId: string, said: AppCaller = {}) => {
    const app = new Hono<{ Bindings: LibraryBindings; Variables: WeirVariables }>();
    app.use(weir({ caller: () => ({ userId, ...said }) }));
    app.get('/check', async (c) => c.json(await c.var.weir.check({ rule: 'jobs', cost: 3 })));
    app.get('*', (c) => c.json(c.var.weirCaller));
    return (path: string) => ask(app, path, { bound: bindings });
  };

  it('the deny list, overrides and the row of a user hold for a caller whom the app names', async () => {
    expect((await open(banned)('/calls')).status).toBe(403);
    expect((await open(freshUser())('/calls')).headers.get('X-RateLimit-Limit')).toBe('5');
    expect((await open(paying)('/calls')).headers.get('X-RateLimit-Limit')).toBe('77');
    const tiered = await open(known)('/tiered');
    expect(JSON.parse(tiered.body)).toMatchObject({ userId: known, tier: 'gold' });
    expect(tiered.headers.get('X-RateLimit-Limit')).toBe('50');
  });

  it('the app names the tier, or says that there is none, and then Weir asks no row', async () => {
    const said = { tier: null, tenantId: null };
    const { body } = await open(known, said)('/tiered');
    expect(JSON.parse(body)).not.toHaveProperty('tier');
  });

  it('a Worker without Hono has the same rules, and the same Weir', async () => {
    await scheduledWithoutHono(createScheduledController(), bindings);
    const user = freshUser();
    const made = createWeir({ caller: ({ headers }) => ({ userId: headers.get('X-User') }) });
    const app = {
      fetch: (request: Request, bound: object, context: ExecutionContext) =>
        made.fetch(request, bound as LibraryBindings, context, async ({ caller, check, refund }) => {
          const { id, results } = await check({ rule: 'jobs', cost: 3 });
          await refund(id ?? '');
          const outside = made.checks(bound as LibraryBindings, context);
          const left = await outside.check({ rule: 'jobs', subject: user, peek: true });
          return Response.json([caller?.userId, results[0]?.remaining, left.results[0]?.remaining]);
        }),
    };
    const asked = { bound: bindings, headers: { 'X-User': user } };
    const answer = await ask(app, '/calls', asked);
    expect(JSON.parse(answer.body)).toEqual([user, 7, 10]);
    expect(answer.headers.get('X-RateLimit-Remaining')).toBe('4');
    expect((await ask(app, '/_weir/admin/rules', { bound: bindings, headers: admin })).status).toBe(200);
  });

  it('a handler checks a rule of Postgres', async () => {
    const user = freshUser();
    const { body } = await open(user)('/check');
    expect(JSON.parse(body)).toMatchObject({
      allowed: true,
      results: [{ policy: 'checks-jobs-user', subject: user, remaining: 7 }],
    });
  });
});
