// Denials and usage in a real Postgres: written once, however often a batch is delivered, and deleted when they are
// old.
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createMetricSums } from '../../src/core/telemetry/metrics.ts';
import type { QueuedMessage, RecordBatch } from '../../src/telemetry/flush.ts';
import { createConsumer, deleteOld, storeBatch } from '../../src/telemetry/store.ts';
import { startDatabase, type TestDatabase } from '../rules/database.ts';

const MINUTE_MS = Date.UTC(2030, 0, 1, 12, 30);
const HOUR_MS = Date.UTC(2030, 0, 1, 12);

let db: TestDatabase;
let sql: pg.Client;
beforeAll(async () => {
  db = await startDatabase();
  sql = new pg.Client({ connectionString: db.url });
  await sql.connect();
});
afterAll(async () => {
  await sql.end();
  await db[Symbol.asyncDispose]();
});
beforeEach(() =>
  sql.query(
    'delete from denials; delete from denied_requests; delete from usage; delete from record_batches',
  ),
);

const NOBODY = { tenantId: '', userId: '', apiKeyId: '' };
const denialOf = (subject: string, count: number) =>
  ({ ...NOBODY, atMs: MINUTE_MS, ruleId: 'r', ruleName: 'search', scope: 'ip', subject, count }) as const;
const usageOf = (userId: string, requests: number) => {
  const caller = { tenantId: 'acme', userId, apiKeyId: '', ruleId: '' };
  return { ...caller, atMs: HOUR_MS, requests, cost: 2 * requests };
};
const batchOf = (id: string, changes: Partial<RecordBatch> = {}): RecordBatch => ({
  id,
  cutAtMs: MINUTE_MS,
  denials: [denialOf('10.0.0.1', 2), denialOf('10.0.0.2', 3)],
  usage: [usageOf('ann', 5)],
  ...changes,
});
const totals = async () => {
  const { rows } = await sql.query(`
    select (select coalesce(sum(count), 0)::int from denials) as denied, (select count(*)::int from denials) as rows,
      (select coalesce(sum(requests), 0)::int from usage) as used, (select coalesce(sum(cost), 0)::int from usage) as cost`);
  return rows[0];
};

const sums = createMetricSums();
const write = (batch: RecordBatch) =>
  storeBatch(
    {
      database: db.database,
      webhook: undefined,
      now: () => MINUTE_MS + 20_000,
      sums,
      onError: (error) => expect.fail(String(error)),
    },
    batch,
  );

