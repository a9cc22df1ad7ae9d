// Pages of any size are complete and without repetition, even while others write.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { toCursor } from '../../src/admin/paging.ts';
import { apiKeys, rules, users } from '../../src/rules/tables/tables.ts';
import { type Admin, startAdmin } from './harness.ts';
import { create, LOGINS, readProblem, type Shown } from './samples.ts';

const COUNT = 130;
const { name: _name, ...UNNAMED } = LOGINS;

let admin: Admin;
beforeAll(async () => {
  admin = await startAdmin();
  const { database } = admin.db;
  await database.delete(rules);
  await database
    .insert(rules)
    .values(numbers(COUNT).map((i) => ({ ...UNNAMED, name: `r${i}`, priority: i })));
  await database.insert(users).values(numbers(COUNT).map((i) => ({ id: `u${i}` })));
  // All in one transaction, so they have the same time of creation.
  const keys = numbers(COUNT).map((i) => ({
    name: `k${i}`,
    prefix: 'weir_x',
    hash: i.toString(16).padStart(64, '0'),
  }));
  await database.insert(apiKeys).values(keys);
});
afterAll(() => admin[Symbol.asyncDispose]());

const numbers = (count: number) => Array.from({ length: count }, (_, i) => i);

interface Page {
  readonly items: Shown[];
  readonly nextCursor: string | null;
}

const page = async (path: string) => (await (await admin.call(path)).json()) as Page;

/** Reads all pages. `between` runs after each of them. */
async function readAll(
  collection: string,
  limit: number,
  between: (pages: number) => Promise<unknown> = async () => {},
) {
  const pages: Page[] = [];
  let cursor = '';
  do {
    const next = await page(`/${collection}?limit=${limit}${cursor && `&cursor=${cursor}`}`);
    pages.push(next);
    cursor = next.nextCursor ?? '';
    await between(pages.length);
  } while (cursor);
  return pages;
}

const namesIn = (pages: readonly Page[]) =>
  pages.flatMap(({ items }) => items.map(({ name, id }) => name ?? id));

describe('pages', () => {
  it.each(['rules', 'users', 'keys'])('hold all %s, each once, at any page size', async (collection) => {
    const all = namesIn(await readAll(collection, 200)).sort();
    expect(new Set(all).size).toBe(COUNT);
    for (const limit of [7, 50, 65, COUNT]) {
      const pages = await readAll(collection, limit);
      expect(pages).toHaveLength(Math.ceil(COUNT / limit));
      expect(namesIn(pages).sort()).toEqual(all);
    }
  });

  it('have 50 items by default', async () => {
    expect((await page('/rules')).items).toHaveLength(50);
  });

  it('keep their filters', async () => {
    const first = await page('/rules?q=R1&limit=10');
    const rest = await page(`/rules?q=R1&limit=200&cursor=${first.nextCursor}`);
    const expected = numbers(COUNT)
      .map((i) => `r${i}`)
      .filter((name) => name.includes('r1'));
    expect(namesIn([first, rest]).sort()).toEqual(expected.sort());
    expect(rest.nextCursor).toBeNull();
  });
});

describe('while others write', () => {
  it('a row that stays is on exactly one page', async () => {
    const before = namesIn(await readAll('rules', 200));
    const ids = new Map(
      (await readAll('rules', 200)).flatMap(({ items }) => items.map(({ id, name }) => [name, id])),
    );
    const gone = before.filter((_, i) => i % 13 === 0);
    const pages = await readAll('rules', 20, async (n) => {
      await Promise.all([
        create(admin, 'rules', { ...UNNAMED, name: `new${n}a`, priority: -n }),
        create(admin, 'rules', { ...UNNAMED, name: `new${n}b`, priority: 1000 + n }),
        // A changed rule keeps its place, whatever changes.
        admin.call(`/rules/${ids.get(`r${n}`)}`, { method: 'PATCH', body: { priority: 5000, limit: 99 } }),
        admin.call(`/rules/${ids.get(`r${120 + n}`)}`, {
          method: 'PATCH',
          body: { priority: -5000, name: `moved${n}` },
        }),
        admin.call(`/rules/${ids.get(gone[n])}`, { method: 'DELETE' }),
      ]);
    });
    const seen = pages.flatMap(({ items }) => items.map(({ id }) => id));
    expect(new Set(seen).size).toBe(seen.length);
    const deleted = new Set(gone.map((name) => ids.get(name)));
    const stayed = [...ids.values()].filter((id) => !deleted.has(id));
    expect(seen).toEqual(expect.arrayContaining(stayed));
  });

  it('a cursor stays valid after its row is deleted', async () => {
    const { items, nextCursor } = await page('/users?limit=3');
    const expected = await page(`/users?limit=3&cursor=${nextCursor}`);
    await admin.call(`/users/${items[2]?.id}`, { method: 'DELETE' });
    expect(await page(`/users?limit=3&cursor=${nextCursor}`)).toEqual(expected);
  });
});

describe('a bad limit or cursor', () => {
  it.each(['0', '201', '-1', '1.5', 'ten', ''])('is refused: limit=%s', async (limit) => {
    const response = await admin.call(`/rules?limit=${limit}`);
    expect(await readProblem(response)).toMatchObject({
      status: 400,
      code: 'invalid-request',
      errors: [{ pointer: 'limit' }],
    });
  });

  it.each([
    ['nothing', ''],
    ['not base64', '%%%'],
    ['not JSON', 'aGVsbG8'],
    ['not a list', 'e30'],
    ['not a list of texts', btoa('[1,2]')],
    ['of another collection', toCursor(['u1'])],
    ['with other values', toCursor(['2026-01-01', 'x'])],
    ['with a number too large', toCursor(['99999999999999', '00000000-0000-0000-0000-000000000000'])],
    ['too long', 'a'.repeat(3000)],
  ])('is refused: a cursor that is %s', async (_, cursor) => {
    const response = await admin.call(`/rules?cursor=${encodeURIComponent(cursor)}`);
    expect(await readProblem(response)).toMatchObject({
      status: 400,
      code: 'invalid-request',
      errors: [{ pointer: 'cursor' }],
    });
  });
});
