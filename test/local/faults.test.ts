// Every fault of the catalogue shows at the gateway as its name says, and is gone when it ends.
import { Redis } from '@upstash/redis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { openConnectionPool } from '../../local/connection-pool.ts';
import { healRegion, type RegionFaultName, regionFault, regionFaults } from '../../local/fault-catalogue.ts';
import { type LocalRegion, startRegions } from '../../local/regions.ts';

const SLOW_MS = 80;
/** For calls that never get an answer, and for all others. */
const IMPATIENT_MS = 1_500;
const PATIENT_MS = 60_000;
const SCRIPT = "return redis.call('INCR', KEYS[1])";
const cleanup = new AsyncDisposableStack();
let region: LocalRegion;
let sha: string;
let patienceMs = PATIENT_MS;

beforeAll(async () => {
  const [first] = await startRegions({ redisPort: 0, upstashPort: 0 }, cleanup);
  region = first as LocalRegion;
});
afterAll(() => cleanup.disposeAsync());

const client = () =>
  new Redis({
    url: region.gateway.url,
    token: region.gateway.token,
    retry: { retries: 0 },
    enableTelemetry: false,
    signal: () => AbortSignal.timeout(patienceMs),
  });
beforeEach(async () => {
  await client().set('n', 5);
  sha = await client().scriptLoad(SCRIPT);
});
afterEach(() => {
  patienceMs = PATIENT_MS;
  return healRegion(region);
});

const NO_ANSWER = 'no answer';

/** What `INCR n` gets on a new connection: a status and a body, or why there is none. */
async function answered(): Promise<unknown[]> {
  using pool = openConnectionPool();
  const url = `${region.gateway.url}/incr/n?_token=${region.gateway.token}`;
  return await pool.request(url, { signal: AbortSignal.timeout(patienceMs) }).then(
    ({ status, body }) => [status, body],
    (error: NodeJS.ErrnoException) => [error.name === 'AbortError' ? NO_ANSWER : error.code],
  );
}

const FAULT = 'ERR fault: status';
const OOM = "OOM command not allowed when used memory > 'maxmemory'.";
const READ_ONLY = "READONLY You can't write against a read only replica.";
const json = JSON.stringify;

/** What a caller sees while the fault lasts, what @upstash/redis reports for a script, and the counter afterwards. */
const SEEN: Record<RegionFaultName, [seen: unknown[], client: RegExp | number, after: number | null]> = {
  'redis-killed': [[503, json({ error: 'ERR Redis is not reachable' })], /Redis is not reachable/, null],
  'redis-restarted-empty': [[200, json({ result: 1 })], /NOSCRIPT/, 1],
  'redis-frozen': [[NO_ANSWER], /timeout/, 7],
  slow: [[200, json({ result: 6 })], 7, 7],
  'slow-at-random': [[200, json({ result: 6 })], 7, 7],
  'connection-refused': [['ECONNREFUSED'], /fetch failed/, 5],
  'reset-mid-reply': [['ECONNRESET'], /terminated/, 7],
  'status-401': [[401, json({ error: `${FAULT} 401` })], /status 401/, 5],
  'status-429': [[429, json({ error: `${FAULT} 429` })], /status 429/, 5],
  'status-500': [[500, json({ error: `${FAULT} 500` })], /status 500/, 5],
  garbage: [[200, '<html>not what you asked for</html>'], /Unable to parse response body/, 5],
  'wrong-shape': [[200, json({ outcome: [{ value: true }] })], /is not a function/, 5],
  'scripts-flushed': [[200, json({ result: 6 })], /NOSCRIPT/, 6],
  'out-of-memory': [[400, json({ error: OOM })], /OOM command not allowed/, 5],
  'read-only-replica': [[400, json({ error: READ_ONLY })], /READONLY You can't write/, 5],
  hang: [[NO_ANSWER], /timeout/, 5],
};

/** A result, or the message of the error. */
const byClient = () =>
  client()
    .evalsha<[], unknown>(sha, ['n'], [])
    .catch((error: Error) => error.message);

const faults = regionFaults({ slowMs: SLOW_MS });

test('the table of faults names every fault', () => {
  expect(faults.map(({ name }) => name)).toEqual(Object.keys(SEEN));
});

describe.each(faults)('$name', ({ name, begin, end }) => {
  const [seen, script, after] = SEEN[name];

  test('shows while the fault lasts, and the region is healthy afterwards', async () => {
    await begin(region);
    if (seen[0] === NO_ANSWER) patienceMs = IMPATIENT_MS;
    expect(await answered()).toEqual(seen);
    const said = await byClient();
    patienceMs = PATIENT_MS;
    if (typeof script === 'number') expect(said).toBe(script);
    else expect(said).toMatch(script);
    await end(region);
    expect(await client().get('n')).toBe(after);
    expect(await client().eval(SCRIPT, ['healthy'], [])).toBe(1);
    expect(await client().del('healthy')).toBe(1);
  });

  test('leaves a healthy region if it ends twice, or ends before it began', async () => {
    await end(region);
    await begin(region);
    await end(region);
    await end(region);
    expect(await client().set('n', 1)).toBe('OK');
    expect(await client().eval(SCRIPT, ['n'], [])).toBe(2);
  });
});

describe('beyond the table', () => {
  const fault = (name: RegionFaultName) => regionFault(name, { slowMs: SLOW_MS });

  test('slow delays an answer by the given time', async () => {
    await fault('slow').begin(region);
    const startedAtMs = performance.now();
    await answered();
    expect(performance.now() - startedAtMs).toBeGreaterThanOrEqual(SLOW_MS - 1);
  });

  test('slow-at-random delays an answer by up to twice the given time', async () => {
    await fault('slow-at-random').begin(region);
    expect(region.gateway.faults.get()).toEqual({ latencyMs: { min: 0, max: 2 * SLOW_MS } });
  });

  test('a Redis that is out of memory, or read-only, still answers reads', async () => {
    for (const name of ['out-of-memory', 'read-only-replica'] as const) {
      await fault(name).begin(region);
      expect(await client().get('n')).toBe(5);
      await fault(name).end(region);
    }
  });

  test('the commands that cause a fault are not billed', async () => {
    const { billed } = await region.gateway.stats();
    for (const name of ['out-of-memory', 'read-only-replica', 'scripts-flushed'] as const) {
      await fault(name).begin(region);
      await fault(name).end(region);
    }
    expect((await region.gateway.stats()).billed).toBe(billed);
  });

  test('ending one fault ends all faults of the region', async () => {
    await fault('out-of-memory').begin(region);
    await fault('redis-frozen').begin(region);
    await fault('connection-refused').begin(region);
    await fault('hang').end(region);
    expect(await client().incr('n')).toBe(6);
  });

  test('only faults that end at once are instant', () => {
    const instants = faults.filter(({ isInstant }) => isInstant).map(({ name }) => name);
    expect(instants).toEqual(['redis-restarted-empty', 'scripts-flushed']);
  });
});

describe('a redis-server', () => {
  test('starts again after a kill, on the same port, and only if it does not run', async () => {
    const { redis } = region;
    const { pid, port } = redis;
    await redis.start();
    expect(redis.pid).toBe(pid);
    await Promise.all([redis.kill(), redis.start(), redis.start()]);
    expect(redis.port).toBe(port);
    expect(redis.pid).not.toBe(pid);
    await healRegion(region);
    expect(await client().dbsize()).toBe(0);
  });
});