describe('a batch', () => {
  it('is added to the row of the same minute, rule and subject', async () => {
    expect(await write(batchOf('one'))).toBe(true);
    expect(await write(batchOf('two'))).toBe(true);
    expect(await totals()).toEqual({ denied: 10, rows: 2, used: 10, cost: 20 });
    const { rows } = await sql.query('select at, rule_name, scope from denials limit 1');
    expect(rows[0]).toEqual({ at: new Date(MINUTE_MS), rule_name: 'search', scope: 'ip' });
  });

  it('keeps the denials of two callers apart that a rule counts as one subject', async () => {
    const behind = (apiKeyId: string) => ({ ...denialOf('10.0.0.1', 2), tenantId: 'acme', apiKeyId });
    await write(batchOf('one', { denials: [behind('k1'), behind('k2'), denialOf('10.0.0.1', 1)] }));
    await write(batchOf('two', { denials: [behind('k2')] }));
    const { rows } = await sql.query(
      'select tenant_id, user_id, api_key_id, count::int from denials order by api_key_id',
    );
    expect(rows.map((row) => Object.values(row))).toEqual([
      ['', '', '', 1],
      ['acme', '', 'k1', 2],
      ['acme', '', 'k2', 4],
    ]);
  });

  it('of the version before, which does not say who called, is written as of nobody', async () => {
    const { tenantId: _, userId: __, apiKeyId: ___, ...former } = denialOf('10.0.0.1', 2);
    await write(batchOf('one', { denials: [former as RecordBatch['denials'][number]] }));
    const { rows } = await sql.query('select subject, tenant_id, user_id, api_key_id from denials');
    expect(rows.map((row) => Object.values(row))).toEqual([['10.0.0.1', '', '', '']]);
  });

  it('writes its denied requests once', async () => {
    const request = {
      ...{ requestId: '8f2a5c3d1e4b6a70', atMs: MINUTE_MS + 1_234, status: 429, code: 'rate-limited' },
      ...{ method: 'GET', route: 'default', region: 'us', ...NOBODY, rules: [] },
    };
    await write(batchOf('one', { requests: [request] }));
    await write(batchOf('two', { requests: [{ ...request, method: 'PUT' }] }));
    const { rows } = await sql.query('select request_id, at, method, rules from denied_requests');
    const at = new Date(MINUTE_MS + 1_234);
    expect(rows).toEqual([{ request_id: '8f2a5c3d1e4b6a70', at, method: 'GET', rules: [] }]);
  });

  it('that is delivered again is not added again, even if both come at the same time', async () => {
    const fresh = await Promise.all([1, 2, 3].map(() => write(batchOf('one'))));
    expect(fresh.filter(Boolean)).toHaveLength(1);
    expect(await write(batchOf('one'))).toBe(false);
    expect(await totals()).toMatchObject({ denied: 5, used: 5 });
  });

  it('may name one row twice, and may correct a cost downwards', async () => {
    const twice = [denialOf('10.0.0.1', 2), denialOf('10.0.0.1', 3)];
    await write(batchOf('one', { denials: twice, usage: [usageOf('ann', 5)] }));
    const refund = { ...usageOf('ann', 0), cost: -4 };
    await write(batchOf('two', { denials: [], usage: [refund] }));
    expect(await totals()).toEqual({ denied: 5, rows: 1, used: 5, cost: 6 });
  });

  it('of many rows in any order causes no deadlock with another one', async () => {
    const many = Array.from({ length: 500 }, (_, i) => denialOf(`10.0.${i}`, 1));
    const orders = [many, many.toReversed(), many.toSorted(() => 0.5 - Math.random()), many.toReversed()];
    await Promise.all(orders.map((denials, i) => write(batchOf(`${i}`, { denials }))));
    expect(await totals()).toMatchObject({ denied: 2_000, rows: 500 });
  });

  it('is written whole or not at all', async () => {
    const bad = [denialOf('10.0.0.1', 2), denialOf('10.0.0.2', 0)];
    await expect(write(batchOf('one', { denials: bad }))).rejects.toThrow();
    expect(await totals()).toMatchObject({ denied: 0, used: 0 });
    await write(batchOf('one'));
    expect(await totals()).toMatchObject({ denied: 5 });
  });
});

