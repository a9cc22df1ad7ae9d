// POST /_weir/check: other services use the same rules and counters, in three regions.
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { type Call, freshIp, REGIONS, type Weir } from '../../local/weir.ts';
import { startWeir } from '../shared/weir.ts';
import { BAD_CHECKS } from './bad-checks.ts';

const TOKENS = { check: 'a-token-that-may-check', read: 'a-token-that-may-read-only' };

let weir: Weir;
beforeAll(async () => {
  const tokens = Object.entries(TOKENS).map(([role, token]) => ({ name: role, token, role }));
  weir = await startWeir({ ADMIN_TOKENS: JSON.stringify(tokens) });
  const rule = { algorithm: 'fixed-window', windowSeconds: 86_400 };
  const rules = [
    { ...rule, name: 'jobs', policy: 'jobs', resource: '/jobs', scope: 'user', limit: 10, central: true },
    { ...rule, name: 'spread', resource: '/spread', scope: 'user', limit: 10 },
    { ...rule, name: 'all jobs', resource: '/all-jobs', scope: 'global', limit: 1_000 },
    { ...rule, name: 'mails', resource: '/mails', scope: 'tenant', limitName: 'mails', limit: 2 },
    { ...rule, name: 'by address', resource: '/by-address', scope: 'ip', limit: 3 },
    { ...rule, name: 'places', resource: '/places', scope: 'user', algorithm: 'concurrency', limit: 1 },
    { ...rule, name: 'models', resource: '/m', scope: 'user', by: ['user', 'header:X-Model'], limit: 3 },
    { ...rule, name: 'posts', resource: '/twice', methods: ['POST'], scope: 'ip', limit: 3 },
    { ...rule, name: 'puts', resource: '/twice', methods: ['PUT'], scope: 'ip', limit: 3 },
  ];
  await weir.admin('/tiers', { method: 'POST', body: { name: 'large', limits: { mails: 50 } } });
  for (const body of rules) await weir.admin('/rules', { method: 'POST', body });
  const isKnownTo = async (isolate: Call['isolate'] = 'one') =>
    expect((await ask({ rule: 'puts', subject: freshIp(), peek: true }, { isolate })).status).toBe(200);
  for (const isolate of ['one', 'two', 'three'] as const)
    await vi.waitFor(() => isKnownTo(isolate), { timeout: 60_000 });
});
afterAll(() => weir?.[Symbol.asyncDispose]());

let lastUser = 0;
const freshUser = () => `user-${++lastUser}`;

async function post(path: string, body: unknown, { headers, ...call }: Call = {}) {
  const authorization = { Authorization: `Bearer ${TOKENS.check}`, ...headers };
  const answer = await weir.call(`/_weir/check${path}`, {
    method: 'POST',
    body,
    headers: authorization,
    ...call,
  });
  const text = await answer.text();
  return { status: answer.status, body: text === '' ? {} : JSON.parse(text) };
}

const ask = (body: object, call?: Call) => post('', body, call);
const remaining = async (subject: string, rule = 'jobs') =>
  (await ask({ rule, subject, peek: true })).body.results[0].remaining as number;

