// What every algorithm promises about costs that are known only afterwards.

import { expect, it } from 'vitest';
import type { AlgorithmId } from '../../src/core/counting/algorithms/registry.ts';
import type { Check } from '../../src/core/counting/check.ts';
import { type ContractCase, createSubject, createUsed } from './algorithm-contract.ts';
import { ask, countAdmitted, createCheck, holdsSeats, look, next, nextKey, wouldPass } from './engines.ts';

/** These have no windows, so a late charge is a debt like any other. */
const BUCKET_KINDS: readonly AlgorithmId[] = ['token-bucket', 'leaky-bucket', 'gcra'];

export function settles(contractCase: ContractCase): void {
  if (holdsSeats(contractCase.rule.algorithm)) {
    it('refuses to settle a seat', async () => {
      const { engine, check, nowMs } = await createUsed(contractCase, 1);
      const settle = ask(engine, 'settle', { ...check, chargedAtMs: nowMs }, nowMs);
      await expect(settle).rejects.toThrow('check 1: seats cannot be settled');
    });
    return;
  }
  chargesTheRest(contractCase);
  keepsToTheWindow(contractCase);
}

function chargesTheRest(contractCase: ContractCase): void {
  it('charges the missing units like units that were taken with the request', async () => {
    const { engine, check, nowMs, capacity } = await createUsed(contractCase, 1);
    const settled = await ask(engine, 'settle', { ...check, cost: 2, chargedAtMs: nowMs }, nowMs);
    const known = createCheck({ ...contractCase.rule, cost: 3 });
    await ask(engine, 'take', known, nowMs);
    expect(settled).toMatchObject({ remaining: capacity - 3 });
    const { windowMs } = check;
    for (const afterMs of [0, 1, windowMs >> 1, windowMs - 1, windowMs, windowMs + 1, 2 * windowMs])
      expect(await look(engine, check, nowMs + afterMs)).toEqual(await look(engine, known, nowMs + afterMs));
  });

  it('charges whether there is room or not, up to a debt of its whole capacity', async () => {
    const { engine, check, nowMs, capacity } = await createUsed(contractCase);
    const change = (operation: 'settle' | 'refund', cost: number) =>
      ask(engine, operation, { ...check, cost, chargedAtMs: nowMs }, nowMs);
    expect(await change('settle', 1)).toMatchObject({ remaining: 0 });
    expect(await change('refund', 1)).toMatchObject({ remaining: 0 });
    expect(await change('refund', 1)).toMatchObject({ remaining: 1 });
    for (const cost of [5 * capacity, 1, 2 ** 52])
      expect(await change('settle', cost)).toMatchObject({ remaining: 0 });
    expect(await change('refund', capacity)).toMatchObject({ remaining: 0 });
    expect(await change('refund', 1)).toMatchObject({ remaining: 1 });
  });

  it('charges only up to the use that the call names, and nothing if that is reached', async () => {
    const { engine, check, nowMs, capacity } = await createUsed(contractCase, 1);
    const settle = (cost: number, mostUnits: number) =>
      ask(engine, 'settle', { ...check, cost, mostUnits, chargedAtMs: nowMs }, nowMs);
    expect(await settle(capacity, capacity - 1)).toMatchObject({ remaining: 1 });
    for (const most of [capacity - 1, 1]) expect(await settle(5, most)).toMatchObject({ remaining: 1 });
    expect(await settle(1, capacity)).toMatchObject({ remaining: 0 });
  });

  it('says exactly how long a debt denies requests', async () => {
    const { engine, check, nowMs, capacity } = await createUsed(contractCase);
    await ask(engine, 'settle', { ...check, cost: capacity + 1, chargedAtMs: nowMs }, nowMs);
    for (const cost of [1, capacity]) {
      const asked = next(check, { cost });
      const { retryAfterMs = Number.NaN } = await ask(engine, 'peek', asked, nowMs);
      expect(await wouldPass(engine, [asked], nowMs + retryAfterMs)).toBe(true);
      expect(await wouldPass(engine, [asked], nowMs + retryAfterMs - 1)).toBe(false);
    }
    const { resetAtMs } = await look(engine, check, nowMs);
    expect(await countAdmitted(engine, check, resetAtMs, capacity)).toBe(capacity);
  });

  it('charges every check of a request, even those of blocking and shadow rules', async () => {
    const { engine, check, nowMs, capacity } = await createSubject(contractCase);
    const blocked = createCheck({ ...contractCase.rule, key: check.key, id: 'blocked', blockMs: 9_000 });
    for (let i = 0; i <= capacity; i++) await ask(engine, 'take', blocked, nowMs);
    const log = createCheck({ ...contractCase.rule, key: nextKey(), isShadow: true });
    const checks = [blocked, check, log].map((one) => ({ ...one, cost: 2, chargedAtMs: nowMs }));
    const { outcomes } = await engine.run({ operation: 'settle', checks, nowMs });
    expect(outcomes).toMatchObject([
      { remaining: 0 },
      { remaining: capacity - 2 },
      { remaining: capacity - 2 },
    ]);
    // The block stays as it was. The settled units show when the block is over.
    const { check: free } = await createUsed(contractCase);
    await ask(engine, 'settle', { ...free, cost: 2, chargedAtMs: nowMs }, nowMs);
    expect(await look(engine, blocked, nowMs + 8_999)).toMatchObject({ allowed: false, remaining: 0 });
    expect(await look(engine, blocked, nowMs + 9_000)).toEqual(await look(engine, free, nowMs + 9_000));
  });
}

