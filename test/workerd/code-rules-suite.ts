// Rules in the code of another Worker: it needs only Redis.
import { createExecutionContext, waitOnExecutionContext } from 'cloudflare:test';
import { Hono } from 'hono';
import { expect, it } from 'vitest';
import { type LibraryOptions, type WrittenRule, weir } from '../../src/hono.ts';
import { freshIp, regions } from './worker.ts';

type Env = { readonly REDIS_URL: string; readonly REDIS_TOKEN: string };
const env = {
  REDIS_URL: regions[0]?.url ?? '',
  REDIS_TOKEN: regions[0]?.token ?? '',
  DEADLINE_MS: '5000',
  PLAIN_HTTP: 'allow',
};

/** A limit that no other test uses. */
const hello = (path: string): WrittenRule => ({
  resource: path,
  scope: 'ip',
  algorithm: 'fixed-window',
  limit: 2,
  windowSeconds: 3600,
});

function open({ rules, tiers }: Pick<LibraryOptions<Env>, 'rules' | 'tiers'>) {
  const app = new Hono<{ Bindings: Env }>();
  app.use(
    weir<Env>({
      regions: ({ REDIS_URL, REDIS_TOKEN }) => [{ url: REDIS_URL, token: REDIS_TOKEN }],
      rules,
      tiers,
    }),
  );
  app.get('*', (c) => c.text('hello'));
  app.onError((error) => new Response(error.message, { status: 500 }));
  return async (path: string, ip = freshIp()) => {
    const context = createExecutionContext();
    const request = new Request(`https://mine.test${path}`, { headers: { 'CF-Connecting-IP': ip } });
    const answer = await app.fetch(request, env, context);
    const body = await answer.text();
    await waitOnExecutionContext(context);
    return { status: answer.status, headers: answer.headers, body };
  };
}

it('rules in code limit the app, and its headers show them', async () => {
  const call = open({ rules: [hello('/hello')] });
  const ip = freshIp();
  const answers = [await call('/hello', ip), await call('/hello', ip), await call('/hello', ip)];
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 429]);
  expect(answers.map(({ headers }) => headers.get('X-RateLimit-Remaining'))).toEqual(['1', '0', '0']);
  expect(answers[1]?.headers.get('RateLimit-Policy')).toBe('"hello-ip";q=2;w=3600');
  expect((await call('/other', ip)).status).toBe(200);
});

it('a rule keeps its counters when the list of rules is written in another order', async () => {
  const ip = freshIp();
  await open({ rules: [hello('/order'), hello('/second')] })('/order', ip);
  const answer = await open({ rules: [hello('/second'), hello('/order')] })('/order', ip);
  expect(answer.headers.get('X-RateLimit-Remaining')).toBe('0');
});

it('a rule of three fields counts addresses, in the counter of the rule that names scope and algorithm', async () => {
  const ip = freshIp();
  const short = { resource: '/short', limit: 2, windowSeconds: 3600 };
  await open({ rules: [short] })('/short', ip);
  const answer = await open({ rules: [{ ...short, scope: 'ip', algorithm: 'sliding-window-counter' }] })(
    '/short',
    ip,
  );
  expect(answer.headers.get('X-RateLimit-Remaining')).toBe('0');
});

it('a limit may be a text, and an error names what is wrong with it', async () => {
  const { headers } = await open({ rules: [{ resource: '/said', limit: '7 / 2 hours' }] })('/said');
  expect(headers.get('RateLimit-Policy')).toBe('"said-ip";q=7;w=7200');
  const { body } = await open({ rules: [{ resource: '/said', limits: [{ limit: '7 / month' }] }] })('/said');
  expect(body).toContain('rules/0/limits/0/limit: names "month": ');
});

it('a limit may come from the default tier', async () => {
  const { limit: _, ...rule } = hello('/tiered');
  const call = open({
    rules: [{ ...rule, limitName: 'calls' }],
    tiers: [{ name: 'free', limits: { calls: 7 }, isDefault: true }],
  });
  expect((await call('/tiered')).headers.get('X-RateLimit-Limit')).toBe('7');
});

it('a rule that is switched off does not apply', async () => {
  const call = open({ rules: [{ ...hello('/off'), enabled: false }] });
  expect((await call('/off')).headers.get('X-RateLimit-Limit')).toBeNull();
});

it('every wrong rule is named, with its field, and no request passes', async () => {
  const wrong = { ...hello('/a'), limit: 0, colour: 'red' };
  const call = open({ rules: [hello('/a'), wrong, hello('/a')] });
  const { status, body } = await call('/a');
  expect(status).toBe(500);
  expect(body).toContain('Weir is not configured: ');
  expect(body).toContain('rules/1/limit: ');
  expect(body).toContain('rules/1/colour: is not a field');
  expect(body).toContain('rules/2/name: is that of rules/0 too');
});

it('a region without a URL is named', async () => {
  const app = new Hono().use(weir({ regions: [{ url: '', token: 't' }], rules: [hello('/a')] }));
  app.onError((error) => new Response(error.message, { status: 500 }));
  const answer = await app.fetch(new Request('https://mine.test/a'), {}, createExecutionContext());
  expect(await answer.text()).toContain('regions/0/url: ');
});

it('health and quota answer, and there is no admin route', async () => {
  const call = open({ rules: [hello('/own')] });
  expect(JSON.parse((await call('/_weir/health')).body)).toEqual({ status: 'ok' });
  expect(JSON.parse((await call('/_weir/quota')).body)).toMatchObject({
    limits: [{ policy: 'own-ip', limit: 2 }],
  });
  for (const path of ['/_weir/admin/rules', '/_weir/metrics']) expect((await call(path)).status).toBe(404);
});

it('a token of role check opens /_weir/check, and no other token does', async () => {
  const app = new Hono<{ Bindings: Env }>();
  app.use(
    weir<Env>({ regions: [{ url: env.REDIS_URL, token: env.REDIS_TOKEN }], rules: [hello('/checked')] }),
  );
  const tokens = JSON.stringify([
    { name: 'jobs', token: 'a-token-that-may-check', role: 'check' },
    { name: 'viewer', token: 'a-token-that-may-read-only', role: 'read' },
  ]);
  const check = async (token: string) => {
    const context = createExecutionContext();
    const request = new Request('https://mine.test/_weir/check', {
      method: 'POST',
      headers: { Authorization: `Bearer ${token}` },
      body: JSON.stringify({ policy: 'checked-ip', subject: freshIp() }),
    });
    const answer = await app.fetch(request, { ...env, ADMIN_TOKENS: tokens }, context);
    await waitOnExecutionContext(context);
    return answer;
  };
  expect(await (await check('a-token-that-may-check')).json()).toMatchObject({ allowed: true });
  const refused = [
    ['a-token-that-nobody-has', 401],
    ['', 401],
    ['a-token-that-may-read-only', 403],
  ] as const;
  for (const [token, status] of refused)
    expect([token, (await check(token)).status]).toEqual([token, status]);
});