describe('a check', () => {
  it('charges the subject of a rule, by name or by policy, and returns what is left', async () => {
    const subject = freshUser();
    const first = await ask({ rule: 'jobs', subject, cost: 3 });
    expect(first).toMatchObject({ status: 200, body: { allowed: true, retryAfterMs: null, degraded: null } });
    expect(first.body.results).toEqual([
      expect.objectContaining({ policy: 'jobs', subject, allowed: true, limit: 10, remaining: 7, cost: 3 }),
    ]);
    expect((await ask({ policy: 'jobs', subject })).body.results[0].remaining).toBe(6);
  });

  it('answers 200 even if it denies, and says how long to wait', async () => {
    const subject = freshUser();
    await ask({ rule: 'jobs', subject, cost: 10 });
    const { status, body } = await ask({ rule: 'jobs', subject });
    expect([status, body.allowed, body.id]).toEqual([200, false, null]);
    expect(body.retryAfterMs).toBeGreaterThan(0);
  });

  it('by a rule that is switched off is allowed and counts nothing, until it is switched on', async () => {
    const body = {
      name: 'at night',
      policy: 'night',
      resource: '/night',
      scope: 'user',
      limit: 1,
      windowSeconds: 3_600,
    };
    const { id } = await weir.admin<{ id: string }>('/rules', {
      method: 'POST',
      body: { ...body, enabled: false },
    });
    const subject = freshUser();
    const asked = async (one: object) => (await ask({ ...one, subject })).body;
    const allowed = { allowed: true, id: null, results: [], degraded: null };
    for (const one of [{ rule: 'at night' }, { policy: 'night' }, { rule: id }])
      await vi.waitFor(async () => expect(await asked(one)).toMatchObject(allowed));
    // The other checks of the call count.
    const checks = [
      { rule: 'at night', subject },
      { rule: 'jobs', subject },
    ];
    expect((await ask({ checks })).body.results).toMatchObject([{ policy: 'jobs', remaining: 9 }]);
    await weir.admin(`/rules/${id}`, { method: 'PATCH', body: { enabled: true } });
    await vi.waitFor(async () => expect((await asked({ rule: 'at night' })).results).toHaveLength(1));
    expect(await asked({ rule: 'at night' })).toMatchObject({ allowed: false });
    await weir.admin(`/rules/${id}`, { method: 'DELETE' });
    await vi.waitFor(async () => expect((await ask({ rule: 'at night', subject })).status).toBe(400));
  });

  it('of several rules charges all of them or none', async () => {
    const [full, free] = [freshUser(), freshUser()];
    await ask({ rule: 'jobs', subject: full, cost: 10 });
    const checks = [{ rule: 'jobs', subject: free }, { rule: 'all jobs' }, { rule: 'jobs', subject: full }];
    const before = (await ask({ rule: 'all jobs', peek: true })).body.results[0].remaining;
    expect((await ask({ checks })).body.allowed).toBe(false);
    expect(await remaining(free)).toBe(10);
    expect((await ask({ rule: 'all jobs', peek: true })).body.results[0].remaining).toBe(before);
    expect((await ask({ checks: checks.slice(0, 2) })).body.allowed).toBe(true);
    expect(await remaining(free)).toBe(9);
  });

  it('admits exactly the limit when many checks race in all regions', async () => {
    const subject = freshUser();
    const rule = 'spread';
    const calls = Array.from({ length: 30 }, (_, i) =>
      ask({ rule, subject }, { region: REGIONS[i % 3] ?? 'us' }),
    );
    const admitted = (await Promise.all(calls)).filter(({ body }) => body.allowed).length;
    expect(admitted).toBe(10);
  });

  it('uses the same counters as requests', async () => {
    const ip = freshIp();
    await weir.call('/by-address', { ip });
    expect((await ask({ rule: 'by address', subject: ip })).body.results[0].remaining).toBe(1);
    expect((await weir.call('/by-address', { ip })).status).toBe(200);
    expect((await weir.call('/by-address', { ip })).status).toBe(429);
  });

  it.each([3, 7, 9, 10])(
    'of %d units leaves the rest of the limit to other checks in all regions, and no more',
    async (cost) => {
      const subject = freshUser();
      const first = await ask({ rule: 'spread', subject, cost });
      const others = [];
      for (const region of [...REGIONS, ...REGIONS, ...REGIONS, ...REGIONS])
        others.push(await ask({ rule: 'spread', subject }, { region }));
      const admitted = others.filter(({ body }) => body.allowed).length + (first.body.allowed ? cost : 0);
      expect([first.body.allowed, admitted]).toEqual([true, 10]);
    },
  );

  it('takes the limit of the tier that it names', async () => {
    const check = { rule: 'mails', subject: 'acme', peek: true };
    expect((await ask(check)).body.results[0].limit).toBe(2);
    expect((await ask({ ...check, tier: 'large' })).body.results[0].limit).toBe(50);
  });
});

