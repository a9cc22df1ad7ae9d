// What the cron run does besides publishing: it pushes metrics to a collector, deletes old rows, and sends thresholds.
import { createServer, type RequestListener } from 'node:http';
import { json } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import { close, LOOPBACK, listen } from '../../local/ports.ts';
import { createClient } from '../../src/redis/client.ts';
import { createMetricsStores } from '../../src/redis/metrics-store.ts';
import { OtlpError, pushOtlp, type toOtlp } from '../../src/telemetry/exports.ts';
import { readFleet } from '../../src/telemetry/fleet.ts';
import { deleteOld } from '../../src/telemetry/store.ts';
import { type CronTelemetry, runCron } from '../../src/wiring/cron.ts';
import { usePublishing } from '../rules/publish-harness.ts';

const { before, createOptions, errors, regions, run, publishNow, addRule } = usePublishing();

const MINUTE_MS = 60_000;
const NOON = Date.parse('2026-11-17T12:00:00Z');

/** The collector listens while `during` runs. */
async function withCollector(listener: RequestListener, during: (url: string) => Promise<void>) {
  const server = createServer(listener);
  const port = await listen(server, 0, 'a collector of OTLP');
  try {
    await during(`http://${LOOPBACK}:${port}/v1/metrics`);
  } finally {
    await close(server);
  }
}

const telemetryOf = (changes: Partial<CronTelemetry>): CronTelemetry => ({
  deleteOld: async () => {},
  pushMetrics: undefined,
  onError: (error) => void errors.push(error),
  ...changes,
});
const runAt = (minute: number, changes: Partial<CronTelemetry>, databaseCheckMinutes = 1) =>
  runCron(
    { publishing: createOptions(), databaseCheckMinutes, telemetry: telemetryOf(changes) },
    NOON + minute * MINUTE_MS,
  );

interface Posted {
  readonly method: string | undefined;
  readonly url: string | undefined;
  readonly type: string | undefined;
  readonly body: ReturnType<typeof toOtlp>;
}

describe('metrics', () => {
  const stores = () =>
    createMetricsStores(
      regions().map(({ name, gateway }) => ({
        name,
        client: createClient({ url: gateway.url, token: 'token' }),
      })),
    );
  const pushTo = (url: string) => async () =>
    pushOtlp(
      url,
      await readFleet(stores(), { nowMs: NOON, deadlineMs: 250, signal: AbortSignal.timeout(30_000) }),
      NOON,
    );

  it('of all regions are posted to the collector as OTLP, by every run', async () => {
    for (const metrics of stores().values())
      await metrics.flush(
        {
          isolateId: 'isolate',
          number: 1,
          sums: [['requests\tus\tdefault\tadmitted', 5]],
          report: { atMs: NOON, breakers: {}, rulesAgeMs: 0 },
        },
        AbortSignal.timeout(30_000),
      );
    const posted: Posted[] = [];
    const take: RequestListener = async (request, response) => {
      const { method, url, headers } = request;
      const body = (await json(request)) as ReturnType<typeof toOtlp>;
      posted.push({ method, url, type: headers['content-type'], body });
      response.end('{}');
    };
    await withCollector(take, async (url) => {
      await runAt(0, { pushMetrics: pushTo(url) });
      await runAt(1, { pushMetrics: pushTo(url) });
    });
    expect(errors).toEqual([]);
    expect(posted).toHaveLength(2);
    expect(posted[0]).toMatchObject({ method: 'POST', url: '/v1/metrics', type: 'application/json' });
    const points = ['eu', 'us'].map((store) => ({
      attributes: expect.arrayContaining([{ key: 'store', value: { stringValue: store } }]),
      timeUnixNano: `${NOON}000000`,
      asDouble: 5,
    }));
    const { scopeMetrics } = posted[0]?.body.resourceMetrics[0] ?? expect.fail('nothing was posted');
    const metric = scopeMetrics[0]?.metrics.find(({ name }) => name === 'weir.requests');
    expect(metric).toMatchObject({ sum: { isMonotonic: true, dataPoints: points } });
  });

  it('that the collector refuses are reported as an error, and the rest of the run goes on', async () => {
    let deleted = 0;
    const refuse: RequestListener = (_, response) => void response.writeHead(503).end('busy');
    await withCollector(refuse, async (url) => {
      await runAt(0, {
        pushMetrics: pushTo(url),
        deleteOld: async () => {
          deleted += 1;
        },
      });
    });
    expect(errors).toEqual([new OtlpError('OTLP_URL answered 503')]);
    expect(deleted).toBe(1);
  });
});

describe('a cron run', () => {
  it('deletes old rows once an hour', async () => {
    await run(`insert into denials (at, scope, rule_id, rule_name, subject, tenant_id, user_id, api_key_id, count)
      values ('2026-10-18T11:59Z', 'ip', 'r', 'r', 'old', '', '', '', 1), ('2026-10-18T12:01Z', 'ip', 'r', 'r', 'new', '', '', '', 1)`);
    const { database } = createOptions();
    const changes = { deleteOld: () => deleteOld(database, { eventsDays: 30, usageDays: 400, nowMs: NOON }) };
    const subjects = async () => (await run('select subject from denials order by 1')).rows;
    for (let minute = 1; minute < 60; minute += 1) await runAt(minute, changes, 60);
    expect(await subjects()).toHaveLength(2);
    await runAt(60, changes, 60);
    expect(await subjects()).toEqual([{ subject: 'new' }]);
  });

  it('looks for alerts only when it also asks Postgres for changes', async () => {
    const looked: number[] = [];
    for (let minute = 0; minute < 20; minute += 1)
      await runAt(minute, { sendAlerts: async () => looked.push(minute) }, 10);
    expect(looked).toEqual([0, 10]);
  });

  it('that cannot publish does everything else, and still fails', async () => {
    await addRule('a');
    await publishNow();
    const done: string[] = [];
    before.step = async (step) => {
      if (step === 'postgres') throw new Error('Postgres is gone');
    };
    const changes = {
      pushMetrics: async () => void done.push('pushed'),
      sendAlerts: async () => done.push('told'),
      deleteOld: async () => done.push('deleted'),
    };
    await expect(runAt(0, changes)).rejects.toThrow();
    expect(done).toEqual(['pushed', 'told', 'deleted']);
  });
});
