// Routes of the previous version, which knows `prefix` and not `resource`: both stay alike, whichever version writes.
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { startDatabase, type TestDatabase } from './database.ts';

let db: TestDatabase;
let client: pg.Client;
beforeAll(async () => {
  db = await startDatabase();
  client = new pg.Client({ connectionString: db.url });
  await client.connect();
});
afterAll(async () => {
  await client.end();
  await db[Symbol.asyncDispose]();
});
beforeEach(() => client.query('delete from routes'));

const stored = async () => (await client.query('select resource, prefix from routes')).rows;

it.each([
  ['prefix', '/api', { resource: '/api/*', prefix: '/api' }],
  ['prefix', '/', { resource: '/*', prefix: '/' }],
  ['resource', '/api/*', { resource: '/api/*', prefix: '/api' }],
  ['resource', '/*', { resource: '/*', prefix: '/' }],
])('a new route with the %s %s has both', async (column, value, expected) => {
  await client.query(`insert into routes (origin, ${column}) values ('pass', $1)`, [value]);
  expect(await stored()).toEqual([expected]);
});

it.each([
  [`prefix = '/new'`, { resource: '/new/*', prefix: '/new' }],
  [`prefix = '/'`, { resource: '/*', prefix: '/' }],
  [`resource = '/new/*'`, { resource: '/new/*', prefix: '/new' }],
  [`resource = '/*'`, { resource: '/*', prefix: '/' }],
  [`enabled = false`, { resource: '/api/*', prefix: '/api' }],
])('a change of a route (%s) changes both', async (change, expected) => {
  await client.query(`insert into routes (origin, resource) values ('pass', '/api/*')`);
  await client.query(`update routes set ${change}`);
  expect(await stored()).toEqual([expected]);
});
