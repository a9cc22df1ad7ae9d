// The region that owns a caller's counter freezes. Another region stands in for it: all isolates agree on which one, so
// at most the limit passes once more, no request passes uncounted, and few are late.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { freshIp, REGIONS, type Weir } from '../../local/weir.ts';
import { centralRegionOf } from '../../src/core/regions/parts.ts';
import { playWithoutStandstill } from '../shared/standstill.ts';
import { startWeir } from '../shared/weir.ts';

/** A frozen region takes half of it. Healthy regions on a busy machine need far less. */
const DEADLINE_MS = 2_400;
/** A stand-in has a quarter of the deadline. If the machine stands still for so long, another region stands in. */
const STANDSTILL_MS = DEADLINE_MS / 6;
const LIMIT = 60;
/** So large that us does not ask for the other parts. */
const ROOMY = 6_000;
const ISOLATES = ['one', 'two', 'three'] as const;
/** Rules that were confirmed longer ago must be confirmed before they decide. */
const OVERDUE_MS = 600;
/** After this many failed calls, the breaker of an isolate is open. */
const LATE_AT_MOST = 5;

let weir: Weir;
beforeAll(async () => {
  weir = await startWeir({ DEADLINE_MS: String(DEADLINE_MS) });
  for (const rule of [
    { resource: '/owned' },
    { resource: '/several' },
    { resource: '/several', scope: 'global', limit: ROOMY },
    { resource: '/seats', algorithm: 'concurrency', limit: 1 },
    { resource: '/central', central: true },
  ])
    await weir.admin('/rules', {
      method: 'POST',
      body: { scope: 'ip', algorithm: 'fixed-window', limit: LIMIT, windowSeconds: 3_600, ...rule },
    });
});
afterAll(() => weir?.[Symbol.asyncDispose]());

const ask = async (path: string, call: Parameters<Weir['call']>[1]) => {
  const { status, headers } = await weir.call(path, call);
  const remaining = headers.get('X-RateLimit-Remaining');
  return {
    status,
    remaining: remaining === null ? undefined : Number(remaining),
    degraded: headers.get('X-Weir-Degraded') ?? undefined,
    fallback: headers.get('X-Weir-Fallback') ?? undefined,
  };
};
type Seen = Awaited<ReturnType<typeof ask>>;

/** Every isolate asks every region until none reports a failure. */
const settled = async () => {
  for (const isolate of ISOLATES)
    for (const region of REGIONS)
      await expect
        .poll(async () => (await ask('/owned', { isolate, region })).degraded, { interval: 100 })
        .toBeUndefined();
};
beforeEach(settled);

const whileFrozen = async <T>(region: string, during: () => Promise<T>): Promise<T> => {
  const { redis } = weir.region(region);
  redis.freeze();
  return during().finally(() => redis.thaw());
};

/** What is left of a limit of that caller, by the quota that the caller can read in that region. */
async function left(policy: string, call: Parameters<Weir['call']>[1]): Promise<number | undefined> {
  const answer = await weir.call('/_weir/quota', call);
  const { limits = [] } = (await answer.json()) as { limits?: { policy: string; remaining: number }[] };
  return limits.find((limit) => limit.policy === policy)?.remaining;
}

/** A caller that has used this much from us. The other regions have transferred their parts to us, and refer to it. */
async function ownedBy(resource: string, policy: string, used: number): Promise<string> {
  const ip = freshIp();
  for (let i = 0; i < used; i += 1) expect((await ask(resource, { ip })).status).toBe(200);
  for (const region of ['eu', 'ap']) await expect.poll(() => left(policy, { region, ip })).toBe(LIMIT - used);
  return ip;
}

interface Asking {
  readonly path: string;
  readonly ip: string;
  readonly region: string;
  readonly count: number;
}

/** All isolates at once, and each sends one request after the other, so that it knows what the earlier ones met. */
const fromAll = ({ path, ip, region, count }: Asking): Promise<Seen[][]> =>
  Promise.all(
    ISOLATES.map(async (isolate) => {
      const seen: Seen[] = [];
      for (let i = 0; i < count; i += 1) seen.push(await ask(path, { isolate, ip, region }));
      return seen;
    }),
  );

/** Repeats the play, with another caller, if the machine stood still. Healthy regions show that. */
const playFrozen = <T>(play: () => Promise<T>): Promise<T> =>
  playWithoutStandstill({
    play,
    control: () => ask('/owned', { region: 'eu', isolate: 'two' }),
    standstillMs: STANDSTILL_MS,
  });

const admitted = (seen: readonly Seen[]) => seen.filter(({ status }) => status === 200);
/** Requests that waited for the frozen region. */
const late = (seen: readonly Seen[]) => seen.filter(({ degraded }) => degraded === 'timeout');

function expectStoodIn(seen: readonly Seen[][], limit = LIMIT): void {
  const all = seen.flat();
  expect(admitted(all)).toHaveLength(limit);
  expect(all.filter(({ status }) => status !== 200 && status !== 429)).toEqual([]);
  expect(new Set(all.map(({ fallback }) => fallback))).toEqual(new Set(['stand-in']));
  for (const own of seen) {
    expect(late(own).length).toBeLessThanOrEqual(LATE_AT_MOST);
    // Only the first ones: the breaker is open after them.
    expect(own.slice(late(own).length).map(({ degraded }) => degraded)).not.toContain('timeout');
  }
}

