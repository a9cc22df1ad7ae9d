import { createExecutionContext, createScheduledController, waitOnExecutionContext } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Bindings } from '../../src/config/variables.ts';
import { parseAnnouncement } from '../../src/core/ports/region.ts';
import worker from '../../src/worker.ts';
import { admin, call, kv, sql, withFault } from './worker.ts';

const publish = (headers: Record<string, string> = admin) =>
  call('/_weir/admin/publish', { method: 'POST', headers });
const health = async (headers: Record<string, string> = admin) => {
  const answer = await call('/_weir/health', { region: 'eu', headers });
  return (await answer.json()) as object;
};

beforeEach(async () => {
  await sql('delete from weir.rules');
  await sql(`insert into weir.rules (name, resource, scope, algorithm, "limit", window_seconds)
    values ('one', '/*', 'ip', 'fixed-window', 5, 60)`);
});

describe('the admin route', () => {
  it.each([
    {},
    { Authorization: 'Bearer wrong' },
    { Authorization: 'Bearer ' },
    { Authorization: 'Basic x' },
  ])('is closed to %o, on every path', async (headers) => {
    for (const path of ['/_weir/admin/publish', '/_weir/admin/nothing', '/_weir/admin']) {
      const answer = await call(path, { method: 'POST', headers });
      expect(answer.status).toBe(401);
      expect(await answer.json()).toMatchObject({ code: 'unauthorized' });
    }
  });

  it('publishes the rules in Postgres, and says if nothing has changed', async () => {
    const first = await publish();
    expect(await first.json()).toMatchObject({ ruleCount: 1, rejected: [] });
    expect(await (await publish()).json()).toMatchObject({ changed: false });
    await sql(`update weir.rules set "limit" = 6`);
    expect(await (await publish()).json()).toMatchObject({ changed: true });
  });

  it('puts a bad row aside and publishes the rest', async () => {
    await sql(`insert into weir.rules (name, resource, scope, algorithm, "limit", window_seconds)
      values ('never matches', '/a%2Fb', 'ip', 'fixed-window', 5, 60)`);
    const body = (await (await publish()).json()) as { rejected: { problems: string[] }[] };
    expect(body).toMatchObject({ ruleCount: 1 });
    expect(body.rejected[0]?.problems[0]).toMatch(/^resource: /);
  });
});

describe('an id in a path', () => {
  it.each(['Alice', 'a;b', 'a/b', 'auth0|X', 'é%2F?#'])('is taken literally: %s', async (id) => {
    const others = ['alice', 'a', 'auth0|x', 'é'];
    await sql('delete from weir.users');
    for (const userId of [id, ...others]) await sql('insert into weir.users (id) values ($1)', [userId]);
    const path = `/_weir/admin/users/${encodeURIComponent(id)}`;
    expect((await call(path, { method: 'DELETE', headers: admin })).status).toBe(204);
    const left = (await sql('select id from weir.users')) as { id: string }[];
    expect(left.map((row) => row.id).sort()).toEqual(others.sort());
  });
});

describe('the cron run', () => {
  it('brings KV in line with Postgres', async () => {
    await sql(`update weir.rules set "limit" = 77`);
    const context = createExecutionContext();
    await worker.scheduled(createScheduledController(), env as unknown as Bindings);
    await waitOnExecutionContext(context);
    const announcement = parseAnnouncement(await kv.get('current'));
    expect(await kv.get(`rules:${announcement?.rules}`, 'json')).toMatchObject({ rules: [{ limit: 77 }] });
  });
});

