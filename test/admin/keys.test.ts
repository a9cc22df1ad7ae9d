// API keys are shown once, and never again in any way.
import { createHash } from 'node:crypto';
import { eq } from 'drizzle-orm';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createApiKey, hashApiKey, isWellFormedKey } from '../../src/identity/api-key.ts';
import { apiKeys } from '../../src/rules/tables/tables.ts';
import { type Admin, startAdmin } from './harness.ts';
import { create, read, readProblem, type Shown } from './samples.ts';

let admin: Admin;
beforeAll(async () => {
  admin = await startAdmin({ now: () => Date.parse('2026-06-01T12:00:00Z') });
});
afterAll(() => admin[Symbol.asyncDispose]());

describe('a key', () => {
  it('is shown once: afterwards neither it nor its hash is in any answer', async () => {
    const { key, ...kept } = await create(admin, 'keys', { name: 'CI', userId: 'u1' });
    expect(await isWellFormedKey(String(key))).toBe(true);
    const [stored] = await admin.db.database.select().from(apiKeys).where(eq(apiKeys.id, kept.id));
    expect(stored?.hash).toBe(await hashApiKey(String(key)));
    expect(String(key).startsWith(String(kept['prefix']))).toBe(true);

    const path = `/keys/${kept.id}`;
    const later = [
      await admin.call(path),
      await admin.call('/keys'),
      await admin.call(path, { method: 'PATCH', body: { disabled: true } }),
      await admin.call(path, { method: 'PUT', body: { name: 'again' } }),
      await admin.call(path, { method: 'PATCH', body: { hash: stored?.hash } }),
      await admin.call(`/keys?prefix=${kept['prefix']}`),
      await admin.call('/history'),
      await admin.call('/export'),
      await admin.call(path, { method: 'DELETE' }),
      await admin.call('/history'),
    ];
    for (const response of later) {
      const text = await response.text();
      expect(text).not.toContain(String(key));
      expect(text).not.toContain(stored?.hash);
    }
  });

  it('is stored nowhere in Postgres: only its hash and its short prefix are', async () => {
    const { id, key, prefix } = await create(admin, 'keys', { name: 'secret', userId: 'u1' });
    const secret = String(key).slice(String(prefix).length);
    expect(secret.length).toBeGreaterThan(20);
    const { rows: tables } = await admin.db.database.execute<{ name: string }>(
      `select quote_ident(table_name) as name from information_schema.tables where table_schema = 'weir'`,
    );
    const everything = async () => {
      const texts: string[] = [];
      for (const { name } of tables) {
        const { rows } = await admin.db.database.execute(`select t::text from weir.${name} t`);
        texts.push(JSON.stringify(rows));
      }
      return texts.join('\n');
    };
    const path = `/keys/${id}`;
    for (const change of [{ method: 'PATCH', body: { disabled: true } }, { method: 'DELETE' }]) {
      const text = await everything();
      expect(text).toContain(prefix);
      expect(text).toContain(await hashApiKey(String(key)));
      expect(text).not.toContain(secret);
      expect((await admin.call(path, change)).ok).toBe(true);
    }
    expect(await everything()).not.toContain(secret);
  });

  it('is different each time', async () => {
    const keys = await Promise.all(Array.from({ length: 5 }, () => create(admin, 'keys', {})));
    expect(new Set(keys.map(({ key }) => key)).size).toBe(5);
  });

  it('can be disabled, expired and given to another user, but its text cannot be changed', async () => {
    const { id } = await create(admin, 'keys', {});
    const patch = (body: object) => admin.call(`/keys/${id}`, { method: 'PATCH', body });
    expect(
      await read(await patch({ disabled: true, expiresAt: '2020-01-01T00:00:00Z', userId: 'u2' })),
    ).toMatchObject({
      disabled: true,
      expiresAt: '2020-01-01T00:00:00.000Z',
      userId: 'u2',
    });
    for (const field of ['key', 'hash', 'prefix', 'id'])
      expect((await readProblem(await patch({ [field]: 'x' }))).errors).toMatchObject([
        { pointer: `#/${field}` },
      ]);
  });

  it.each(['2026-06-01T12:00:00Z', '2026-06-01T13:59:59+02:00', '2020-01-01T00:00:00Z'])(
    'is not created if it would already have expired: %s',
    async (expiresAt) => {
      const response = await admin.call('/keys', { method: 'POST', body: { expiresAt } });
      expect(await readProblem(response)).toMatchObject({
        status: 400,
        code: 'invalid-body',
        errors: [{ pointer: '#/expiresAt', detail: 'must be in the future' }],
      });
    },
  );

  it('for a user that does not exist creates the user, and the answer has a warning', async () => {
    const created = await create(admin, 'keys', { userId: 'newcomer' });
    const warning = (id: string) => `there was no user ${id}: it was created, without a tier and a tenant`;
    expect(created.warnings).toEqual([warning('newcomer')]);
    expect(await read(await admin.call('/users/newcomer'))).toMatchObject({ tier: null, tenantId: null });
    expect(await create(admin, 'keys', { userId: 'newcomer' })).not.toHaveProperty('warnings');
    for (const [method, userId] of [
      ['PATCH', 'second'],
      ['PUT', 'third'],
    ] as const) {
      const answer = await admin.call(`/keys/${created.id}`, { method, body: { userId } });
      expect((await read(answer)).warnings).toEqual([warning(userId)]);
      expect((await admin.call(`/users/${userId}`)).status).toBe(200);
    }
    // One change created both, and undoing it removes both.
    const { items } = (await (await admin.call('/history?entity=users&entityId=newcomer')).json()) as {
      items: { changeId: number }[];
    };
    const undone = await admin.call(`/history/${items[0]?.changeId}/rollback?force=true`, { method: 'POST' });
    expect(await undone.json()).toMatchObject({ rowCount: 2 });
  });

  it('is found by its beginning, shorter or longer than the stored prefix', async () => {
    const { id, key, prefix } = await create(admin, 'keys', { name: 'to be found' });
    const found = async (begins: string) => {
      const { items } = (await (await admin.call(`/keys?limit=200&prefix=${begins}`)).json()) as {
        items: Shown[];
      };
      return items.some((item) => item.id === id);
    };
    expect(await found(String(prefix))).toBe(true);
    expect(await found(String(prefix).slice(0, 7))).toBe(true);
    expect(await found(String(key).slice(0, 20))).toBe(true);
    expect(await found(`${String(prefix).slice(0, -1)}_`)).toBe(false);
    expect(await found('%')).toBe(false);
  });

  it('is found by its owner, tenant and tier', async () => {
    await create(admin, 'tiers', { name: 'pro' });
    await create(admin, 'tenants', { id: 'acme' });
    await create(admin, 'keys', { name: 'a', userId: 'owner' });
    await create(admin, 'keys', { name: 'b', tenantId: 'acme' });
    await create(admin, 'keys', { name: 'c', tier: 'pro' });
    for (const [query, name] of [
      ['userId=owner', 'a'],
      ['tenantId=acme', 'b'],
      ['tier=pro', 'c'],
    ]) {
      const { items } = (await (await admin.call(`/keys?${query}`)).json()) as { items: Shown[] };
      expect([query, items.map((item) => item['name'])]).toEqual([query, [name]]);
    }
  });
});