describe.sequential('while the owner of a counter is frozen', () => {
  /** More than half of a part, so that us asks for the other parts. */
  const USED = 12;
  it.each([
    ['near it', 'us'],
    ['near the stand-in', 'eu'],
    ['near another region', 'ap'],
  ])(
    'callers %s get the limit once more from all isolates together, and return to the owner',
    async (_, region) => {
      const { ip, seen } = await playFrozen(async () => {
        const caller = await ownedBy('/owned', 'owned-ip', USED);
        const answers = await whileFrozen('us', async () => {
          const all = await fromAll({ path: '/owned', ip: caller, region, count: LIMIT / 2 });
          for (const isolate of ISOLATES)
            await expect.poll(() => left('owned-ip', { region, ip: caller, isolate })).toBe(0);
          return all;
        });
        await settled();
        return { ip: caller, seen: answers };
      });
      expectStoodIn(seen);
      for (const isolate of ISOLATES) {
        const answer = await ask('/owned', { isolate, ip, region });
        expect([answer.status, answer.fallback]).toEqual([200, undefined]);
        // The owner knows nothing of the requests that the stand-in has counted. It has run the calls it did not answer.
        expect(answer.remaining).toBeLessThan(LIMIT - USED);
        expect(answer.remaining).toBeGreaterThanOrEqual(LIMIT - USED - ISOLATES.length * (LATE_AT_MOST + 1));
      }
    },
  );

  it('a request is charged to all its rules or to none, whether a stand-in or the next region counts them', async () => {
    /** What eu has counted of the rule that every region still has a part of. */
    const counted = async () => ROOMY - Number(await left('several-global', { region: 'eu', ip: freshIp() }));
    const { seen, charged } = await playFrozen(async () => {
      const ip = await ownedBy('/several', 'several-ip', USED);
      const before = await counted();
      return whileFrozen('us', async () => ({
        seen: await fromAll({ path: '/several', ip, region: 'us', count: LIMIT / 2 }),
        charged: (await counted()) - before,
      })).finally(settled);
    });
    expectStoodIn(seen);
    expect(charged).toBe(LIMIT);
  });

  it('a rule that one region counts is counted by its stand-in', async () => {
    const seen = await playFrozen(async () => {
      const ip = centralIn('us');
      const play = () => fromAll({ path: '/central', ip, region: 'ap', count: LIMIT / 2 });
      return whileFrozen('us', play).finally(settled);
    });
    expectStoodIn(seen);
  });

  it('a seat is released in the stand-in that has given it', async () => {
    const ip = centralIn('us');
    await whileFrozen('us', async () => {
      for (let i = 0; i < 3; i += 1) {
        const { status, fallback } = await ask('/seats', { ip });
        expect([status, fallback]).toEqual([200, 'stand-in']);
        await expect.poll(() => left('seats-ip', { ip, isolate: 'two' })).toBe(1);
      }
    });
  });

  it('a charge of a check is given back to the stand-in that made it', async () => {
    const ip = centralIn('us');
    const check = async (path: string, body: unknown) => {
      const headers = { Authorization: `Bearer ${weir.token}` };
      return weir.call(`/_weir/check${path}`, { method: 'POST', headers, body });
    };
    const id = await whileFrozen('us', async () => {
      const answer = await check('', { policy: 'central-ip', subject: ip });
      const checked = (await answer.json()) as { id: string; results: object[] };
      expect(checked.results).toMatchObject([{ subject: ip, remaining: LIMIT - 1 }]);
      return checked.id;
    });
    // Weir notes in one of the regions that an id is spent, and that may be us.
    expect((await check('/refund', { id })).status).toBe(204);
    await whileFrozen('us', async () => {
      await expect.poll(() => left('central-ip', { ip, isolate: 'two' })).toBe(LIMIT);
    });
    expect((await check('/refund', { id })).status).toBe(409);
  });

  it('a request without a rule waits for no frozen region', async () => {
    for (const isolate of ISOLATES) expect((await ask('/free', { isolate })).status).toBe(200);
    await whileFrozen('us', async () => {
      for (let i = 0; i < 4; i += 1) {
        // The isolate was idle, so it asks a region whether its rules are still in force.
        await sleep(OVERDUE_MS);
        const startedAtMs = performance.now();
        expect((await ask('/free', { isolate: 'one' })).status).toBe(200);
        expect(performance.now() - startedAtMs).toBeLessThan(DEADLINE_MS / 4);
      }
    });
  });
});

/** A new caller whose counters that region owns, under rules that one region counts. */
function centralIn(region: string): string {
  const regions = REGIONS.map((name) => ({ name, share: 1 }));
  for (;;) {
    const ip = freshIp();
    if (centralRegionOf(`ip:=${ip}`, regions) === region) return ip;
  }
}
