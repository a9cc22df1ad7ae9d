import { cp, mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { close, freePort, listen } from '../../local/ports.ts';
import { getAs } from '../shared/get-as.ts';
import { createSharedParts } from '../shared/parts.ts';
import { type DevProcess, readGuide, runDemo, runDev } from './dev-process.ts';
import { sendUnreadBodies } from './unread-bodies.ts';

/** The length of a fixed window, of an hour or two, that has more than half of its time before it. */
function windowThatHasJustBegun(nowSeconds: number): number {
  let seconds = 3_600;
  while (nowSeconds % seconds > seconds / 2) seconds += 1;
  return seconds;
}

/** On a busy machine, starting Postgres alone takes long. */
const SLOW_START = { timeout: 200_000 };

let dataDir: string;
beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'weir-dev-'));
});
afterAll(() => rm(dataDir, { recursive: true, force: true }));

async function redisInfo(port: number): Promise<{ pid: number }> {
  const redis = new Redis(port);
  // Redis may be down for a moment. ioredis then connects again.
  redis.on('error', () => {});
  const info = await redis.info('server');
  redis.disconnect();
  return { pid: Number(/process_id:(\d+)/.exec(info)?.[1]) };
}

async function query(databaseUrl: string, sql: string): Promise<unknown[]> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
}

const limitOfLogin = (databaseUrl: string) =>
  query(databaseUrl, `select "limit"::int from weir.rules where resource = '/login'`);

const rulesOf = (databaseUrl: string) => query(databaseUrl, 'select count(*)::int as count from weir.rules');

const publicationsOf = (databaseUrl: string) =>
  query(databaseUrl, 'select count(*)::int as count from weir.last_publication');

const isAlive = (pid: number) => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