describe('a key that was made elsewhere', () => {
  const OWN = 'sk_live_51NbX-old.api/key==';

  it.each([
    ['as it is', { key: OWN }],
    ['by its hash', { sha256: createHash('sha256').update(OWN).digest('hex').toUpperCase() }],
  ])('is taken %s: only its hash is stored, and neither is ever shown', async (_, given) => {
    const created = await create(admin, 'keys', { ...given, name: 'old', userId: 'u-old' });
    const hash = await hashApiKey(OWN);
    expect(created).toMatchObject({ name: 'old', userId: 'u-old', prefix: `sha256:${hash.slice(0, 8)}` });
    expect(created).not.toHaveProperty('key');
    const [stored] = await admin.db.database.select().from(apiKeys).where(eq(apiKeys.id, created.id));
    expect(stored?.hash).toBe(hash);
    const again = await admin.call('/keys', { method: 'POST', body: given });
    expect(again.status).toBe(409);
    const found = await admin.call(`/keys?sha256=${hash}`);
    expect(await found.clone().json()).toMatchObject({ items: [{ id: created.id }] });
    const shown = [created, again, found, await admin.call('/history'), await admin.call('/keys')];
    for (const one of shown) {
      const text = one instanceof Response ? await one.text() : JSON.stringify(one);
      expect(text).not.toContain(OWN);
      expect(text).not.toContain(hash);
    }
    const { rows } = await admin.db.database.execute('select t::text from weir.history t');
    expect(JSON.stringify(rows)).not.toContain(OWN);
    expect((await admin.call(`/keys/${created.id}`, { method: 'DELETE' })).status).toBe(204);
  });

  it('may be one of another Weir', async () => {
    const key = await createApiKey(new Uint8Array(64).fill(7));
    const { prefix } = await create(admin, 'keys', { key });
    expect(prefix).toBe(key.slice(0, 11));
  });

  it.each([
    ['too short', { key: 'short-1' }, '#/key', 'must have 8 to 8192 printable ASCII characters'],
    ['with a blank', { key: 'two words' }, '#/key', 'without blanks and commas'],
    ['with a comma', { key: 'one,two,three' }, '#/key', 'without blanks and commas'],
    ['beyond ASCII', { key: 'schlüssel-1' }, '#/key', 'printable ASCII'],
    ['a mistyped one of Weir', { key: 'weir_abcdefgh' }, '#/key', 'has a mistake in it'],
    ['no hash', { sha256: 'abc' }, '#/sha256', 'must be a SHA-256 in 64 hexadecimal digits'],
    ['twice', { key: OWN, sha256: 'a'.repeat(64) }, '#/sha256', 'cannot go with key'],
  ])('is refused if it is %s, and the answer does not repeat it', async (_, body, pointer, detail) => {
    const answer = await admin.call('/keys', { method: 'POST', body });
    const text = await answer.clone().text();
    expect(await readProblem(answer)).toMatchObject({
      status: 400,
      code: 'invalid-body',
      errors: [{ pointer, detail: expect.stringContaining(detail) }],
    });
    for (const given of Object.values(body)) expect(text).not.toContain(given);
  });

  it('in a document needs no prefix', async () => {
    const id = crypto.randomUUID();
    const hash = await hashApiKey('another-old-key');
    const keys = [{ id, hash, name: 'from a document' }];
    const answer = await admin.call('/import', { method: 'POST', body: { weir: 1, keys } });
    expect(await answer.json()).toMatchObject({ keys: { created: 1 } });
    expect(await read(await admin.call(`/keys/${id}`))).toMatchObject({
      prefix: `sha256:${hash.slice(0, 8)}`,
    });
  });
});