function keepsToTheWindow(contractCase: ContractCase): void {
  const isBucketKind = BUCKET_KINDS.includes(contractCase.rule.algorithm);

  if (isBucketKind) {
    it('settles at any later time, like a take at that time', async () => {
      const { engine, check, nowMs, capacity } = await createSubject(contractCase);
      const [taken, known] = [await ask(engine, 'take', check, nowMs), createCheck(contractCase.rule)];
      const lateMs = Math.max(taken.resetAtMs, nowMs + 2 * check.windowMs);
      await ask(engine, 'settle', { ...check, cost: capacity, chargedAtMs: nowMs }, lateMs);
      await ask(engine, 'take', { ...known, cost: capacity }, lateMs);
      expect(await look(engine, check, lateMs)).toEqual(await look(engine, known, lateMs));
    });

    it('gives back only tokens of that charge that are certainly missing, and none of another charge', async () => {
      const { engine, check, nowMs, capacity } = await createSubject(contractCase);
      const { resetAtMs } = await ask(engine, 'take', check, nowMs);
      await ask(engine, 'take', { ...check, cost: capacity }, resetAtMs);
      const before = await look(engine, check, resetAtMs);
      const refund = { ...check, chargedAtMs: nowMs };
      await ask(engine, 'refund', refund, resetAtMs);
      expect(await look(engine, check, resetAtMs)).toEqual(before);
    });

    it('gives back a part of a charge for as long as all of that charge would last', async () => {
      const { engine, check, nowMs, capacity } = await createSubject(contractCase);
      await ask(engine, 'take', { ...check, cost: capacity }, nowMs);
      const known = createCheck({ ...contractCase.rule, cost: capacity - 1 });
      await ask(engine, 'take', known, nowMs);
      const halfMs = nowMs + Math.floor((check.windowMs * (capacity - 1)) / check.limit / 2);
      if (halfMs - nowMs >= check.windowMs) return;
      await ask(engine, 'refund', { ...check, cost: 1, keptUnits: capacity - 1, chargedAtMs: nowMs }, halfMs);
      const left = async (one: Check) => (await look(engine, { ...one, cost: 1 }, halfMs)).remaining;
      expect(await left(check)).toBe(await left(known));
    });
  }

  if (!isBucketKind) untilTheWindowIsOver(contractCase);

  it('holds no more than twice its capacity, however late and often it is settled', async () => {
    const { engine, check, nowMs, capacity } = await createSubject(contractCase);
    const { resetAtMs } = await ask(engine, 'take', check, nowMs);
    const lastMs = (isBucketKind ? nowMs + check.windowMs : resetAtMs) - 1;
    const change = (operation: 'settle' | 'refund', cost: number, chargedAtMs: number) =>
      ask(engine, operation, { ...check, cost, chargedAtMs }, lastMs);
    for (let i = 0; i < 3; i++) await change('settle', 2 ** 52, nowMs);
    // A bucket is settled as if the units were taken now.
    const refunded = await change('refund', 2 * capacity, isBucketKind ? lastMs : nowMs);
    expect(refunded).toMatchObject({ remaining: capacity, resetAtMs: lastMs });
    expect(await engine.exists(check)).toBe(false);
  });

  if (isBucketKind) return;

  it('settles an earlier charge like a cost that was known from the start, despite later charges', async () => {
    const { engine, check, nowMs } = await createUsed(contractCase, 1);
    const known = createCheck({ ...contractCase.rule, cost: 2 });
    await ask(engine, 'take', known, nowMs);
    for (const since of [check, { ...known, cost: 1 }]) await ask(engine, 'take', since, nowMs + 1);
    await ask(engine, 'settle', { ...check, chargedAtMs: nowMs }, nowMs + 1);
    const { windowMs } = check;
    for (const afterMs of [1, windowMs >> 1, windowMs - 1, windowMs, windowMs + 1, 2 * windowMs])
      expect(await look(engine, check, nowMs + afterMs)).toEqual(await look(engine, known, nowMs + afterMs));
  });

  it('changes nothing if the clock went back to before the window of the charge', async () => {
    const { engine, check, nowMs, capacity } = await createUsed(contractCase, 2);
    const chargedAtMs = nowMs + 3 * check.windowMs;
    const before = await look(engine, check, nowMs);
    for (const operation of ['refund', 'settle'] as const) {
      await ask(engine, operation, { ...check, cost: capacity, chargedAtMs }, nowMs);
      expect(await look(engine, check, nowMs)).toEqual(before);
    }
  });
}

function untilTheWindowIsOver(contractCase: ContractCase): void {
  it('settles until the window of the charge is over, even without a stored counter, and not after that', async () => {
    const { engine, check, nowMs, capacity } = await createSubject(contractCase);
    const { resetAtMs } = await ask(engine, 'take', check, nowMs);
    const overMs = resetAtMs;
    const gone = createCheck(contractCase.rule);
    const settle = { ...gone, cost: capacity, chargedAtMs: nowMs };
    expect(await ask(engine, 'settle', settle, overMs)).toMatchObject({
      remaining: capacity,
      resetAtMs: overMs,
    });
    expect(await engine.exists(gone)).toBe(false);
    expect((await ask(engine, 'settle', settle, overMs - 1)).remaining).toBeLessThan(capacity);
    expect(await engine.exists(gone)).toBe(true);
  });

  it('changes nothing in a later window than that of the charge', async () => {
    const { engine, check, nowMs, capacity } = await createSubject(contractCase);
    const { resetAtMs } = await ask(engine, 'take', check, nowMs);
    const laterMs = Math.max(resetAtMs, nowMs + check.windowMs);
    await ask(engine, 'take', check, laterMs);
    const before = await look(engine, check, laterMs);
    await ask(engine, 'settle', { ...check, cost: capacity, chargedAtMs: nowMs }, laterMs);
    expect(await look(engine, check, laterMs)).toEqual(before);
  });
}
