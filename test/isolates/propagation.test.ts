// From a change to its enforcement everywhere: three isolates and three regions, some of them idle before.
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { freshIp, type IsolateName, REGIONS, type Weir } from '../../local/weir.ts';
import { ANNOUNCEMENT_KEY } from '../../src/core/counting/keys.ts';
import { formatAnnouncement, parseAnnouncement } from '../../src/core/ports/region.ts';
import { createClient } from '../../src/redis/client.ts';
import { createRulesPointer } from '../../src/redis/region-keys.ts';
import { startWeir } from '../shared/weir.ts';

const ISOLATES: readonly IsolateName[] = ['one', 'two', 'three'];
const EVERYWHERE = ISOLATES.flatMap((isolate) => REGIONS.map((region) => ({ isolate, region })));
/** Longer than an isolate trusts rules without confirmation. */
const IDLE_MS = 600;

let weir: Weir;
beforeAll(async () => {
  weir = await startWeir();
});
afterAll(() => weir?.[Symbol.asyncDispose]());
beforeEach(async () => {
  await weir.sql('delete from rules; delete from list_entries; delete from api_keys; delete from tiers');
  await weir.admin('/publish', { method: 'POST' });
});

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const ruleFor = (resource: string, limit: number) => ({
  resource,
  scope: 'ip',
  algorithm: 'fixed-window',
  limit,
  windowSeconds: 3600,
});
const addRule = (resource: string, limit: number) =>
  weir.admin<{ id: string }>('/rules', { method: 'POST', body: ruleFor(resource, limit) });
const limitAt = async (place: (typeof EVERYWHERE)[number], path: string) => {
  const { status, headers } = await weir.call(path, place);
  expect([status, headers.get('X-Weir-Degraded')]).toEqual([200, null]);
  return headers.get('X-RateLimit-Limit');
};

/** Sends requests in every isolate and region until stopped. All must pass. */
function traffic(path: string) {
  let isRunning = true;
  const problems: string[] = [];
  const seen: { readonly sentAtMs: number; readonly tookMs: number; readonly limit: string | null }[] = [];
  const loops = EVERYWHERE.map(async (place) => {
    while (isRunning) {
      const sentAtMs = performance.now();
      const answer = await weir.call(path, place);
      const degraded = answer.headers.get('X-Weir-Degraded');
      if (answer.status !== 200 || degraded) problems.push(`${answer.status} ${degraded}`);
      const limit = answer.headers.get('X-RateLimit-Limit');
      seen.push({ sentAtMs, tookMs: performance.now() - sentAtMs, limit });
      await answer.body?.cancel();
      await pause(10);
    }
  });
  return {
    problems,
    seen,
    async stop() {
      isRunning = false;
      await Promise.all(loops);
    },
  };
}

describe('a change through the admin route', () => {
  it('is enforced on the first request of an isolate that was idle, in every region', async () => {
    const { id } = await addRule('/idle', 10);
    for (const place of EVERYWHERE) expect(await limitAt(place, '/idle')).toBe('10');
    for (const limit of [11, 12, 13]) {
      await pause(IDLE_MS);
      await weir.admin(`/rules/${id}`, { method: 'PATCH', body: { limit } });
      const limits = await Promise.all(EVERYWHERE.map((place) => limitAt(place, '/idle')));
      expect(limits).toEqual(EVERYWHERE.map(() => String(limit)));
    }
  });

  it('is enforced in an idle isolate even where no rule has applied before', async () => {
    expect(await limitAt({ isolate: 'two', region: 'eu' }, '/untouched')).toBeNull();
    await pause(IDLE_MS);
    await addRule('/untouched', 5);
    expect(await limitAt({ isolate: 'two', region: 'eu' }, '/untouched')).toBe('5');
  });

  it('is enforced under traffic within a second, and no request fails', async () => {
    const { id } = await addRule('/busy', 1_000);
    const requests = traffic('/busy');
    const changes: { readonly limit: number; readonly startedAtMs: number; readonly tookMs: number }[] = [];
    for (let limit = 1_001; limit <= 1_004; limit += 1) {
      const startedAtMs = performance.now();
      await weir.admin(`/rules/${id}`, { method: 'PATCH', body: { limit } });
      changes.push({ limit, startedAtMs, tookMs: performance.now() - startedAtMs });
      const isSeen = (place: (typeof EVERYWHERE)[number]) =>
        expect.poll(() => limitAt(place, '/busy')).toBe(String(limit));
      await Promise.all(EVERYWHERE.map(isSeen));
      await pause(Math.max(0, 1_000 - (performance.now() - startedAtMs)));
    }
    await requests.stop();
    expect(requests.problems).toEqual([]);
    // A busy machine adds its own delays: to the change, and to each step until the isolate hears of it.
    const stepMs = Math.max(...requests.seen.map(({ tookMs }) => tookMs));
    const late = changes.flatMap(({ limit, startedAtMs, tookMs }) => {
      const latestAtMs = startedAtMs + Math.max(1_000, tookMs + 250 + 4 * stepMs);
      return requests.seen.filter(
        ({ sentAtMs, limit: seen }) => sentAtMs > latestAtMs && Number(seen) < limit,
      );
    });
    expect(late).toEqual([]);
  });

  it('charges a request once, even if the request finds the changed rules', async () => {
    const { id } = await addRule('/once', 10);
    const ip = freshIp();
    await pause(IDLE_MS);
    await weir.call('/once', { ip, isolate: 'three' });
    await pause(IDLE_MS);
    await weir.admin(`/rules/${id}`, { method: 'PATCH', body: { limit: 20 } });
    const answer = await weir.call('/once', { ip, isolate: 'three' });
    expect(answer.headers.get('X-RateLimit-Remaining')).toBe('18');
  });

  it('to the lists holds at once: denied, allowed, and neither again', async () => {
    await addRule('/listed', 1);
    const ip = freshIp();
    await weir.call('/listed', { ip, isolate: 'two' });
    const statusAfter = async () => (await weir.call('/listed', { ip, isolate: 'two' })).status;
    expect(await statusAfter()).toBe(429);
    for (const [list, status] of [
      ['deny', 403],
      ['allow', 200],
    ]) {
      await pause(IDLE_MS);
      const entry = { list, kind: 'ip', value: `${ip}/32` };
      const { id } = await weir.admin<{ id: string }>('/lists', { method: 'POST', body: entry });
      expect(await statusAfter()).toBe(status);
      await pause(IDLE_MS);
      await weir.admin(`/lists/${id}`, { method: 'DELETE' });
      expect(await statusAfter()).toBe(429);
    }
  });

  it('to an API key holds at once: created, moved to another tier, disabled, deleted', async () => {
    const tiers = [
      { name: 'free', isDefault: true, limits: { calls: 2 } },
      { name: 'premium', limits: { calls: 50 } },
      { name: 'huge', limits: { calls: null } },
    ];
    for (const tier of tiers) await weir.admin('/tiers', { method: 'POST', body: tier });
    const { limit: _, ...byTier } = ruleFor('/keyed', 1);
    await weir.admin('/rules', { method: 'POST', body: { ...byTier, scope: 'apiKey', limitName: 'calls' } });
    const { id, key } = await weir.admin<{ id: string; key: string }>('/keys', {
      method: 'POST',
      body: { tier: 'premium' },
    });
    const limitOfKey = async (isolate: IsolateName) => {
      const answer = await weir.call('/keyed', { isolate, headers: { 'X-API-Key': key } });
      return answer.headers.get('X-RateLimit-Limit');
    };
    const everywhere = () => Promise.all(ISOLATES.map(limitOfKey));
    await pause(IDLE_MS);
    expect(await everywhere()).toEqual(['50', '50', '50']);
    for (const [change, limit] of [
      [{ tier: 'huge' }, null],
      [{ tier: 'premium' }, '50'],
      [{ disabled: true }, '2'],
      [{ disabled: false }, '50'],
    ] as const) {
      await pause(IDLE_MS);
      await weir.admin(`/keys/${id}`, { method: 'PATCH', body: change });
      expect(await everywhere()).toEqual([limit, limit, limit]);
    }
    await pause(IDLE_MS);
    await weir.admin(`/keys/${id}`, { method: 'DELETE' });
    expect(await everywhere()).toEqual(['2', '2', '2']);
  });
});

