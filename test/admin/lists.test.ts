// The allow and deny lists: one spelling for one range, and an expiry.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Admin, startAdmin } from './harness.ts';
import { create, read, readProblem, type Shown } from './samples.ts';

const DENY = { list: 'deny', kind: 'ip' } as const;

let admin: Admin;
beforeAll(async () => {
  admin = await startAdmin({ now: () => Date.parse('2026-06-01T12:00:00Z') });
});
afterAll(() => admin[Symbol.asyncDispose]());

const post = (body: unknown) => admin.call('/lists', { method: 'POST', body });

describe('an address or a range', () => {
  it.each([
    ['198.51.100.7', '198.51.100.7/32'],
    ['10.0.0.0/8', '10.0.0.0/8'],
    ['2001:DB8:0:0::1', '2001:db8::1/128'],
    ['2001:db8::/32', '2001:db8::/32'],
    ['::ffff:192.0.2.1', '192.0.2.1/32'],
  ])('%s is kept in its canonical spelling, and found in either spelling', async (value, kept) => {
    const entry = await create(admin, 'lists', { ...DENY, value });
    expect(entry['value']).toBe(kept);
    for (const spelling of [value, kept]) {
      const found = await admin.call(`/lists?kind=ip&value=${encodeURIComponent(spelling)}`);
      expect(((await found.json()) as { items: Shown[] }).items).toEqual([entry]);
    }
  });

  it('is listed once, even in two spellings', async () => {
    await create(admin, 'lists', { ...DENY, value: '2001:db8:ffff::/48' });
    const again = await post({ ...DENY, value: '2001:0DB8:FFFF:0::/48' });
    expect(await readProblem(again)).toMatchObject({
      status: 409,
      code: 'already-exists',
      errors: [{ pointer: '#/list' }, { pointer: '#/kind' }, { pointer: '#/value' }],
    });
    await create(admin, 'lists', { ...DENY, list: 'allow', value: '2001:0DB8:FFFF:0::/48' });
  });

  it.each([
    'localhost',
    '300.1.1.1',
    '10.0.0.1/33',
    '10.0.0.1/8',
    '1.2.3',
    'fe80::1%eth0',
    '10.0.0.0/',
    "1.1.1.1'--",
  ])('is refused: %s', async (value) => {
    expect(await readProblem(await post({ ...DENY, value }))).toMatchObject({
      status: 400,
      code: 'invalid-body',
      errors: [{ pointer: '#/value' }],
    });
  });

  it('is checked by its kind after a patch too', async () => {
    const { id } = await create(admin, 'lists', { list: 'deny', kind: 'user', value: '2001:DB8:1::1' });
    const patch = (body: object) => admin.call(`/lists/${id}`, { method: 'PATCH', body });
    expect((await readProblem(await patch({ kind: 'apiKey' }))).errors).toMatchObject([
      { pointer: '#/value' },
    ]);
    expect(await read(await patch({ kind: 'ip' }))).toMatchObject({ kind: 'ip', value: '2001:db8:1::1/128' });
  });
});

describe('an entry', () => {
  it('may name a user, a tenant or the id of a key', async () => {
    await create(admin, 'lists', { list: 'allow', kind: 'user', value: 'auth0|Ünï' });
    await create(admin, 'lists', { list: 'deny', kind: 'tenant', value: 'acme' });
    const { id } = await create(admin, 'keys', {});
    const entry = await create(admin, 'lists', { list: 'deny', kind: 'apiKey', value: id.toUpperCase() });
    expect(entry['value']).toBe(id);
  });

  it('is not made from the text of a key', async () => {
    const { key } = await create(admin, 'keys', {});
    const problem = await readProblem(await post({ list: 'deny', kind: 'apiKey', value: key }));
    expect(problem.errors).toEqual([
      { pointer: '#/value', detail: 'must be the id of an API key, not the key itself' },
    ]);
  });

  it('expires at a time that has a zone and lies in the future', async () => {
    const entry = await create(admin, 'lists', {
      ...DENY,
      value: '192.0.2.9',
      expiresAt: '2026-06-01T14:00:01+02:00',
    });
    expect(entry['expiresAt']).toBe('2026-06-01T12:00:01.000Z');
    const wrong = [
      '2026-06-01T12:00:00Z',
      '2026-07-01T12:00:00',
      '2026-07-01',
      '2026-02-30T00:00:00Z',
      'soon',
      1_800_000_000,
    ];
    for (const expiresAt of wrong) {
      const problem = await readProblem(await post({ ...DENY, value: '192.0.2.10', expiresAt }));
      expect([expiresAt, problem.status, problem.errors?.[0]?.pointer]).toEqual([
        expiresAt,
        400,
        '#/expiresAt',
      ]);
    }
  });

  it('is found by list and kind', async () => {
    const { items } = (await (await admin.call('/lists?list=allow&kind=user')).json()) as { items: Shown[] };
    expect(items.map(({ value }) => value)).toEqual(['auth0|Ünï']);
  });
});
