import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Check, TakeCheck } from '../../src/core/counting/check.ts';
import { subjectKey } from '../../src/core/counting/keys.ts';
import type { CounterStore } from '../../src/core/ports/region.ts';
import { splitByHashSlot } from '../../src/redis/counter-store.ts';
import { type LocalCluster, startCluster } from '../limiter/cluster.ts';

const pointer = { read: async () => undefined, write: async () => {} };
let local: LocalCluster;
let store: CounterStore;
beforeAll(async () => {
  local = await startCluster();
  store = splitByHashSlot(local.store, pointer);
});
afterAll(() => local[Symbol.asyncDispose]());

const signal = AbortSignal.timeout(60_000);
let subjects = 0;

/** One check for each of three subjects, which are in different slots. */
async function checksOf(changes: Partial<TakeCheck>[] = [{}, {}, {}]): Promise<TakeCheck[]> {
  subjects += 1;
  return Promise.all(
    changes.map(async (change, i) => ({
      key: await subjectKey(['ip', 'user', 'tenant'][i] ?? 'ip', `subject-${subjects}`),
      id: `rule-${i}`,
      algorithm: 'fixed-window',
      limit: 10,
      windowMs: 3_600_000,
      cost: 1,
      ...change,
    })),
  );
}
const take = (checks: Check[]) => store.take({ checks }, signal);
const remaining = async (checks: Check[]) =>
  (await store.peek({ checks }, signal)).outcomes.map((outcome) => outcome.remaining);

/** The clock of each subject is a second ahead of the previous one. */
const withSkewedClocks = (checks: readonly Check[]): CounterStore =>
  local.storeAt((asked) => Date.now() + 1_000 * checks.findIndex(({ key }) => key === asked));

describe('a store on a Redis Cluster of three', () => {
  it('refuses one call over several slots, which is why calls are split', async () => {
    const checks = await checksOf();
    await expect(local.store.take({ checks }, signal)).rejects.toThrow(/slot/i);
  });

  it('charges every subject in its own slot', async () => {
    const checks = await checksOf();
    const { outcomes } = await take(checks);
    expect(outcomes.map(({ allowed, remaining: left }) => [allowed, left])).toEqual(Array(3).fill([true, 9]));
    expect(await remaining(checks)).toEqual([9, 9, 9]);
  });

  it.each([0, 1, 2])(
    'charges no subject if subject %i denies, and names the outcome of each',
    async (denying) => {
      const checks = await checksOf([0, 1, 2].map((i) => (i === denying ? { limit: 1 } : {})));
      await take(checks);
      const before = await remaining(checks);
      const { outcomes } = await take(checks);
      expect(outcomes.map(({ allowed }) => allowed)).toEqual([0, 1, 2].map((i) => i !== denying));
      expect(outcomes.map((outcome) => outcome.remaining)).toEqual(before);
      expect(await remaining(checks)).toEqual(before);
    },
  );

  it('gives back leased units, too, if a subject denies', async () => {
    const checks = await checksOf([{ leaseUnits: 5, cost: 2 }, {}, { limit: 1, cost: 2 }]);
    const { outcomes } = await take(checks);
    expect(outcomes.map(({ allowed, granted }) => [allowed, granted])).toEqual([
      [true, 0],
      [true, 0],
      [false, 0],
    ]);
    expect(await remaining(checks)).toEqual([10, 10, 1]);
  });

  it('does not deny because of a shadow rule in another slot', async () => {
    const checks = await checksOf([{}, { limit: 1, isShadow: true }, {}]);
    await take(checks);
    expect((await take(checks)).outcomes.map(({ allowed }) => allowed)).toEqual([true, false, true]);
    expect(await remaining(checks)).toEqual([8, 0, 8]);
  });

  it('never admits racing callers beyond the limit, and charges exactly the admitted requests', async () => {
    const [shared] = await checksOf([{ limit: 25 }]);
    const answers = await Promise.all(
      Array.from({ length: 100 }, async (_, i) => {
        const [, own] = await checksOf([{}, { limit: i % 2 === 0 ? 1 : 10, cost: i % 2 === 0 ? 2 : 1 }]);
        return take([shared as Check, own as Check]);
      }),
    );
    const admitted = answers.filter(({ outcomes }) => outcomes.every(({ allowed }) => allowed)).length;
    expect(admitted).toBeLessThanOrEqual(25);
    expect(await remaining([shared as Check])).toEqual([25 - admitted]);
  });

  it('settles every subject in its own slot, whether there is room or not', async () => {
    const checks = await checksOf([{}, { limit: 1 }, {}]);
    const { nowMs } = await take(checks);
    const settled = checks.map((check) => ({ ...check, cost: 3, chargedAtMs: nowMs }));
    const { outcomes } = await store.settle({ checks: settled }, signal);
    expect(outcomes.map(({ remaining: left }) => left)).toEqual([6, 0, 6]);
    expect(await remaining(checks)).toEqual([6, 0, 6]);
  });

  it('reports when each slot was charged, so that each charge is settled and refunded exactly', async () => {
    const log: Partial<Check> = { algorithm: 'sliding-window-log' };
    const checks = await checksOf([log, log, log]);
    const skewed = splitByHashSlot(withSkewedClocks(checks), pointer);
    const { outcomes } = await skewed.take({ checks }, signal);
    const chargedAtMs = (i: number) => outcomes[i]?.nowMs ?? 0;
    const charged = checks.map((check, i) => ({ ...check, cost: 2, chargedAtMs: chargedAtMs(i) }));
    const left = async (operation: 'settle' | 'refund') =>
      (await skewed[operation]({ checks: charged }, signal)).outcomes.map((outcome) => outcome.remaining);
    expect(new Set(outcomes.map(({ nowMs }) => nowMs)).size).toBe(3);
    expect(await left('settle')).toEqual([7, 7, 7]);
    expect(await left('refund')).toEqual([9, 9, 9]);
  });

  it('resets subjects in any slot', async () => {
    const checks = await checksOf();
    await take(checks);
    await store.reset(
      checks.map(({ key }) => key),
      signal,
    );
    expect(await remaining(checks)).toEqual([10, 10, 10]);
  });
});
