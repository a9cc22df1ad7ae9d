// What a stranger or a careless service can try with checks, through HTTP on a whole Weir.
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Call, Weir } from '../../local/weir.ts';
import { startWeir } from '../shared/weir.ts';

const TOKEN = 'a-token-that-may-check';

let weir: Weir;
beforeAll(async () => {
  const tokens = [{ name: 'check', token: TOKEN, role: 'check' }];
  weir = await startWeir({ ADMIN_TOKENS: JSON.stringify(tokens) }, { isolates: ['one', 'two'] });
  const rule = { scope: 'user', algorithm: 'fixed-window', limit: 1_000, windowSeconds: 86_400 };
  const body = { ...rule, name: 'jobs', resource: '/jobs', central: true };
  await weir.admin('/rules', { method: 'POST', body });
  const seats = { ...rule, algorithm: 'concurrency', limit: 2, name: 'places', resource: '/places' };
  await weir.admin('/rules', { method: 'POST', body: seats });
});
afterAll(() => weir?.[Symbol.asyncDispose]());

async function post(path: string, body: unknown, { headers, ...call }: Call = {}) {
  const authorization = { Authorization: `Bearer ${TOKEN}`, ...headers };
  const answer = await weir.call(`/_weir/check${path}`, {
    method: 'POST',
    body,
    headers: authorization,
    ...call,
  });
  const text = await answer.text();
  return { status: answer.status, body: text === '' ? {} : JSON.parse(text) };
}

const remaining = async (subject: string) =>
  (await post('', { rule: 'jobs', subject, peek: true })).body.results[0].remaining as number;

describe('an id that was used once', () => {
  const spellings = (id: string) => [
    id,
    ...Array.from({ length: 5 }, (_, i) => `${id}.${i + 1}`),
    ...[`${id}.`, `${id}=`, ` ${id}`, `${id}\n`, id.replace('.', '..'), `${id}.${id}`],
  ];

  it('refunds no second time, however it is spelled', async () => {
    await post('', { rule: 'jobs', subject: 'refunded', cost: 100 });
    const { id } = (await post('', { rule: 'jobs', subject: 'refunded', cost: 10 })).body;
    const statuses = [];
    for (const one of spellings(id)) statuses.push((await post('/refund', { id: one })).status);
    expect(statuses).toEqual([204, ...Array(statuses.length - 1).fill(404)]);
    expect(await remaining('refunded')).toBe(900);
  });

  it('settles no second time, however it is spelled', async () => {
    await post('', { rule: 'jobs', subject: 'settled', cost: 100 });
    const { id } = (await post('', { rule: 'jobs', subject: 'settled', cost: 10 })).body;
    const statuses = [];
    for (const one of spellings(id)) statuses.push((await post('/settle', { id: one, cost: 1 })).status);
    expect(statuses).toEqual([200, ...Array(statuses.length - 1).fill(404)]);
    expect(await remaining('settled')).toBe(899);
  });

  it('is not the id of another check, even of one that charged the same at the same moment', async () => {
    const calls = Array.from({ length: 20 }, () => post('', { rule: 'jobs', subject: 'twins', cost: 2 }));
    const made = (await Promise.all(calls)).map(({ body }) => body.id as string);
    for (const id of made) expect((await post('/refund', { id })).status).toBe(204);
    expect(await remaining('twins')).toBe(1_000);
  });
});

describe('settling a check that holds a seat', () => {
  const seats = async (subject: string) =>
    (await post('', { rule: 'places', subject, peek: true })).body.results[0].remaining as number;

  it('gives the seat back, because the work is over when its real cost is known', async () => {
    const { id } = (await post('', { rule: 'places', subject: 'sits' })).body;
    expect(await seats('sits')).toBe(1);
    expect((await post('/settle', { id, cost: 1 })).status).toBe(200);
    expect(await seats('sits')).toBe(2);
  });

  it('corrects the units of the same call, too', async () => {
    const checks = ['places', 'jobs'].map((rule) => ({ rule, subject: 'sits and works' }));
    const { id } = (await post('', { checks })).body;
    expect((await post('/settle', { id, cost: 5 })).status).toBe(200);
    expect([await seats('sits and works'), await remaining('sits and works')]).toEqual([2, 995]);
  });
});

