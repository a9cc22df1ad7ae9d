// Thresholds from Postgres to a webhook: each once, and again if the webhook does not accept it.
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createMetricSums } from '../../src/core/telemetry/metrics.ts';
import type { Crossing } from '../../src/core/telemetry/records.ts';
import { sendAlerts } from '../../src/telemetry/alerts.ts';
import type { RecordBatch } from '../../src/telemetry/flush.ts';
import { storeBatch } from '../../src/telemetry/store.ts';
import { startDatabase, type TestDatabase } from '../rules/database.ts';
import { type Receiver, startReceiver } from './webhook-receiver.ts';

let db: TestDatabase;
let sql: pg.Client;
let receiver: Receiver;
beforeAll(async () => {
  [db, receiver] = await Promise.all([startDatabase(), startReceiver()]);
  sql = new pg.Client({ connectionString: db.url });
  await sql.connect();
});
afterAll(async () => {
  await sql.end();
  await Promise.all([db[Symbol.asyncDispose](), receiver[Symbol.asyncDispose]()]);
});
beforeEach(async () => {
  await sql.query('delete from alerts; delete from record_batches');
  receiver.received.length = 0;
  receiver.answers.status = 204;
  sums = createMetricSums();
});

const WINDOW_START_MS = Date.UTC(2030, 0, 1, 12);
const crossingOf = (subject: string, changes: Partial<Crossing> = {}): Crossing => ({
  ruleId: 'r',
  ruleName: 'search',
  scope: 'ip',
  subject,
  percent: 80,
  windowStartMs: WINDOW_START_MS,
  windowSeconds: 3_600,
  limit: 10,
  used: 8,
  atMs: Date.now(),
  ...changes,
});

const errors: unknown[] = [];
const now = () => Date.now();
let sums = createMetricSums();
const counted = () =>
  Object.fromEntries(sums.take(100).filter(([series]) => series.startsWith('webhookMessages')));
const send = () => sendAlerts({ database: db.database, webhook: receiver.webhook, now, sums });
let lastId = 0;
const DENIAL: RecordBatch['denials'][number] = {
  atMs: WINDOW_START_MS,
  scope: 'ip',
  ruleId: 'r',
  ruleName: 'search',
  subject: 'a',
  ...{ tenantId: '', userId: '', apiKeyId: '' },
  count: 3,
};
const keep = (
  crossings: readonly Crossing[],
  { isTold = true, denials = [] }: { isTold?: boolean; denials?: RecordBatch['denials'] } = {},
) => {
  lastId += 1;
  const batch = { id: `batch ${lastId}`, cutAtMs: 0, denials, usage: [], crossings };
  const webhook = isTold ? receiver.webhook : undefined;
  const onError = (error: unknown) => void errors.push(error);
  return storeBatch({ database: db.database, webhook, now, sums, onError }, batch);
};
const attempts = async () => (await sql.query('select attempts from alerts')).rows.map((row) => row.attempts);
const passSeconds = (seconds: number) =>
  sql.query(`update alerts set next_at = next_at - make_interval(secs => ${seconds})`);

describe('the webhook', () => {
  it('gets a signed message with the rule, the subject and the used part of the limit', async () => {
    const atMs = Date.now();
    await keep([crossingOf('10.0.0.1', { atMs })]);
    expect(receiver.received).toEqual([
      {
        id: expect.stringMatching(/^msg_[0-9a-f-]{36}$/),
        isSigned: true,
        body: {
          type: 'limit.threshold-reached',
          timestamp: new Date(atMs).toISOString(),
          data: {
            rule: { id: 'r', name: 'search' },
            ...{ scope: 'ip', subject: '10.0.0.1', percent: 80, limit: 10, used: 8 },
            ...{ windowSeconds: 3_600, windowStart: '2030-01-01T12:00:00.000Z' },
          },
        },
      },
    ]);
  });

  it('gets one message even if several isolates notice the same threshold at the same time', async () => {
    await Promise.all([keep([crossingOf('a')]), keep([crossingOf('a')]), keep([crossingOf('a')])]);
    await send();
    expect(receiver.received).toHaveLength(1);
    expect(counted()).toEqual({ 'webhookMessages\tdue': 1, 'webhookMessages\tsent': 1 });
  });

  it('gets one message for each threshold, window and subject', async () => {
    await keep([crossingOf('a'), crossingOf('a', { percent: 100 }), crossingOf('b')]);
    await keep([crossingOf('a', { windowStartMs: WINDOW_START_MS + 3_600_000 })]);
    expect(receiver.received).toHaveLength(4);
  });

  it('gets each of many messages once, even if several isolates send', async () => {
    await keep(
      Array.from({ length: 50 }, (_, i) => crossingOf(`${i}`)),
      { isTold: false },
    );
    expect(receiver.received).toEqual([]);
    const sent = await Promise.all([send(), send(), send()]);
    expect(sent.reduce((sum, count) => sum + count)).toBe(50);
    expect(new Set(receiver.received.map(({ id }) => id)).size).toBe(50);
    expect(receiver.received).toHaveLength(50);
  });
});

describe('a message that the webhook does not accept', () => {
  it.each([500, 302, 410])(
    '(%i) leaves its batch written, and is sent again under its id',
    async (status) => {
      errors.length = 0;
      receiver.answers.status = status;
      await sql.query('delete from denials');
      expect(await keep([crossingOf('a')], { denials: [DENIAL] })).toBe(true);
      expect((await sql.query('select subject, count::int from denials')).rows).toEqual([
        { subject: 'a', count: 3 },
      ]);
      expect(errors).toMatchObject([{ name: 'WebhookError', message: `ALERT_WEBHOOK answered ${status}` }]);
      receiver.answers.status = 204;
      expect(await send()).toBe(0);
      await passSeconds(60);
      expect(await send()).toBe(1);
      const [first, second] = receiver.received;
      expect(second?.id).toBe(first?.id);
      await passSeconds(6_000);
      expect(await send()).toBe(0);
    },
  );

  it('is sent again after longer and longer pauses, up to an hour', async () => {
    receiver.answers.status = 503;
    await keep([crossingOf('a')]);
    for (const minutes of [1, 2, 4, 8, 16, 32, 60, 60]) {
      const before = receiver.received.length;
      await passSeconds(minutes * 60 - 30);
      expect(await send()).toBe(0);
      expect(receiver.received).toHaveLength(before);
      await passSeconds(30);
      await expect(send()).rejects.toThrow('ALERT_WEBHOOK answered 503');
      expect(receiver.received).toHaveLength(before + 1);
    }
  });

  it('stops further attempts: six requests, not fifty', async () => {
    receiver.answers.status = 503;
    await keep(Array.from({ length: 50 }, (_, i) => crossingOf(`${i}`)));
    expect(receiver.received).toHaveLength(6);
    expect((await attempts()).filter((count) => count === 0)).toHaveLength(44);
    expect(counted()).toEqual({ 'webhookMessages\tdue': 50, 'webhookMessages\tfailed': 6 });
  });

  it('is no longer sent after a day', async () => {
    const dayAgoMs = Date.now() - 86_400_000;
    await keep([
      crossingOf('old', { atMs: dayAgoMs - 60_000 }),
      crossingOf('new', { atMs: dayAgoMs + 60_000 }),
    ]);
    expect(receiver.received.map(({ body }) => body.data['subject'])).toEqual(['new']);
  });
});
