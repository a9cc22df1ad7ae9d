// Metrics in a real Postgres: added once, however often a batch is delivered, and never decreasing.
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { IsolateReport } from '../../src/core/ports/region.ts';
import { createMetricSums } from '../../src/core/telemetry/metrics.ts';
import type { RecordBatch } from '../../src/telemetry/flush.ts';
import { readStoredMetrics, storeBatch } from '../../src/telemetry/store.ts';
import { startDatabase, type TestDatabase } from '../rules/database.ts';

const NOW_MS = Date.UTC(2030, 0, 1);
const reportAt = (atMs: number): IsolateReport => ({ atMs, breakers: { us: 'open' }, rulesAgeMs: 3 });

let db: TestDatabase;
beforeAll(async () => {
  db = await startDatabase();
});
afterAll(() => db[Symbol.asyncDispose]());

const keep = (id: string, metrics: NonNullable<RecordBatch['metrics']>) =>
  storeBatch(
    {
      database: db.database,
      webhook: undefined,
      now: () => NOW_MS,
      sums: createMetricSums(),
      onError: () => {},
    },
    { id, cutAtMs: NOW_MS, denials: [], usage: [], metrics },
  );

it('a batch of metrics counts no metrics itself, because these would be the next batch', async () => {
  const sums = createMetricSums();
  const options = { database: db.database, webhook: undefined, now: () => NOW_MS, sums, onError: () => {} };
  const metrics = { isolateId: 'one', sums: [['billedCommands\teu', 1] as const], report: reportAt(NOW_MS) };
  expect(await storeBatch(options, { id: 'm', cutAtMs: 0, denials: [], usage: [], metrics })).toBe(true);
  expect(sums.size).toBe(0);
  await db.database.execute('delete from weir.metric_sums');
});

it('sums of several isolates add up, each batch once, and each isolate has its newest report', async () => {
  const series = 'fallback\topen\ttimeout';
  const one = { isolateId: 'one', sums: [[series, 5] as const], report: reportAt(NOW_MS) };
  const two = {
    isolateId: 'two',
    sums: [[series, 2] as const, ['billedCommands\tus', 9] as const],
    report: reportAt(NOW_MS),
  };
  const fresh = await Promise.all([keep('a', one), keep('a', one), keep('b', two), keep('b', two)]);
  expect(fresh.filter(Boolean)).toHaveLength(2);
  await keep('c', { ...one, sums: [[series, 10]], report: reportAt(NOW_MS - 1) });
  const { sums, reports } = await readStoredMetrics(db.database);
  expect(Object.fromEntries(sums)).toEqual({ [series]: 17, 'billedCommands\tus': 9 });
  expect(Object.fromEntries(reports)).toEqual({ one: reportAt(NOW_MS), two: reportAt(NOW_MS) });
});