describe('units that were given back', () => {
  const everywhere = [
    { isolate: 'one', region: 'us' },
    { isolate: 'two', region: 'eu' },
  ] as const;

  it.each([
    ['refund', {}, 204],
    ['settle', { cost: 999 }, 200],
  ])(
    'by %s can be charged at once, in isolates that have denied the subject, too',
    async (how, more, status) => {
      const subject = `gets back by ${how}`;
      const one = { rule: 'jobs', subject };
      const { id } = (await post('', { ...one, cost: 1_000 })).body;
      for (const where of [...everywhere, ...everywhere])
        expect((await post('', one, where)).body.allowed).toBe(false);
      expect((await post(`/${how}`, { id, ...more })).status).toBe(status);
      expect((await post('', one, everywhere[0])).body.allowed).toBe(true);
      expect((await post('', one, everywhere[1])).body.allowed).toBe(how === 'refund');
    },
  );
});

describe('an idempotency key in a header', () => {
  it.each([
    ['an empty one', ''],
    ['one of more than 256 characters', 'k'.repeat(257)],
  ])('is checked like one in the body: %s is refused', async (_, key) => {
    const headers = { 'Idempotency-Key': key };
    expect(await post('', { rule: 'jobs', subject: 'keys' }, { headers })).toMatchObject({
      status: 400,
      body: {
        code: 'invalid-body',
        errors: [{ pointer: 'Idempotency-Key', detail: expect.stringMatching(/^must /) }],
      },
    });
  });

  it('must be UTF-8: two keys in Latin-1 are never taken for one, so that the second call is not free', async () => {
    // fetch() sends these characters as one byte each.
    for (const key of ['order for Müller', 'order for Möller']) {
      const headers = { 'Idempotency-Key': key };
      expect(await post('', { rule: 'jobs', subject: 'latin keys' }, { headers })).toMatchObject({
        status: 400,
        body: { errors: [{ pointer: 'Idempotency-Key', detail: expect.stringMatching(/^must be UTF-8/) }] },
      });
    }
    expect(await remaining('latin keys')).toBe(1_000);
  });
});

describe('the same call', () => {
  it('is the same if it spells out that it does not only look', async () => {
    const call = { rule: 'jobs', subject: 'spells out', idempotencyKey: 'spells out' };
    const first = await post('', call);
    expect(await post('', { ...call, peek: false })).toEqual(first);
    expect(await remaining('spells out')).toBe(999);
  });
});

