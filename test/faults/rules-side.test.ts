// Postgres and KV are down: requests go on by the rules in force, and no request fails because of the limiter.
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { KvFaults } from '../../local/kv-faults/faults.ts';
import { freshIp, type IsolateName, REGIONS } from '../../local/weir.ts';
import { ANNOUNCEMENT_KEY } from '../../src/core/counting/keys.ts';
import { formatAnnouncement, parseAnnouncement } from '../../src/core/ports/region.ts';
import { API_KEY_RANDOM_BYTES, createApiKey } from '../../src/identity/api-key.ts';
import { isLong } from '../rounds.ts';
import type { Ask, Load, LoadOptions } from './client.ts';
import {
  addRule,
  admitted,
  DEADLINE_MS,
  expectSoon,
  type FaultStack,
  LIMIT,
  latestMs,
  PART,
  playAgainAfterStandstill,
  recover,
  ruleFor,
  startFaultStack,
} from './harness.ts';

const ISOLATES: readonly IsolateName[] = ['one', 'two'];
/** The isolate that has never seen a request. */
const COLD: IsolateName = 'three';
const COLD_WAIT_MS = 2_000;
const PER_SECOND = 60;
const LOAD_MS = 600;
const READS = ['throw', 'hang', 'null', 'garbage'] as const;
const POSTGRES = [{ refuse: true }, { hang: true }, { status: 500 }, { garbage: true }];
/**
 * Faults to combine with another fault: for each part, one that hangs and one that fails at once. The long form uses
 * all faults.
 */
const WITH_ANOTHER = {
  reads: READS.filter((read) => isLong || read === 'hang' || read === 'throw'),
  postgres: POSTGRES.filter(({ hang, refuse }) => isLong || hang || refuse),
};

let stack: FaultStack;
let healthy: Load;
let changing: { readonly id: string };
beforeAll(async () => {
  stack = await startFaultStack();
  await addRule(stack.weir, ruleFor('/counted'));
  await addRule(stack.weir, ruleFor('/roomy', 1_000_000));
  changing = await addRule(stack.weir, ruleFor('/changing', 1_000));
  await recover({ client: stack.client, isolates: ISOLATES });
  healthy = await load();
});
afterAll(() => stack?.[Symbol.asyncDispose]());

interface LoadChoice {
  readonly ms?: number;
  readonly path?: string;
  /** The regions that no fault of the test touches. */
  readonly well?: readonly string[];
}

/** One subject, in both isolates. */
const load = ({ ms = LOAD_MS, path = '/counted', well = REGIONS }: LoadChoice = {}) =>
  play(() => {
    const ip = freshIp();
    const next = (i: number) => ({ path, ip, isolate: ISOLATES[i % ISOLATES.length] as IsolateName });
    return { perSecond: PER_SECOND, ms, next };
  }, well);

const play = (make: () => LoadOptions, well: readonly string[]) =>
  playAgainAfterStandstill(
    () => stack.client.load(make()),
    () => recover({ client: stack.client, isolates: ISOLATES, regions: well }),
  );

/** A load of one request. */
const once = (ask: Ask): LoadOptions => ({ perSecond: 1_000, ms: 1, next: () => ask });

/** Requests that waited, although an earlier request of their isolate had already waited in vain. */
const inVain = ({ answers, controlMs }: Load) =>
  ISOLATES.flatMap((isolate) => {
    const busyMs = healthy.slowestMs + controlMs;
    const waited = answers.filter(
      ({ ask, sentAtMs, answeredAtMs }) =>
        ask.isolate === isolate && answeredAtMs - sentAtMs > DEADLINE_MS / 4 + busyMs,
    );
    const knownAtMs = Math.min(...waited.map(({ answeredAtMs }) => answeredAtMs));
    return waited.filter(({ sentAtMs }) => sentAtMs > knownAtMs);
  });

const reasonsOf = ({ answers }: Load) => new Set(answers.map(({ degraded }) => degraded));

function expectCounted(seen: Load): void {
  expect(seen.errors).toEqual([]);
  expect(admitted(seen.answers)).toBe(PART);
  expect(new Set(seen.answers.map(({ status }) => status))).toEqual(new Set([200, 429]));
  expect(seen.slowestMs).toBeLessThanOrEqual(latestMs(seen, healthy));
}

