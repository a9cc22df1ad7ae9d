// The demo set of `npm run dev` leaves when a person's own API comes, and nothing else leaves with it.
import pg from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { removeDemoSet, seedDemoSet } from '../../local/demo-set.ts';
import { createFreshDatabase, type FreshDatabase } from '../shared/database.ts';

let postgres: FreshDatabase;
beforeAll(async () => {
  postgres = await createFreshDatabase();
});
afterAll(() => postgres.stop());

async function query(sql: string): Promise<{ name: string }[]> {
  const client = new pg.Client({ connectionString: postgres.url });
  await client.connect();
  return client
    .query<{ name: string }>(sql)
    .then(({ rows }) => rows)
    .finally(() => client.end());
}
const namesIn = async (table: string) =>
  (await query(`select name from weir.${table} order by name`))
    .map(({ name }) => name)
    .filter((name) => !name.startsWith('example: '));

it('the demo rules, routes and keys are removed, and come back with the next start without an own API', async () => {
  expect(await seedDemoSet(postgres.url)).toBe(true);
  const seeded = await Promise.all(['rules', 'routes', 'api_keys'].map(namesIn));
  expect(seeded.map(({ length }) => length)).toEqual([4, 2, 2]);
  expect(await removeDemoSet(postgres.url)).toEqual({ removed: 8, kept: [] });
  expect(await Promise.all(['rules', 'routes', 'api_keys'].map(namesIn))).toEqual([[], [], []]);
  expect(await removeDemoSet(postgres.url)).toEqual({ removed: 0, kept: [] });
  expect(await seedDemoSet(postgres.url)).toBe(true);
  expect(await Promise.all(['rules', 'routes', 'api_keys'].map(namesIn))).toEqual(seeded);
});

it('a rule that the person has made or changed stays', async () => {
  await query(`insert into weir.rules (name, resource, scope, algorithm, "limit", window_seconds)
    values ('mine', '/mine', 'ip', 'gcra', 1, 1), ('demo: mine', '/mine', 'ip', 'gcra', 1, 1)`);
  await query(`update weir.rules set "limit" = 7 where name = 'demo: 5 logins a minute for each IP'`);
  expect(await removeDemoSet(postgres.url)).toEqual({
    removed: 7,
    kept: ['demo: 5 logins a minute for each IP'],
  });
  expect(await namesIn('rules')).toEqual(['demo: 5 logins a minute for each IP', 'demo: mine', 'mine']);
});
