// An upgrade from the previous version: its data under the new code, and its own statements on the new database, as
// during a gradual deployment and after a rollback.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { applyMigrations } from '../../local/migrations.ts';
import { startNeonGateway } from '../../local/neon-gateway/server.ts';
import { rollBack } from '../../src/admin/routes/history.ts';
import { createMetricSums } from '../../src/core/telemetry/metrics.ts';
import { hashApiKey } from '../../src/identity/api-key.ts';
import { findApiKey } from '../../src/identity/caller-rows.ts';
import { publish } from '../../src/rules/publishing/publish.ts';
import { createRuleReader } from '../../src/rules/publishing/rule-reader.ts';
import { createDatabase, type Database } from '../../src/rules/tables/repository.ts';
import { readViolators } from '../../src/telemetry/queries.ts';
import { storeBatch } from '../../src/telemetry/store.ts';
import { createFreshDatabase } from '../shared/database.ts';
import { migrateAsBefore } from './former-version.ts';
import { startKv } from './kv.ts';

/** Recorded at the Neon gateway while the previous version ran all its tests. */
const STATEMENTS: string[] = JSON.parse(
  readFileSync(new URL('./statements-of-the-version-before.json', import.meta.url), 'utf8'),
);
const KEY = 'a-key-from-before';

const cleanup = new AsyncDisposableStack();
let url: string;
let client: pg.Client;
let database: Database;
beforeAll(async () => {
  const scratch = mkdtempSync(join(tmpdir(), 'weir-upgrade-'));
  cleanup.defer(() => rmSync(scratch, { recursive: true }));
  url = cleanup.use(await createFreshDatabase('empty')).url;
  client = await connect();
  await migrateAsBefore(client, scratch);
  await client.query(`
    insert into tiers (name, limits) values ('pro', '{"calls": 7}');
    insert into tenants (id, tier) values ('acme', 'pro');
    insert into users (id, tenant_id) values ('ann', 'acme');
    insert into api_keys (hash, prefix, user_id) values ('${await hashApiKey(KEY)}', 'a-key', 'ann');
    insert into events (at, scope, rule_id, rule_name, subject, count) values ('2026-11-16T00:00Z', 'ip', 'r', 'old', '10.0.0.1', 3);
    insert into last_publication values (1, 7, '7 a b', 'f', now(), 100);
    select setval('publications', 7)`);
  // A change of its own, which a test undoes.
  await client.query(`insert into rules (name, resource, scope, algorithm, "limit", window_seconds)
    values ('old', '/x', 'ip', 'gcra', 5, 60)`);
  await applyMigrations(url);
  const neon = await startNeonGateway({ port: 0, databaseUrl: url });
  cleanup.defer(() => neon.stop());
  database = createDatabase({ url, httpEndpoint: neon.fetchEndpoint });
});
afterAll(() => cleanup.disposeAsync());

async function connect(): Promise<pg.Client> {
  const one = new pg.Client({ connectionString: url });
  await one.connect();
  cleanup.defer(() => one.end());
  return one;
}

it('the new code publishes the rules of the previous version, under a later number', async () => {
  const { kv } = cleanup.use(await startKv());
  const reader = createRuleReader(database, { now: () => Date.now() });
  const publication = await publish({
    database,
    reader,
    kv,
    now: () => Date.now(),
    regions: [],
    onError: () => {},
  });
  expect(publication).toMatchObject({ ruleCount: 1, rejected: [] });
  const { rows } = await client.query('select sequence::int from weir.last_publication');
  expect(rows).toEqual([{ sequence: 8 }]);
});

it('the new code knows the keys of the previous version, and their owners', async () => {
  expect(await findApiKey(database, await hashApiKey(KEY))).toMatchObject({
    userId: 'ann',
    tenantId: 'acme',
    tier: 'pro',
  });
});

it('the new code adds to the denials of the previous version', async () => {
  const denial = {
    atMs: Date.UTC(2026, 10, 16),
    scope: 'ip',
    ruleId: 'r',
    ruleName: 'old',
    subject: '10.0.0.1',
    ...{ tenantId: '', userId: '', apiKeyId: '' },
    route: '/x',
    count: 2,
  } as const;
  await storeBatch(
    { database, webhook: undefined, now: () => 0, sums: createMetricSums(), onError: () => {} },
    { id: 'a', cutAtMs: 0, denials: [denial], usage: [] },
  );
  const period = { from: new Date(0), to: new Date() };
  const found = await readViolators(database, { by: 'ip', ...period, limit: 10, offset: 0 });
  expect(found).toMatchObject([{ subject: '10.0.0.1', count: 5 }]);
  expect((await client.query('select count::int from weir.events')).rows).toEqual([{ count: 3 }]);
});

it('the new code rolls back a change of the previous version', async () => {
  const { rows } = await client.query(
    `select change_id::int as change from weir.history where after ->> 'name' = 'old'`,
  );
  const undone = await rollBack(database, { changeId: rows[0].change, actor: 'x', force: false });
  expect(undone).toMatchObject({ rowCount: 1 });
});

it('every statement of the previous version is valid on the new database', async () => {
  expect(STATEMENTS.length).toBeGreaterThan(50);
  const before = await connect();
  for (const [index, statement] of STATEMENTS.entries()) {
    const isPlain = /^(select|insert|update|delete|with)/.test(statement);
    const run = isPlain ? `prepare s${index} as ${statement}` : `begin; ${statement}; commit`;
    await expect(before.query(run), statement).resolves.toBeDefined();
  }
});

it('the previous version and the new code read rows that the other wrote', async () => {
  const before = await connect();
  await before.query(`insert into users (id, tier) values ('bob', 'pro')`);
  await before.query(
    `insert into api_keys (hash, prefix, user_id) values ('${await hashApiKey('b')}', 'b', 'bob')`,
  );
  expect(await findApiKey(database, await hashApiKey('b'))).toMatchObject({ userId: 'bob', tier: 'pro' });
  await database.execute(`update weir.users set tier = null where id = 'bob'`);
  expect((await before.query(`select tier from users where id = 'bob'`)).rows).toEqual([{ tier: null }]);
});