describe('npm run dev', () => {
  let dev: DevProcess;
  let guide: ReturnType<typeof readGuide>;
  const windowSeconds = windowThatHasJustBegun(Date.now() / 1000);
  const call = (path: string, ip: string) =>
    fetch(`${guide.workerUrl}${path}`, { headers: { 'CF-Connecting-IP': ip } });

  beforeAll(async () => {
    // The database has no table yet. Only the test of --fresh starts without a database.
    const made = await createSharedParts(inject('sharedParts')).pgliteFolder();
    await cp(made, join(dataDir, 'postgres'), { recursive: true });
    dev = runDev({ WEIR_DATA_DIR: dataDir, DEADLINE_MS: '6000' });
    guide = readGuide(await dev.guide);
    await query(guide.databaseUrl, `update weir.rules set window_seconds = ${windowSeconds}`);
    await fetch(`${guide.workerUrl}/_weir/admin/publish`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${guide.adminToken}` },
    });
  });

  afterAll(() => dev.child.kill('SIGINT') && dev.ended);

  it('serves the rules that were published, without a restart', async () => {
    const reset = async () => Number((await call('/warm-up', '192.0.2.1')).headers.get('X-RateLimit-Reset'));
    const isPublished = async () => (await reset()) > 0 && (await reset()) % windowSeconds === 0;
    await expect.poll(isPublished).toBe(true);
  });

  it('admits exactly the limit of 200 requests', async () => {
    const statuses: number[] = [];
    while (statuses.length < 200) {
      const answers = await Promise.all(Array.from({ length: 10 }, () => call('/hello', '192.0.2.2')));
      expect(answers.map(({ headers }) => headers.get('X-Weir-Degraded'))).toEqual(Array(10).fill(null));
      statuses.push(...answers.map(({ status }) => status));
    }
    expect(statuses.filter((status) => status === 200)).toHaveLength(100);
    expect(statuses.filter((status) => status === 429)).toHaveLength(100);
  });

  it('answers in time while the nearest Redis is frozen, and as usual when it thaws', async () => {
    const seen = async (ip: string) => {
      const { status, headers } = await call('/login', ip);
      return [status, headers.get('X-Weir-Degraded'), headers.get('X-Weir-Fallback')];
    };
    for (let i = 0; i < 5; i += 1) expect(await seen('192.0.2.3')).toEqual([200, null, null]);
    expect(await seen('192.0.2.3')).toEqual([429, null, null]);
    const { pid } = await redisInfo(guide.redisPorts[0] ?? 0);
    process.kill(pid, 'SIGSTOP');
    try {
      expect(await seen('192.0.2.4')).toEqual([200, 'timeout', 'next-region']);
      // The isolate still denies a caller whom it knows to be over the limit.
      expect((await seen('192.0.2.3'))[0]).toBe(429);
    } finally {
      process.kill(pid, 'SIGCONT');
    }
    await expect.poll(() => seen('192.0.2.4')).toEqual([200, null, null]);
  });

  it('proxies to three kinds of origin: a URL, another Worker, and the origin of the zone', async () => {
    const json = async (url: string, headers: Record<string, string> = {}) =>
      JSON.parse((await getAs(url, { 'CF-Connecting-IP': '192.0.2.5', ...headers })).body) as Record<
        string,
        string
      >;
    const originHost = new URL(guide.originUrl).host;
    expect(await json(`${guide.workerUrl}/a?b`)).toMatchObject({ path: '/a?b' });
    expect(await json(`${guide.workerUrl}/worker/a?b`)).toMatchObject({
      origin: 'the demo Worker',
      url: `${guide.workerUrl}/a?b`,
    });
    expect(await json(`${guide.workerUrl}/zone/a?b`, { Host: originHost })).toMatchObject({
      path: '/zone/a?b',
    });
    // The zone of this host is the Worker itself.
    expect(await json(`${guide.workerUrl}/zone/a`)).toMatchObject({ code: 'loop-detected' });
  });

  it('has the page: its form, its script, and a view for the admin token', async () => {
    const page = `${guide.workerUrl}/_weir`;
    expect((await getAs(`${page}/`, {})).body).toContain('Admin token');
    expect((await getAs(`${page}/page/app.js`, {})).body).toContain('/_weir/admin');
    const form = {
      method: 'POST',
      redirect: 'manual',
      headers: { 'Sec-Fetch-Site': 'same-origin' },
    } as const;
    const loggedIn = await fetch(`${page}/login`, {
      ...form,
      body: new URLSearchParams({ token: guide.adminToken }),
    });
    const [cookie = ''] = loggedIn.headers.getSetCookie();
    const inside = await getAs(`${page}/`, { Cookie: cookie.split(';')[0] ?? '' });
    expect(inside.body).toContain('data-role="admin"');
    // The Worker answers everything except the files of the page.
    expect((await getAs(`${page}/page/other.js`, {})).status).toBe(404);
    expect((await getAs(`${page}/pages`, {})).body).toContain('not-found');
  });

  it('answers each request whose body nobody reads, and the next one on the same connection', async () => {
    for (let i = 0; i < 5; i += 1) await call('/login', '192.0.2.6');
    const asAdmin = { Authorization: `Bearer ${guide.adminToken}` };
    const { seen, expected } = await sendUnreadBodies(guide.workerUrl, [
      { path: '/login', status: 429, headers: { 'CF-Connecting-IP': '192.0.2.6' } },
      { path: '/_weir/admin/nothing', status: 404, headers: asAdmin },
      { path: '/_weir/admin/export', status: 405, headers: asAdmin },
      { path: '/_weir/admin/publish', status: 413, headers: asAdmin, bytes: [3_000_000] },
      { path: '/_weir/admin/rules', status: 401, headers: { 'CF-Connecting-IP': '192.0.2.7' } },
    ]);
    expect(seen).toEqual(expected);
  });

  it('gets lively traffic from npm run demo, which ends when its time is over', async () => {
    const port = new URL(guide.workerUrl).port;
    const { code, output } = await runDemo({ PORT: port }, '--minutes', '0.05');
    expect(output).toMatch(/weir: .*200: \d+/);
    expect(code).toBe(0);
  });

  it('says that a Redis has ended, and starts it again', async () => {
    const port = guide.redisPorts[2] ?? 0;
    const { pid } = await redisInfo(port);
    process.kill(pid, 'SIGKILL');
    await expect.poll(dev.output).toContain('weir: Redis ap has ended: starting it again, empty');
    const revived = () =>
      redisInfo(port).then(
        (info) => info.pid,
        () => pid,
      );
    await expect.poll(revived).not.toBe(pid);
  });

  it('leaves nothing running after Ctrl-C', async () => {
    const pids = await Promise.all(guide.redisPorts.map(async (port) => (await redisInfo(port)).pid));
    expect(pids).toHaveLength(3);
    await query(guide.databaseUrl, `update weir.rules set "limit" = 7 where resource = '/login'`);
    dev.child.kill('SIGINT');
    expect((await dev.ended).code).toBe(0);
    expect(pids.filter(isAlive)).toEqual([]);
    await expect(fetch(guide.workerUrl)).rejects.toThrow();
  });

  it('keeps the data for the next start, and leaves nothing running even after SIGKILL', async () => {
    const killed = runDev({ WEIR_DATA_DIR: dataDir });
    const { databaseUrl, workerUrl, redisPorts, adminToken } = readGuide(await killed.guide);
    expect(adminToken).toBe(guide.adminToken);
    expect(await limitOfLogin(databaseUrl)).toEqual([{ limit: 7 }]);
    await expectInUse(databaseUrl);
    const { pid } = await redisInfo(redisPorts[0] ?? 0);
    killed.child.kill('SIGKILL');
    await expect.poll(() => isAlive(pid)).toBe(false);
    const isUp = () =>
      fetch(workerUrl).then(
        () => true,
        () => false,
      );
    await expect.poll(isUp).toBe(false);
  });

  it('stops cleanly when interrupted while it is still starting', async () => {
    const starting = runDev({ WEIR_DATA_DIR: dataDir });
    await expect.poll(starting.output, SLOW_START).toContain('starting Postgres');
    starting.child.kill('SIGINT');
    const { code, output } = await starting.ended;
    expect([code, output]).toEqual([0, expect.not.stringContaining('Error')]);
  });

  /** Starts Weir in front of the user's own API. Once the Worker is starting, reads the rules from the database. */
  async function startedWith(...args: string[]) {
    const POSTGRES_PORT = String(await freePort());
    const databaseUrl = `postgres://postgres@127.0.0.1:${POSTGRES_PORT}/postgres`;
    const own = { WEIR_DATA_DIR: dataDir, POSTGRES_PORT, ORIGIN_URL: 'https://api.example.com' };
    const started = runDev(own, ...args);
    await expect.poll(started.output, SLOW_START).toContain('starting the Worker');
    const rules = await rulesOf(databaseUrl);
    const login = await limitOfLogin(databaseUrl);
    const publications = await publicationsOf(databaseUrl);
    started.child.kill('SIGTERM');
    const { code, output } = await started.ended;
    // The Worker is still starting, and all processes must stop all the same.
    expect([code, output]).toEqual([0, expect.not.stringContaining('Error')]);
    return { rules, login, publications };
  }

  it('starts empty with --fresh, and without demo rules in front of your own API', async () => {
    // The rules are published before the Worker answers, so no request can pass without them.
    const expected = { rules: [{ count: 1 }], login: [], publications: [{ count: 1 }] };
    expect(await startedWith('--fresh')).toEqual(expected);
  });

  it('has the demo rules in front of your own API with --demo', async () => {
    expect(await startedWith('--demo')).toMatchObject({ rules: [{ count: 5 }], login: [{ limit: 5 }] });
  });
});

/** Each run has a folder of its own, so that no other run empties it. */
async function expectInUse(databaseUrl: string): Promise<void> {
  const before = await rulesOf(databaseUrl);
  const { code, output } = await runDev({ WEIR_DATA_DIR: dataDir }, '--fresh').ended;
  expect(code).toBe(1);
  expect(output.trim().split('\n').at(-1)).toMatch(/^weir: .*WEIR_DATA_DIR|^weir: .*in use/);
  expect([await rulesOf(databaseUrl), await limitOfLogin(databaseUrl)]).toEqual([before, [{ limit: 7 }]]);
}

describe('npm run dev says in one line what is wrong:', () => {
  it.each([
    [{ PORT: 'abc' }, [], /^weir: PORT must be a port number from 0 to 65532 \(0 = any free one\)\n$/],
    [{ ORIGIN_URL: 'example.com' }, [], /^weir: ORIGIN_URL must be an http or https URL\n$/],
    [{ ADMIN_TOKEN: 'short' }, [], /^weir: ADMIN_TOKEN must have at least 16 characters\n$/],
    [
      { DATABASE_URL: 'postgres://u:secret@127.0.0.1:1/x' },
      [],
      /\nweir: cannot use Postgres at 127\.0\.0\.1:1\/x: .*\n$/,
    ],
    [{ WEIR_DATA_DIR: '/dev/null/x' }, [], /^weir: WEIR_DATA_DIR cannot be used: .*\n$/],
    [{ PORT: '28790', UPSTASH_PORT: '28789' }, [], /^weir: UPSTASH_PORT and PORT both want port 28790\n$/],
    [{ GOPHER_LUA_SRC: '/dev/null' }, ['--upstash-lua'], /^weir: GOPHER_LUA_SRC is not the source of .*\n$/],
    [{}, ['--frehs'], /^weir: Unknown option '--frehs'/],
  ])('%o %o', async (env, args, message) => {
    const { code, output } = await runDev({ WEIR_DATA_DIR: dataDir, ...env }, ...args).ended;
    expect(code).toBe(1);
    expect(output).toMatch(message);
  });

  it.each(['PORT', 'ORIGIN_PORT', 'UPSTASH_PORT', 'NEON_PORT', 'REDIS_PORT', 'POSTGRES_PORT'])(
    'a %s that is taken',
    async (variable) => {
      const other = createServer();
      const port = await listen(other, 0, 'a port for the test');
      const { code, output } = await runDev({ WEIR_DATA_DIR: dataDir, [variable]: String(port) }).ended;
      await close(other);
      expect(code).toBe(1);
      expect(output).toBe(`weir: port ${port} (set ${variable} to use another) is taken\n`);
    },
  );
});

describe('npm run demo', () => {
  it('says what to start if no Weir is running', async () => {
    const { code, output } = await runDemo({ PORT: String(await freePort()) });
    expect(output).toContain('start `npm run dev` first, or name its PORT');
    expect(code).toBe(1);
  });

  it('names a wrong option', async () => {
    const { output } = await runDemo({}, '--per-second', '9999');
    expect(output).toContain('--per-second must be a number above 0, at most 200');
  });
});
