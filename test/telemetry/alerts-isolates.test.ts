// Thresholds from end to end: isolates in workerd, with and without a queue, Postgres, and a webhook.
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freshIp, type Weir } from '../../local/weir.ts';
import { startWeir } from '../shared/weir.ts';
import { type Receiver, startReceiver } from './webhook-receiver.ts';

describe.each([
  ['through a queue', 'weir-records'],
  ['without a queue', undefined],
])('%s', (_, queue) => {
  const cleanup = new AsyncDisposableStack();
  let weir: Weir;
  let receiver: Receiver;
  let sql: pg.Client;
  beforeAll(async () => {
    receiver = cleanup.use(await startReceiver());
    const { url, secret } = receiver.webhook;
    const variables = { TELEMETRY_SECONDS: '0.1', ALERT_WEBHOOK: url, ALERT_WEBHOOK_SECRET: secret };
    weir = cleanup.use(await startWeir(variables, queue === undefined ? {} : { queue }));
    sql = new pg.Client({ connectionString: weir.stack.databaseUrl });
    await sql.connect();
    cleanup.defer(() => sql.end());
    const rule = { name: 'ten', resource: '/ten', scope: 'ip', algorithm: 'fixed-window', central: true };
    const body = { ...rule, limit: 10, windowSeconds: 86_400, alertAt: [80, 100] };
    await weir.admin('/rules', { method: 'POST', body });
  });
  afterAll(() => cleanup.disposeAsync());

  const denied = async (ip: string) =>
    Number(
      (await sql.query('select sum(count) as count from weir.denials where subject = $1', [ip])).rows[0]
        .count,
    );
  const rows = async (ip: string) => {
    const { rows } = await sql.query(
      'select percent, used::int, attempts, sent_at is not null as sent from weir.alerts where subject = $1 order by 1',
      [ip],
    );
    return rows;
  };

  it('two isolates that notice the same threshold cause one message', async () => {
    const ip = freshIp();
    for (let i = 0; i < 14; i += 1)
      await (await weir.call('/ten', { ip, isolate: i % 2 === 0 ? 'one' : 'two' })).body?.cancel();
    // Both isolates have denied, and what both noticed is stored.
    await expect.poll(() => denied(ip)).toBe(4);
    const expected = [
      { percent: 80, used: expect.any(Number), attempts: 1, sent: true },
      { percent: 100, used: 10, attempts: 1, sent: true },
    ];
    await expect.poll(() => rows(ip)).toEqual(expected);
    const told = receiver.received.filter(({ body }) => body.data['subject'] === ip);
    expect(told.every(({ isSigned }) => isSigned)).toBe(true);
    expect(told.map(({ body }) => body.data['percent']).sort()).toEqual([100, 80]);
  });
});
