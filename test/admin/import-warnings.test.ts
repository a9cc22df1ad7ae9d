// An import warns of rules that are probably mistakes, and a dry run gives the same warnings.
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { type Admin, startAdmin } from './harness.ts';
import { rule } from './import-export-harness.ts';

let admin: Admin;
let sql: pg.Client;
beforeAll(async () => {
  admin = await startAdmin();
  sql = new pg.Client({ connectionString: admin.db.url });
  await sql.connect();
});
afterAll(async () => {
  await sql.end();
  await admin[Symbol.asyncDispose]();
});
beforeEach(async () => {
  await sql.query('delete from rules; delete from tiers');
});

const take = async (document: object, query: string) => {
  const response = await admin.call(`/import${query}`, { method: 'POST', body: { weir: 1, ...document } });
  expect(response.status, await response.clone().text()).toBe(200);
  return ((await response.json()) as { warnings: string[] }).warnings;
};
/** The warnings of the dry run. Also checks that the real import gives the same ones. */
const warningsOf = async (document: object, mode = 'merge') => {
  const foretold = await take(document, `?dryRun=true&mode=${mode}`);
  expect(await take(document, `?mode=${mode}`)).toEqual(foretold);
  return foretold;
};
const ID = (digit: number) => `00000000-0000-4000-8000-00000000000${digit}`;
const tied = [rule('a', { id: ID(1), resource: '/same' }), rule('b', { id: ID(2), resource: '/same' })];

test('good rules get no warning', async () => {
  expect(await warningsOf({ rules: [rule('a'), rule('b')] })).toEqual([]);
});

test('a rule of the document that never applies gets a warning', async () => {
  expect(await warningsOf({ rules: tied })).toEqual([expect.stringContaining('"b" never applies: "a"')]);
});

test('a rule that loses to a kept rule gets a warning, and one that loses to a deleted rule gets none', async () => {
  await take({ rules: [tied[0]] }, '');
  expect(await warningsOf({ rules: [tied[1]] })).toEqual([expect.stringContaining('"b" never applies: "a"')]);
  expect(await warningsOf({ rules: [tied[1]] }, 'replace')).toEqual([]);
});

test('a rule that is switched off does not cause a warning', async () => {
  const [a, b] = tied;
  expect(await warningsOf({ rules: [a, { ...b, enabled: false }] })).toEqual([]);
  expect(await warningsOf({ rules: [{ ...b, enabled: true }] })).toHaveLength(1);
});

test('a rule whose limit does not fit the tiers gets a warning, and none after the document mends the tiers', async () => {
  const rules = [rule('named', { limit: null, limitName: 'calls' })];
  expect(await warningsOf({ rules })).toEqual([
    expect.stringContaining('takes the limit "calls", which no tier has'),
    expect.stringContaining('no tier is the default'),
  ]);
  expect(await warningsOf({ tiers: [{ name: 'free', isDefault: true, limits: { calls: 5 } }] })).toEqual([]);
  const log = rule('log', { algorithm: 'sliding-window-log', limitName: 'calls' });
  expect(await warningsOf({ rules: [log], tiers: [{ name: 'big', limits: { calls: 1e9 } }] })).toEqual([
    expect.stringMatching(/^not in force: log: limitName: with the limit of tier big/),
  ]);
});

test('of very many warnings only the first are shown, with the number of the others', async () => {
  const rules = Array.from({ length: 30 }, (_, i) => rule(`r${i}`, { scope: 'user', tiers: ['none'] }));
  const warnings = await take({ rules }, '?dryRun=true');
  expect([warnings.length, warnings.at(-1)]).toEqual([21, 'and 10 more']);
});