describe('an idempotency key', () => {
  it('charges once, even in another isolate or region, and gives the same answer', async () => {
    const subject = freshUser();
    const call = { rule: 'jobs', subject, idempotencyKey: `key of ${subject}` };
    const first = await ask(call, { isolate: 'one', region: 'us' });
    const again = await ask(call, { isolate: 'two', region: 'eu' });
    expect(again).toEqual(first);
    expect(await remaining(subject)).toBe(9);
  });

  it('may be in a header, and charges once when calls race', async () => {
    const subject = freshUser();
    const headers = { 'Idempotency-Key': `header of ${subject}`, Authorization: `Bearer ${TOKENS.check}` };
    const calls = Array.from({ length: 10 }, () => ask({ rule: 'jobs', subject }, { headers }));
    const statuses = (await Promise.all(calls)).map(({ status }) => status);
    expect(statuses.filter((status) => status !== 200 && status !== 409)).toEqual([]);
    expect(await remaining(subject)).toBe(9);
  });

  it('is refused for another call', async () => {
    const subject = freshUser();
    const idempotencyKey = `reused ${subject}`;
    await ask({ rule: 'jobs', subject, idempotencyKey });
    const other = await ask({ rule: 'jobs', subject, cost: 2, idempotencyKey });
    expect(other).toMatchObject({ status: 422, body: { code: 'idempotency-key-reused' } });
  });

  it('can be used again after a call that was not valid', async () => {
    const idempotencyKey = `after ${freshUser()}`;
    expect((await ask({ rule: 'nothing', subject: 'x', idempotencyKey })).status).toBe(400);
    expect((await ask({ rule: 'jobs', subject: freshUser(), idempotencyKey })).status).toBe(200);
  });
});

describe('the id of a check', () => {
  it('refunds everything, once, from any isolate', async () => {
    const [a, b] = [freshUser(), freshUser()];
    const checks = [
      { rule: 'jobs', subject: a, cost: 4 },
      { rule: 'jobs', subject: b, cost: 5 },
    ];
    const { id } = (await ask({ checks }, { region: 'us' })).body;
    expect((await post('/refund', { id }, { isolate: 'two', region: 'eu' })).status).toBe(204);
    expect([await remaining(a), await remaining(b)]).toEqual([10, 10]);
    expect(await post('/refund', { id })).toMatchObject({ status: 409, body: { code: 'check-spent' } });
    expect([await remaining(a), await remaining(b)]).toEqual([10, 10]);
  });

  it('refunds once when refunds race', async () => {
    const subject = freshUser();
    await ask({ rule: 'jobs', subject, cost: 4 });
    const { id } = (await ask({ rule: 'jobs', subject, cost: 2 })).body;
    const refunds = await Promise.all(Array.from({ length: 6 }, () => post('/refund', { id })));
    expect(refunds.filter(({ status }) => status === 204)).toHaveLength(1);
    expect(await remaining(subject)).toBe(6);
  });

  it.each([
    ['more', 7, 3, 0],
    ['less', 1, 9, 0],
    ['the same', 2, 8, 0],
    ['nothing', 0, 10, 0],
    // A debt is at most as large as the limit: of the 23 units that are missing, 18 fit.
    ['more than the limit can owe', 25, 0, 5],
  ])('settles a charge that cost %s in the end', async (_, cost, left, uncharged) => {
    const subject = freshUser();
    const { id } = (await ask({ rule: 'jobs', subject, cost: 2 })).body;
    expect(await post('/settle', { id, cost })).toEqual({ status: 200, body: { uncharged } });
    expect(await remaining(subject)).toBe(left);
    expect((await post('/settle', { id, cost })).status).toBe(409);
  });

  it('releases the seat of a concurrency rule', async () => {
    const subject = freshUser();
    const { id } = (await ask({ rule: 'places', subject })).body;
    expect((await ask({ rule: 'places', subject })).body.allowed).toBe(false);
    expect((await post('/refund', { id })).status).toBe(204);
    expect((await ask({ rule: 'places', subject })).body.allowed).toBe(true);
  });

  it('is refused if one letter of it was changed', async () => {
    const { id } = (await ask({ rule: 'jobs', subject: freshUser() })).body as { id: string };
    for (const forged of [`x${id.slice(1)}`, `${id.slice(0, -1)}_`, '', 'a.b'].filter((one) => one !== id))
      expect(await post('/refund', { id: forged })).toMatchObject({
        status: 404,
        body: { code: 'unknown-check' },
      });
  });
});