describe('a change by a migration', () => {
  it('is enforced after the cron run, and no request fails meanwhile', async () => {
    const requests = traffic('/migrated');
    await weir.sql(`insert into rules (resource, scope, algorithm, "limit", window_seconds)
      values ('/migrated', 'ip', 'fixed-window', 77, 3600)`);
    await weir.isolates.scheduled('two');
    for (const place of EVERYWHERE) await expect.poll(() => limitAt(place, '/migrated')).toBe('77');
    await requests.stop();
    expect(requests.problems).toEqual([]);
  });
});

describe('the announcement', () => {
  const gatewayOf = (region: string) => weir.stack.regions.find(({ name }) => name === region)?.gateway;
  const announced = async (region: string) => {
    const gateway = gatewayOf(region);
    const answer = await fetch(`${gateway?.url}/get/${ANNOUNCEMENT_KEY}`, {
      headers: { Authorization: `Bearer ${gateway?.token}` },
    });
    return parseAnnouncement(((await answer.json()) as { result: string | null }).result);
  };

  it('is repeated by the next cron run for a region that was down', async () => {
    await weir.withFault('ap', { status: 500 }, async () => {
      const { regions } = await weir.admin<{ regions: object[] }>('/publish', { method: 'POST' });
      expect(regions).toContainEqual({ name: 'ap', announced: false });
      await addRule('/region', 9);
    });
    expect((await announced('ap'))?.rules).not.toBe((await announced('us'))?.rules);
    await weir.isolates.scheduled('one');
    expect((await announced('ap'))?.rules).toBe((await announced('us'))?.rules);
  });

  it('gets a higher number even after the database was restored to an earlier state', async () => {
    const before = await announced('us');
    await weir.sql(`select setval('publications', 1)`);
    await addRule('/put-back', 4);
    const after = await announced('us');
    expect(after?.sequence).toBeGreaterThan(before?.sequence ?? Number.POSITIVE_INFINITY);
    await pause(IDLE_MS);
    expect(await limitAt({ isolate: 'three', region: 'us' }, '/put-back')).toBe('4');
  });

  it('is never replaced by an older publication that arrives late', async () => {
    const boards = REGIONS.map((region) => {
      const { url = '', token = '' } = gatewayOf(region) ?? {};
      return createRulesPointer(createClient({ url, token }));
    });
    const { id } = await addRule('/late', 4);
    const older = await announced('us');
    await weir.admin(`/rules/${id}`, { method: 'PATCH', body: { limit: 5 } });
    const newer = await announced('us');
    expect(newer?.rules).not.toBe(older?.rules);
    // The older publication was held up, and only now reaches the regions.
    for (const pointer of boards) if (older) await pointer.write(older, AbortSignal.timeout(60_000));
    expect(await Promise.all(REGIONS.map(announced))).toEqual(REGIONS.map(() => newer));
  });

  it('is in KV too, for isolates that cannot reach Redis', async () => {
    await addRule('/in-kv', 4);
    const inRedis = await announced('us');
    expect(await (await weir.isolates.kv()).get('current')).toBe(inRedis && formatAnnouncement(inRedis));
  });
});
