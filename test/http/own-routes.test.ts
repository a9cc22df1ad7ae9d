// Weir's own paths are public. So Weir limits how often an address may ask, and what callers learn.
import { Hono } from 'hono';
import { describe, expect, it } from 'vitest';
import { OWN_PREFIX } from '../../src/core/matching/resource.ts';
import { ABSENT } from '../../src/core/ports/callers.ts';
import { operationsBy } from '../../src/core/ports/region.ts';
import { createBreaker } from '../../src/core/regions/breaker.ts';
import { createCensus } from '../../src/core/regions/census.ts';
import { createInternalRoutes } from '../../src/gateway/internal-routes.ts';
import type { Services } from '../../src/gateway/services.ts';
import { createIncidentCounts } from '../../src/http/log.ts';
import { createDistance } from '../../src/limiter/region.ts';
import { openOrigins } from './origins-harness.ts';

const READER = 'Bearer a-token-that-may-only-read';

interface Ask {
  readonly ip?: string;
  readonly authorization?: string;
}

/** One isolate. Everything that a request could cost is counted. */
function openIsolate({ adminHost }: Pick<Services, 'adminHost'> = {}) {
  const clock = { ms: 1_000_000 };
  const calls = { redis: 0, postgres: 0, admin: 0, gate: 0 };
  const now = () => clock.ms;
  const region = {
    name: 'us',
    neighbours: [],
    store: {
      ...operationsBy(() => Promise.reject(new Error('not here'))),
      reset: async () => {},
      async probe() {
        calls.redis += 1;
      },
    },
    pointer: {
      read: async () => undefined,
      write: async () => {},
      readPublished: async () => [],
      writeParts: async () => {},
    },
    breaker: createBreaker({ random: () => 0.5 }),
    distance: createDistance({ probe: async () => {} }, now),
    census: createCensus({ assumed: 1, present: async () => 1 }),
    isCluster: false,
    watch: { note: () => {}, look: () => {} },
  };
  const services: Partial<Services> = {
    adminHost,
    regions: [region],
    regionsOf: () => [region],
    identity: {
      callers: { ofApiKey: async () => ABSENT, ofUser: async () => ABSENT },
      tokens: undefined,
      ipv6Prefix: 64,
      unverified: 'count',
    },
    snapshots: {
      current: () => undefined,
      start: async () => undefined,
    } as unknown as Services['snapshots'],
    limiter: {
      async decide() {
        calls.redis += 1;
        return { kind: 'unlimited', allowed: true, rulesVersion: 'v1', isStale: false };
      },
      leased: () => ({ counters: 0, units: 0 }),
      leasedOf: () => undefined,
    },
    admin: async () => {
      calls.admin += 1;
      return new Response(null, { status: 401 });
    },
    adminRefusal: async ({ headers }) => {
      calls.gate += 1;
      return headers.get('Authorization') === READER ? undefined : new Response(null, { status: 401 });
    },
    async pingDatabase() {
      calls.postgres += 1;
    },
    deadlineMs: 1_000,
    now,
    incidentCounts: createIncidentCounts(),
    origins: openOrigins(),
    showsDegraded: false,
  };
  const routes = new Hono().route(OWN_PREFIX, createInternalRoutes(services as Services));
  const context = { waitUntil: () => {}, passThroughOnException: () => {}, props: {} };
  const ask = async (path: string, { ip = '192.0.2.1', authorization }: Ask = {}) =>
    routes.fetch(
      new Request(`https://weir.test/_weir${path}`, {
        headers: { 'CF-Connecting-IP': ip, ...(authorization && { Authorization: authorization }) },
      }),
      {},
      context,
    );
  const statuses = async (count: number, path: string, asked?: Ask) => {
    const seen = new Map<number, number>();
    for (let i = 0; i < count; i += 1) {
      const { status } = await ask(path, asked);
      seen.set(status, (seen.get(status) ?? 0) + 1);
    }
    return Object.fromEntries(seen);
  };
  return { clock, calls, ask, statuses };
}

describe('an address', () => {
  it('gets sixty answers at once, and two a second after that', async () => {
    const { statuses, clock, ask } = openIsolate();
    expect(await statuses(100, '/quota')).toEqual({ 200: 60, 429: 40 });
    clock.ms += 1_000;
    expect(await statuses(5, '/health')).toEqual({ 200: 2, 429: 3 });
    const refused = await ask('/quota');
    expect(refused.headers.get('Retry-After')).toBe('1');
    expect(await refused.json()).toMatchObject({ code: 'too-many-requests' });
    clock.ms += 60_000;
    expect(await statuses(70, '/nothing')).toEqual({ 404: 60, 429: 10 });
  });

  it('has the same bound on other hosts than ADMIN_HOST, whatever token it shows', async () => {
    const { statuses, calls } = openIsolate({ adminHost: 'admin.test' });
    expect(await statuses(70, '/health', { authorization: READER })).toEqual({ 200: 60, 429: 10 });
    expect(calls.gate).toBe(0);
  });

  it('that has used up its answers costs no call to any part', async () => {
    const { statuses, calls, clock } = openIsolate();
    await statuses(60, '/nothing');
    for (const path of ['/quota', '/health', '/admin/rules', '/admin'])
      expect(await statuses(5, path)).toEqual({ 429: 5 });
    expect(calls).toEqual({ redis: 0, postgres: 0, admin: 0, gate: 0 });
    clock.ms += 500;
    expect(await statuses(2, '/health')).toEqual({ 200: 1, 429: 1 });
    expect(calls).toMatchObject({ redis: 1, postgres: 1 });
  });

  it('does not use up the answers of another address, but an IPv6 network counts as one address', async () => {
    const { statuses } = openIsolate();
    await statuses(60, '/nothing');
    expect(await statuses(1, '/health', { ip: '192.0.2.2' })).toEqual({ 200: 1 });
    for (let i = 0; i < 60; i += 1) await statuses(1, '/nothing', { ip: `2001:db8:1:2::${i}` });
    expect(await statuses(1, '/health', { ip: '2001:db8:1:2:ffff::1' })).toEqual({ 429: 1 });
    expect(await statuses(1, '/health', { ip: '2001:db8:1:3::1' })).toEqual({ 200: 1 });
  });

  it('with admin credentials is limited by the gate of the admin route, which counts failures itself', async () => {
    const { statuses, calls } = openIsolate();
    expect(await statuses(200, '/admin/rules', { authorization: READER })).toEqual({ 401: 200 });
    expect(await statuses(100, '/health', { authorization: READER })).toEqual({ 200: 100 });
    expect(calls).toMatchObject({ admin: 200, gate: 100 });
    // A user's token is not an admin credential.
    expect(await statuses(100, '/quota', { authorization: READER })).toEqual({ 200: 60, 429: 40 });
  });
});

describe('health', () => {
  it('tells callers without a token only whether all is well', async () => {
    const answer = await openIsolate().ask('/health');
    expect(answer.headers.get('Cache-Control')).toBe('no-store');
    expect(await answer.json()).toEqual({ status: 'degraded' });
  });

  it('tells callers with a token which part is wrong', async () => {
    const { ask } = openIsolate();
    expect(await (await ask('/health', { authorization: READER })).json()).toMatchObject({
      status: 'degraded',
      region: 'us',
      parts: { rules: 'missing', 'redis:us': 'ok', postgres: 'ok' },
      isolate: { breakers: { us: 'closed' } },
    });
    expect((await ask('/health', { authorization: 'Bearer a guess' })).status).toBe(401);
  });
});