describe('the consumer of the queue', () => {
  function open(toPostgres: (batch: RecordBatch) => Promise<unknown> = write) {
    const done: string[] = [];
    const errors: unknown[] = [];
    sums.take(1_000);
    const consume = createConsumer({
      write: toPostgres,
      sums,
      retrySeconds: 10,
      flush: async () => void done.push('flushed'),
      onError: (error) => void errors.push(error),
    });
    const messageOf = (body: unknown, attempts = 1): QueuedMessage => ({
      body,
      attempts,
      ack: () => void done.push('ack'),
      retry: (options) => void done.push(`retry in ${options?.delaySeconds}`),
    });
    return { consume, messageOf, done, errors };
  }

  it('acknowledges written batches, and counts their denials and delay', async () => {
    const { consume, messageOf, done } = open();
    await consume({ queue: 'weir-records', messages: ['a', 'b'].map((id) => messageOf(batchOf(id))) });
    expect(done).toEqual(['ack', 'ack', 'flushed']);
    expect(Object.fromEntries(sums.take(10))).toEqual({
      'recordsLag\tb2': 2,
      'recordsLag\tsum': 40_000_000,
      denialsWritten: 10,
    });
  });

  it('that is killed in the middle of a batch counts nothing twice when all of it is delivered again', async () => {
    const { consume, messageOf } = open();
    const messages = ['a', 'b', 'c'].map((id) => messageOf(batchOf(id)));
    const killed = open(async (batch) => {
      if (batch.id === 'b') throw new Error('killed');
      return write(batch);
    });
    await killed.consume({ queue: 'weir-records', messages: messages.slice(0, 2) });
    await consume({ queue: 'weir-records', messages });
    expect(await totals()).toMatchObject({ denied: 15 });
  });

  it('returns failed batches to the queue with growing delays, up to an hour', async () => {
    const { consume, messageOf, done, errors } = open(() => Promise.reject(new Error('Postgres is gone')));
    const messages = [1, 2, 5, 50].map((attempts) => messageOf(batchOf('a'), attempts));
    await consume({ queue: 'weir-records', messages });
    expect(done.slice(0, 4)).toEqual(['retry in 10', 'retry in 20', 'retry in 160', 'retry in 3600']);
    expect(errors).toHaveLength(4);
  });

  it('counts a batch of the dead-letter queue once, and writes it', async () => {
    const { consume, messageOf, done } = open();
    await consume({
      queue: 'weir-records-dead',
      messages: [messageOf(batchOf('a')), messageOf(batchOf('b'), 2)],
    });
    expect(done).toEqual(['ack', 'ack', 'flushed']);
    expect(Object.fromEntries(sums.take(10))).toMatchObject({ deadLetters: 1, denialsWritten: 10 });
  });

  it('drops a message that is not a batch, and reports it', async () => {
    const { consume, messageOf, done, errors } = open();
    await consume({ queue: 'weir-records', messages: ['x', null, { id: 1 }].map((body) => messageOf(body)) });
    expect(done).toEqual(['ack', 'ack', 'ack', 'flushed']);
    expect(errors).toHaveLength(3);
  });
});

describe('old records', () => {
  it('are deleted after their days, in pieces, and newer ones stay', async () => {
    await sql.query(`
      insert into denials (at, scope, rule_id, rule_name, subject, tenant_id, user_id, api_key_id, count)
      select timestamptz '2030-01-31T12:00Z' - interval '30 days' + make_interval(secs => n), 'ip', 'r', 'r', n::text, '', '', '', 1
      from generate_series(-6000, 5) n`);
    await sql.query(`insert into events values ('2029-12-01Z', 'ip', 'r', 'r', 's', 1)`);
    await sql.query(
      `insert into usage values ('2029-01-01Z', 't', 'u', 'k', 'r', 1, 1), ('2030-01-30Z', 't', 'u', 'k', 'r', 1, 1)`,
    );
    await sql.query(
      `insert into record_batches values ('old', '2030-01-16T11:59Z'), ('new', '2030-01-16T12:01Z')`,
    );
    await sql.query(`
      insert into alerts (rule_id, window_seconds, window_start, scope, subject, percent, rule_name, "limit", used, at)
      select 'r', 60, at, 'ip', 's', 80, 'r', 10, 8, at
      from unnest(array['2030-01-01T11:59Z', '2030-01-01T12:01Z']::timestamptz[]) at`);
    await sql.query(
      `insert into metric_sums values ('old', 1, '2029-12-27T11:59Z'), ('new', 1, '2029-12-27T12:01Z')`,
    );
    await sql.query(
      `insert into isolate_reports values ('old', '2030-01-30T11:59Z', '{}'), ('new', '2030-01-30T12:01Z', '{}')`,
    );
    await sql.query(`
      insert into denied_requests
      select id, at, 429, 'rate-limited', 'GET', 'default', 'us', '', '', '', '[]'
      from (values ('old', timestamptz '2030-01-30T11:59Z'), ('new', '2030-01-30T12:01Z')) as two (id, at)`);
    const nowMs = Date.UTC(2030, 0, 31, 12);
    const deleted = await deleteOld(db.database, { eventsDays: 30, usageDays: 365, nowMs });
    expect(deleted).toEqual({
      ...{ denials: 6_000, events: 1, denied_requests: 1, usage: 1, alerts: 1, record_batches: 1 },
      ...{ metric_sums: 1, isolate_reports: 1 },
    });
    expect((await totals()).rows).toBe(6);
  });
});