async function withKv(faults: KvFaults, during: () => Promise<void>): Promise<void> {
  await stack.weir.isolates.kvFaults.set(faults);
  await during().finally(() => stack.weir.isolates.kvFaults.clear());
}

async function withPostgres(faults: (typeof POSTGRES)[number], during: () => Promise<void>): Promise<void> {
  await stack.weir.stack.neon.faults.set(faults);
  await during().finally(() => stack.weir.stack.neon.faults.clear());
}

/** Works in the Redis of a region. */
async function inRedis<T>(region: string, work: (redis: Redis) => Promise<T>): Promise<T> {
  const redis = new Redis(stack.weir.region(region).redis.url);
  return work(redis).finally(() => redis.disconnect());
}

// First of all, because the isolate stays cold only as long as it cannot read any rules.
describe.sequential('an isolate that starts while KV is down', () => {
  const ask = () => stack.client.ask({ path: '/counted', isolate: COLD });
  /** The request may wait this long, plus the time that a busy machine also takes for other requests. */
  const askInTime = async (mostMs: number) => {
    const asked = once({ path: '/counted', isolate: COLD });
    const { answers, slowestMs, controlMs } = await stack.client.load(asked);
    expect(slowestMs).toBeLessThanOrEqual(mostMs + 3 * (healthy.slowestMs + controlMs));
    return answers.map(({ status, degraded, fallback }) => [status, degraded, fallback]);
  };
  beforeAll(async () => {
    for (const region of REGIONS)
      await inRedis(region, async (redis) => redis.unlink(await redis.keys('weir:{published}:*')));
  });

  it.each(READS)(
    'and Redis has no copies lets requests pass, after its longest wait at the latest: reads: %s',
    async (read) => {
      await withKv({ read }, async () => {
        const passed = [[200, 'no-rules', 'open']];
        expect(await askInTime(COLD_WAIT_MS + DEADLINE_MS)).toEqual(passed);
        // For a moment, no other request waits.
        expect(await askInTime(DEADLINE_MS)).toEqual(passed);
      });
    },
  );

  it('gets rules a moment after its region has a copy of them, though KV is still down', async () => {
    const seen = async () => {
      const { degraded, header } = await ask();
      return [degraded, header('X-RateLimit-Limit')];
    };
    await withKv({ read: 'null' }, async () => {
      await stack.weir.admin('/publish', { method: 'POST' });
      await expect.poll(seen).toEqual([undefined, String(LIMIT)]);
    });
  });
});

describe.sequential('while KV is down', () => {
  it.each(READS)('reads: %s – isolates that have rules count by them', async (read) => {
    await withKv({ read }, async () => {
      const seen = await load();
      expectCounted(seen);
      expect(reasonsOf(seen)).toEqual(new Set([undefined]));
    });
  });

  it('writes: throw – nothing can be published, and the old rules hold', async () => {
    await withKv({ write: 'throw' }, async () => {
      await expect(stack.weir.admin('/publish', { method: 'POST' })).rejects.toThrow('"publish-failed"');
      const seen = await load();
      expectCounted(seen);
      expect(reasonsOf(seen)).toEqual(new Set([undefined]));
    });
    await stack.weir.admin('/publish', { method: 'POST' });
  });
});