describe('health', () => {
  it('reports version, region, rules and parts', async () => {
    await publish();
    expect(await health()).toMatchObject({
      version: expect.stringMatching(/^\d+\.\d+\.\d+$/),
      region: 'eu',
      rules: { version: expect.any(String), count: expect.any(Number) },
      parts: { 'redis:us': 'ok', 'redis:eu': 'ok', 'redis:ap': 'ok', postgres: 'ok' },
    });
  });

  it('shows only the status without a token, and nothing with a wrong one', async () => {
    expect(await health({})).toEqual({ status: expect.stringMatching(/^(ok|degraded)$/) });
    expect(await health({ Authorization: 'Bearer a-guess' })).toMatchObject({ code: 'unauthorized' });
  });

  it('answers 200 and names the part that is down', async () => {
    await withFault('ap', { hang: true }, async () => {
      await expect
        .poll(() => health())
        .toMatchObject({
          status: 'degraded',
          parts: { 'redis:ap': 'down', 'redis:us': 'ok' },
        });
      // Also without a token: a load balancer that watches health must not drop the Worker because of one region.
      for (const headers of [admin, {}])
        expect((await call('/_weir/health', { region: 'eu', headers })).status).toBe(200);
    });
  });
});

describe('a region whose server cannot run the script', () => {
  const said = 'ERR Error running script: @user_script:12: attempt to call a nil value';
  const scriptError = `${said}\nstack traceback:\n\t[G]: in function 'call'`;
  let lines: unknown[] = [];
  beforeEach(async () => {
    lines = [];
    vi.spyOn(console, 'warn').mockImplementation((line) => void lines.push(JSON.parse(line)));
    await publish();
  });
  afterEach(() => void vi.restoreAllMocks());

  it('has its own state in health, with the message of the server', async () => {
    await withFault('ap', { scriptError }, async () => {
      await expect.poll(health).toMatchObject({
        status: 'degraded',
        parts: { 'redis:ap': 'script-failed', 'redis:us': 'ok' },
        errors: { 'redis:ap': said },
      });
    });
    await expect.poll(health).toMatchObject({ status: 'ok', errors: {} });
  });

  it('gets no announcement, and the answer and the log say why', async () => {
    await sql(`update weir.rules set "limit" = 8`);
    await withFault('ap', { scriptError }, async () => {
      expect(await (await publish()).json()).toMatchObject({
        changed: true,
        regions: [
          { name: 'us', announced: true },
          { name: 'eu', announced: true },
          { name: 'ap', announced: false, problem: said },
        ],
      });
    });
    expect(lines).toContainEqual({
      event: 'publish-incomplete',
      region: 'ap',
      error: 'CounterStoreError',
      failure: 'script-failed',
      said,
    });
    expect(await (await publish()).json()).toMatchObject({ regions: Array(3).fill({ announced: true }) });
  });

  it('is reported in the log when requests meet it, and its breaker stays closed', async () => {
    await withFault('ap', { scriptError }, async () => {
      const meet = async () => {
        await call('/x', { region: 'ap' });
        return lines;
      };
      const broken = { event: 'script-broken', region: 'ap', said };
      await expect.poll(meet).toContainEqual(broken);
      expect(await health()).toMatchObject({ isolate: { breakers: { ap: 'closed' } } });
    });
  });
});

describe('other paths under /_weir', () => {
  it.each(['/_weir/nothing', '//_weir/health', '/_WEIR/health', '/_weir;x/health', '/%5Fweir/admin/rules'])(
    'are never passed on to the origin, in any spelling: %s',
    async (path) => {
      const answer = await call(path, { headers: admin });
      expect(answer.status).toBe(404);
      expect(await answer.json()).toMatchObject({ code: 'not-found' });
    },
  );
});

describe('a Worker that is not configured', () => {
  it('answers with the names of the missing settings', async () => {
    const answer = await worker.fetch(
      new Request('https://weir.test/') as never,
      { RULES: kv } as never,
      createExecutionContext(),
    );
    expect(answer.status).toBe(500);
    expect(await answer.json()).toMatchObject({
      code: 'bad-config',
      errors: expect.arrayContaining([
        { pointer: 'ORIGIN_URL', detail: 'is missing' },
        { pointer: 'REGIONS', detail: 'is missing' },
      ]),
    });
  });
});
