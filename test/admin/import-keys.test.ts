// Keys of an API that was there before Weir, many at once.
import { createHash } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Admin, startAdmin } from './harness.ts';
import { create, read } from './samples.ts';

let admin: Admin;
beforeAll(async () => {
  admin = await startAdmin({ now: () => Date.parse('2026-06-01T12:00:00Z') });
  await create(admin, 'tiers', { name: 'gold' });
});
afterAll(() => admin[Symbol.asyncDispose]());
beforeEach(async () => {
  for (const table of ['api_keys', 'users', 'tenants'])
    await admin.db.database.execute(`delete from weir.${table}`);
});

const hashOf = (key: string) => createHash('sha256').update(key).digest('hex');
const call = (keys: readonly object[], query = '') =>
  admin.call(`/keys/import${query}`, { method: 'POST', body: { keys } });
const importKeys = async (keys: readonly object[], query?: string) => {
  const response = await call(keys, query);
  expect(response.status).toBe(200);
  return read(response);
};
const stored = async (key: string) => {
  const { items } = (await read(await admin.call(`/keys?sha256=${hashOf(key)}`))) as unknown as {
    readonly items: readonly Record<string, unknown>[];
  };
  expect(items.length).toBeLessThan(2);
  return items[0];
};
const refusal = async (keys: readonly object[]) => {
  const response = await call(keys);
  const { errors } = (await response.json()) as { readonly errors: unknown };
  return { status: response.status, errors };
};

const ACME = { sha256: hashOf('sk_acme'), name: 'acme', userId: 'u-acme', tenantId: 'acme', tier: 'gold' };
const GLOBEX = { sha256: hashOf('sk_globex') };

describe('an import of keys', () => {
  it('creates them, with the users and tenants that they name', async () => {
    const counts = { created: 2, updated: 0, unchanged: 0, users: 1, tenants: 1 };
    expect(await importKeys([ACME, GLOBEX], '?dryRun=true')).toMatchObject({ dryRun: true, ...counts });
    expect(await stored('sk_acme')).toBeUndefined();
    expect(await importKeys([ACME, GLOBEX])).toEqual({ dryRun: false, ...counts, warnings: [] });
    const { sha256, ...fields } = ACME;
    expect(await stored('sk_acme')).toMatchObject({ ...fields, disabled: false, expiresAt: null });
    expect(await stored('sk_globex')).toMatchObject({ name: '', userId: null, tier: null });
    expect((await admin.call('/users/u-acme')).status).toBe(200);
    expect((await admin.call('/tenants/acme')).status).toBe(200);
  });

  it('changes nothing the second time', async () => {
    await importKeys([ACME, GLOBEX]);
    const before = [await stored('sk_acme'), await stored('sk_globex')];
    const again = { created: 0, updated: 0, unchanged: 2, users: 0, tenants: 0 };
    expect(await importKeys([ACME, GLOBEX])).toMatchObject(again);
    expect([await stored('sk_acme'), await stored('sk_globex')]).toEqual(before);
  });

  it('keeps what an entry does not name: a disabled key stays disabled', async () => {
    await importKeys([{ ...ACME, expiresAt: '2030-01-01T00:00:00Z' }]);
    const { id } = (await stored('sk_acme')) as { readonly id: string };
    await admin.call(`/keys/${id}`, { method: 'PATCH', body: { disabled: true } });
    expect(await importKeys([{ ...ACME, name: 'Acme' }])).toMatchObject({ updated: 1, unchanged: 0 });
    const kept = { disabled: true, expiresAt: '2030-01-01T00:00:00.000Z', tenantId: 'acme' };
    expect(await stored('sk_acme')).toMatchObject({ ...kept, id, name: 'Acme' });
    await importKeys([{ sha256: ACME.sha256, tenantId: null, disabled: false }]);
    expect(await stored('sk_acme')).toMatchObject({ disabled: false, tenantId: null, userId: 'u-acme' });
  });

  it('takes over the fields of a key that Weir has made, which keeps its prefix', async () => {
    const made = await create(admin, 'keys', { name: 'CI' });
    await importKeys([{ sha256: hashOf(String(made['key'])), tier: 'gold' }]);
    const { name, tier, prefix } = (await stored(String(made['key']))) ?? {};
    expect({ name, tier, prefix }).toEqual({ name: 'CI', tier: 'gold', prefix: made['prefix'] });
  });

  it('refuses all if one is wrong, and names each that is', async () => {
    const detail = 'is not a tier; there are gold';
    expect(await refusal([GLOBEX, { ...ACME, tier: 'lead' }, { sha256: hashOf('x'), tier: 'tin' }])).toEqual({
      status: 400,
      errors: [1, 2].map((i) => ({ pointer: `#/keys/${i}/tier`, detail })),
    });
    expect(await stored('sk_globex')).toBeUndefined();
  });

  it.each([
    ['no keys', [], '#/keys'],
    ['no hash', [{ name: 'x' }], '#/keys/0/sha256'],
    ['a key instead of its hash', [{ sha256: 'sk_acme' }], '#/keys/0/sha256'],
    ['a key twice', [GLOBEX, { ...GLOBEX, sha256: GLOBEX.sha256.toUpperCase() }], '#/keys/1/sha256'],
    ['a field that is none', [{ ...GLOBEX, plan: 'gold' }], '#/keys/0/plan'],
    ['a date without a zone', [{ ...GLOBEX, expiresAt: '2030-01-01' }], '#/keys/0/expiresAt'],
    ['a user without a name', [{ ...GLOBEX, userId: '' }], '#/keys/0/userId'],
  ])('refuses %s', async (_, keys, pointer) => {
    const { status, errors } = await refusal(keys);
    expect(status).toBe(400);
    expect(errors).toMatchObject([{ pointer }]);
  });

  it('takes 5,000 at once, and no more', async () => {
    const keys = Array.from({ length: 5_001 }, (_, i) => ({ sha256: hashOf(`k${i}`), userId: `u${i}` }));
    expect(await refusal(keys)).toMatchObject({ status: 400, errors: [{ pointer: '#/keys' }] });
    expect(await importKeys(keys.slice(1))).toMatchObject({ created: 5_000, users: 5_000 });
  });
});