describe.sequential('rules that are announced', () => {
  const limits = async () => {
    const seen = await Promise.all(
      ISOLATES.map((isolate) => stack.client.ask({ path: '/changing', isolate })),
    );
    return seen.map(({ degraded, header }) => `${header('X-RateLimit-Limit')} ${degraded}`);
  };

  /** The limit that all isolates use, if they agree. */
  const limitInForce = async () => {
    await expect.poll(async () => new Set(await limits()).size).toBe(1);
    return Number.parseInt((await limits())[0] as string, 10);
  };

  it.each(READS)('come from the region if KV does not have them: reads: %s', async (read) => {
    const after = (await limitInForce()) + 1;
    await withKv({ read }, async () => {
      await stack.weir.admin(`/rules/${changing.id}`, { method: 'PATCH', body: { limit: after } });
      const fresh = Array(ISOLATES.length).fill(`${after} undefined`);
      await expect.poll(limits).toEqual(fresh);
      const seen = await load({ path: '/changing' });
      expect(seen.errors).toEqual([]);
      expect(reasonsOf(seen)).toEqual(new Set([undefined]));
      expect(seen.slowestMs).toBeLessThanOrEqual(latestMs(seen, healthy));
    });
  });

  it('are not followed if they cannot be loaded: the old rules decide until the next publication', async () => {
    const before = await limitInForce();
    const announced = parseAnnouncement(await inRedis('us', (redis) => redis.get(ANNOUNCEMENT_KEY)));
    const nowhere = {
      sequence: (announced?.sequence ?? 0) + 1,
      rules: 'f'.repeat(16),
      callers: 'f'.repeat(16),
    };
    for (const region of REGIONS)
      await inRedis(region, (redis) => redis.set(ANNOUNCEMENT_KEY, formatAnnouncement(nowhere)));
    const seen = await load({ ms: 1_500, path: '/changing', well: [] });
    expect(seen.errors).toEqual([]);
    expect(new Set(seen.answers.map(({ status }) => status))).toEqual(new Set([200]));
    const told = new Set(seen.answers.map(({ header }) => header('X-RateLimit-Limit')));
    expect(told).toEqual(new Set([String(before)]));
    expect(seen.answers.slice(-2 * ISOLATES.length).map(({ degraded }) => degraded)).toEqual(
      Array(2 * ISOLATES.length).fill('stale-rules'),
    );
    expect(seen.slowestMs).toBeLessThanOrEqual(latestMs(seen, healthy));
    // The isolate asks for it once a second.
    expect(inVain(seen)).toHaveLength(0);
    await stack.weir.admin('/publish', { method: 'POST' });
    const fresh = Array(ISOLATES.length).fill(`${before} undefined`);
    await expect.poll(limits).toEqual(fresh);
  });
});

describe.sequential('while Postgres is down', () => {
  it.each(POSTGRES)('%o – requests are counted, and unknown keys by their IP', async (fault) => {
    await withPostgres(fault, async () => {
      const seen = await load();
      expectCounted(seen);
      expect(reasonsOf(seen)).toEqual(new Set([undefined]));
      const key = await createApiKey(crypto.getRandomValues(new Uint8Array(API_KEY_RANDOM_BYTES)));
      const asked = { path: '/counted', headers: { 'X-API-Key': key } };
      const keyed = await play(() => once(asked), REGIONS);
      const [answer] = keyed.answers;
      expect([answer?.status, answer?.degraded]).toEqual([200, 'caller-unknown']);
      expect(answer?.header('X-RateLimit-Remaining')).toBe(String(PART - 1));
      expect(keyed.slowestMs).toBeLessThanOrEqual(latestMs(keyed, healthy));
    });
    expect(await stack.weir.admin('/rules')).toHaveProperty('items');
  });

  it('the admin route reports that the database is unavailable', async () => {
    await withPostgres({ refuse: true }, async () => {
      await expect(stack.weir.admin('/rules')).rejects.toThrow('"database-unavailable"');
    });
  });
});

describe.sequential('while the Redis of the nearest region is down, too', () => {
  const withoutRedis = (during: () => Promise<void>) => stack.weir.withFault('us', { hang: true }, during);
  const expectNextRegion = async () => {
    const seen = await load({ well: ['eu', 'ap'] });
    expectCounted(seen);
    for (const { status, fallback } of seen.answers) if (status === 200) expect(fallback).toBe('next-region');
  };
  const expectRecovery = () => recover({ client: stack.client, isolates: ISOLATES, regions: ['us'] });

  it.each(WITH_ANOTHER.postgres)('Postgres: %o – the next region counts', async (fault) => {
    await withPostgres(fault, () => withoutRedis(expectNextRegion));
    expectSoon(await expectRecovery());
  });

  it.each(WITH_ANOTHER.reads)('reads of KV: %s – the next region counts', async (read) => {
    await withKv({ read }, () => withoutRedis(expectNextRegion));
    expectSoon(await expectRecovery());
  });
});
