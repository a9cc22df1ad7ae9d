// An import warns of rules that are probably mistakes, and a dry run gives the same warnings.
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { readContent } from '../../src/rules/publishing/content.ts';
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

test('a subject that nobody has, and a rule that is over, get a warning; what the document brings does not', async () => {
  await sql.query(`delete from users; delete from tenants; insert into tenants (id) values ('acme')`);
  const rules = [
    rule('users', { resource: '/users', scope: 'user', subjects: ['ada', 'ada-*'] }),
    rule('tenants', { resource: '/tenants', scope: 'user', tenants: ['acme', 'umbrella'] }),
    rule('keys', { resource: '/keys', scope: 'apiKey', subjects: [ID(7), 'no id'] }),
    rule('over', { resource: '/over', validUntil: '2020-01-01T00:00:00Z' }),
  ];
  const brought = {
    tenants: [{ id: 'umbrella' }],
    users: [{ id: 'ada' }],
    keys: [{ id: ID(7), hash: 'a'.repeat(64) }],
  };
  const over = '"over" has ended (validUntil 2020-01-01T00:00:00.000Z): it never applies.';
  expect(await take({ rules }, '?dryRun=true')).toEqual([
    '"users" names users that Weir does not know: ada. It applies to them only if tokens name them: check the spelling.',
    '"tenants" names tenants that Weir does not know: umbrella. It applies to them only if tokens name them: check the spelling.',
    `"keys" names API keys that Weir does not know: ${ID(7)}, no id. It never applies to them: name keys by their ids.`,
    over,
  ]);
  expect(await warningsOf({ rules, ...brought })).toEqual([expect.stringContaining(': no id.'), over]);
});

test('a user or tenant that has sent requests is known', async () => {
  await sql.query(`insert into usage values (date_trunc('hour', now()), 'hooli', 'eve', '', '', 1, 1)`);
  const rules = [rule('seen', { resource: '/seen', scope: 'user', subjects: ['eve'], tenants: ['hooli'] })];
  expect(await warningsOf({ rules })).toEqual([]);
});

test('a limit of a tenant that cannot be counted is left out alone, and the answer names it', async () => {
  const rules = [
    rule('log', { algorithm: 'sliding-window-log', limit: 5, limitName: 'calls' }),
    rule('other', { resource: '/other', limit: 5, limitName: 'exports' }),
  ];
  expect((await admin.call('/import', { method: 'POST', body: { weir: 1, rules } })).status).toBe(200);
  const limits = { calls: 200_000, exports: { times: 2, of: 'gone' }, unused: { times: 2, of: 'gone' } };
  const made = await admin.call('/tenants', { method: 'POST', body: { id: 'vandelay', limits } });
  expect(((await made.json()) as { warnings: string[] }).warnings).toEqual([
    'not in force: tenant vandelay: limits.exports: there is no tier gone; limits.calls: sliding-window-log takes a limit of up to 100000',
  ]);
  const { content } = await readContent(admin.db.database, Date.now());
  expect(content.rules).toHaveLength(2);
  expect(content.tenantLimits).toBeUndefined();
  await sql.query(`update tenants set limits = '{"calls": 7, "unused": 9}' where id = 'vandelay'`);
  const changed = await readContent(admin.db.database, Date.now());
  expect(changed.content.tenantLimits).toEqual({ vandelay: { calls: 7 } });
});