describe('a call that is not what it looks like', () => {
  const send = (path: string, body: Buffer) =>
    fetch(`${weir.isolates.urls.one}${path}`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${TOKEN}`, 'X-Weir-Region': 'us' },
      body: new Uint8Array(body),
    });

  it('is refused if its body is not UTF-8, so that Müller and Möller in Latin-1 do not share a counter', async () => {
    for (const subject of ['Müller', 'Möller']) {
      const answer = await send(
        '/_weir/check',
        Buffer.from(JSON.stringify({ rule: 'jobs', subject }), 'latin1'),
      );
      expect([answer.status, await answer.json()]).toMatchObject([400, { code: 'invalid-json' }]);
    }
    const answer = await send(
      '/_weir/check',
      Buffer.from(JSON.stringify({ rule: 'jobs', subject: 'Müller' })),
    );
    expect(await answer.json()).toMatchObject({ results: [{ subject: 'Müller', remaining: 999 }] });
  });

  it('is not found if its path only ends or begins like one of a check, and charges nothing', async () => {
    const body = Buffer.from(JSON.stringify({ rule: 'jobs', subject: 'paths' }));
    const paths = ['/_weir/check', '/refund/_weir/check', '/', '/refund/', '/_weir/check/refund', '/refunds'];
    for (const path of paths)
      expect([path, (await send(`/_weir/check${path}`, body)).status]).toEqual([path, 404]);
    expect((await send('/_weir/check?a=/_weir/check', body)).status).toBe(200);
    expect(await remaining('paths')).toBe(999);
  });
});

describe('a body that ends before its announced length', () => {
  async function sendHalf(path: string, headers: readonly string[]) {
    const { hostname, port, host } = new URL(weir.isolates.urls['one'] ?? '');
    const socket = connect(Number(port), hostname);
    const lines = [`POST ${path} HTTP/1.1`, `Host: ${host}`, 'Content-Length: 100', ...headers];
    socket.end(`${lines.join('\r\n')}\r\n\r\n{"rule"`);
    return text(socket);
  }

  it.each([
    ['/_weir/check', [`Authorization: Bearer ${TOKEN}`]],
    ['/_weir/check/refund', [`Authorization: Bearer ${TOKEN}`]],
    ['/_weir/admin/rules', ['Authorization: Bearer an-admin-token-for-tests']],
    ['/_weir/login', ['Sec-Fetch-Site: same-origin']],
  ])('is no bug of Weir: %s answers 400', async (path, headers) => {
    const answer = await sendHalf(path, ['Content-Type: application/json', ...headers]);
    expect(answer).toMatch(/^HTTP\/1\.1 400 /);
    expect(answer).toContain('"code":"body-incomplete"');
  });
});

describe('an isolate that gets only checks', () => {
  const only = { isolate: 'two' } as const;
  const rule = { scope: 'user', algorithm: 'fixed-window', limit: 5, windowSeconds: 86_400, central: true };
  const create = (name: string) =>
    weir.admin<{ id: string }>('/rules', { method: 'POST', body: { ...rule, name, resource: `/${name}` } });
  const change = (id: string, body: object) => weir.admin(`/rules/${id}`, { method: 'PATCH', body });
  const isAccepted = (body: object) => expect.poll(async () => (await post('', body, only)).status).toBe(200);

  it('knows a rule as soon as it is published, whether a check names it by rule or by policy', async () => {
    expect((await post('', { rule: 'jobs', subject: 'a' }, only)).status).toBe(200);
    await create('brand-new');
    expect((await post('', { rule: 'brand-new', subject: 'a' }, only)).status).toBe(200);
    await create('newer');
    await isAccepted({ policy: 'newer-user', subject: 'a' });
  });

  it('follows a rule that a check fits only now: another scope, another name, no other of that name', async () => {
    const { id } = await create('moves');
    await isAccepted({ rule: 'moves', subject: 'a' });
    await change(id, { scope: 'global' });
    await isAccepted({ rule: 'moves' });
    await change(id, { name: 'has moved' });
    await isAccepted({ rule: 'has moved' });
    const twins = { ...rule, resource: '/twins', policy: 'twins' };
    await weir.admin('/rules', { method: 'POST', body: { ...twins, name: 'left', methods: ['GET'] } });
    const right = { ...twins, name: 'right', methods: ['POST'] };
    const { id: other } = await weir.admin<{ id: string }>('/rules', { method: 'POST', body: right });
    const error = { pointer: '#/policy', detail: 'names several rules; use the id of one of them' };
    const errors = async () => (await post('', { policy: 'twins', subject: 'a' }, only)).body.errors;
    await expect.poll(errors).toEqual([error]);
    await weir.admin(`/rules/${other}`, { method: 'DELETE' });
    await isAccepted({ policy: 'twins', subject: 'a' });
  });

  it('follows a changed limit, also in answers that only look, and refuses a rule that is gone', async () => {
    const { id } = await create('changes');
    const limitOf = async (peek: boolean) =>
      (await post('', { rule: 'changes', subject: 'a', peek }, only)).body.results?.[0].limit;
    await expect.poll(() => limitOf(false)).toBe(5);
    await change(id, { limit: 7 });
    await expect.poll(() => limitOf(true)).toBe(7);
    await change(id, { limit: 9 });
    await expect.poll(() => limitOf(false)).toBe(9);
    await weir.admin(`/rules/${id}`, { method: 'DELETE' });
    await expect
      .poll(async () => (await post('', { rule: 'changes', subject: 'a' }, only)).body.errors)
      .toEqual([{ pointer: '#/rule', detail: 'there is no such rule in force' }]);
  });

  it('shows a new rule in quotas, too', async () => {
    const limits = async () => {
      const answer = await weir.call('/_weir/quota', only);
      const { limits: seen } = (await answer.json()) as { limits: { policy: string }[] };
      return seen.map(({ policy }) => policy);
    };
    await limits();
    const body = { ...rule, name: 'of addresses', scope: 'ip', resource: '/of-addresses' };
    await weir.admin('/rules', { method: 'POST', body });
    await expect.poll(limits).toContain('of-addresses-ip');
  });
});