describe('bad input', () => {
  it.each(BAD_CHECKS)('%j is refused: %s %s', async (body, pointer, detail) => {
    expect(await ask(body)).toMatchObject({
      status: 400,
      body: { code: 'invalid-body', errors: [{ pointer, detail }] },
    });
  });
});

describe('access to checks:', () => {
  it.each([
    ['a request without a token is refused', undefined, 401],
    ['a wrong token is refused', 'a-token-that-nobody-has', 401],
    ['a token of role read is refused', TOKENS.read, 403],
    ['a token of role admin is accepted', 'an-admin-token-for-tests', 200],
  ])('%s', async (_, token, status) => {
    const headers = { Authorization: token === undefined ? '' : `Bearer ${token}` };
    expect((await ask({ rule: 'all jobs', peek: true }, { headers })).status).toBe(status);
  });

  it('a token of role check opens neither the admin route nor metrics nor the details of health', async () => {
    const headers = { Authorization: `Bearer ${TOKENS.check}` };
    for (const path of ['/admin/rules', '/metrics', '/health'])
      expect((await weir.call(`/_weir${path}`, { headers })).status).toBe(403);
  });
});

/** Waits until the subject is counted again, and charges nothing. */
const isCountedAgain = (subject: string) =>
  expect.poll(async () => (await ask({ rule: 'jobs', subject, peek: true })).body.degraded).toBeNull();

describe('when no region answers', () => {
  it('the rule decides, the answer is degraded and has no id, and nothing is charged', async () => {
    const subject = freshUser();
    const faults = REGIONS.map((name) => weir.region(name).gateway.faults);
    await Promise.all(faults.map((fault) => fault.set({ status: 503 })));
    try {
      const { status, body } = await ask({ rule: 'jobs', subject });
      expect([status, body.allowed, body.id]).toEqual([200, true, null]);
      expect(body.degraded).toEqual(expect.any(String));
      expect((await ask({ rule: 'jobs', subject, idempotencyKey: subject })).status).toBe(503);
    } finally {
      await Promise.all(faults.map((fault) => fault.clear()));
    }
    await isCountedAgain(subject);
    expect(await remaining(subject)).toBe(10);
  });
});

describe('when only the region that counts a rule does not answer', () => {
  it('a stand-in counts the call, and the same call gets the same answer and is charged once', async () => {
    const callOf = (subject: string) => ({ rule: 'jobs', subject, cost: 4, idempotencyKey: subject });
    const answers = new Map<string, object>();
    await weir.withFault('us', { status: 503 }, async () => {
      for (const subject of Array.from({ length: 20 }, freshUser)) {
        const { status, body } = await ask(callOf(subject), { region: 'eu' });
        // If the key is kept in us, the call is refused.
        if (status !== 200) continue;
        expect(body).toMatchObject({ allowed: true, degraded: null, results: [{ subject, remaining: 6 }] });
        answers.set(subject, body);
        expect((await ask(callOf(subject), { region: 'ap' })).body).toEqual(body);
      }
    });
    const left = new Set<number | undefined>();
    for (const [subject, body] of answers) {
      await isCountedAgain(subject);
      for (const region of REGIONS)
        expect(await ask(callOf(subject), { region })).toMatchObject({ status: 200, body });
      left.add(await remaining(subject));
    }
    // If us owns the counter, it knows nothing of the charge of its stand-in.
    expect([...left].sort()).toEqual([10, 6]);
  });
});
