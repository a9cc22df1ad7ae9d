// What every algorithm promises, however it works inside. One suite for all of them, on any engine.
import { expect, it } from 'vitest';
import type { Check } from '../../src/core/counting/check.ts';
import {
  ask,
  countAdmitted,
  createCheck,
  type Engine,
  look,
  next,
  type RuleShape,
  wouldPass,
} from './engines.ts';

export interface ContractCase {
  readonly engine: () => Engine;
  readonly rule: RuleShape;
  readonly nowMs: number;
}

interface Subject {
  readonly engine: Engine;
  readonly check: Check;
  readonly nowMs: number;
  readonly capacity: number;
}

/** A subject that nobody has seen yet. */
export async function createSubject({ engine, rule, nowMs }: ContractCase): Promise<Subject> {
  const check = createCheck(rule);
  const { remaining: capacity } = await look(engine(), check, nowMs);
  return { engine: engine(), check, nowMs, capacity };
}

/** A subject that has used this many units, one by one. The default is all of them. */
export async function createUsed(contractCase: ContractCase, units?: number): Promise<Subject> {
  const subject = await createSubject(contractCase);
  const { engine, check, nowMs, capacity } = subject;
  for (let i = 0; i < (units ?? capacity); i++) await ask(engine, 'take', next(check), nowMs);
  return subject;
}

export function countsExactly(contractCase: ContractCase): void {
  it('admits exactly its capacity at one instant, and not one unit more', async () => {
    const { engine, check, nowMs, capacity } = await createSubject(contractCase);
    expect([contractCase.rule.limit, contractCase.rule.extra]).toContain(capacity);
    for (let left = capacity - 1; left >= 0; left--)
      expect(await ask(engine, 'take', next(check), nowMs)).toMatchObject({
        allowed: true,
        remaining: left,
        retryAfterMs: 0,
        granted: 0,
      });
    const denied = await ask(engine, 'take', next(check), nowMs);
    expect(denied).toMatchObject({ allowed: false, remaining: 0, granted: 0 });
    expect(denied.retryAfterMs).toBeGreaterThan(0);
  });

  it('takes all units of a request at once, or none', async () => {
    const { engine, check, nowMs, capacity } = await createSubject(contractCase);
    const take = (cost: number) => ask(engine, 'take', next(check, { cost }), nowMs);
    expect(await take(2)).toMatchObject({ allowed: true, remaining: capacity - 2 });
    expect(await take(capacity - 1)).toMatchObject({ allowed: false, remaining: capacity - 2 });
    expect(await take(capacity - 2)).toMatchObject({ allowed: true, remaining: 0 });
  });

  it('denies a cost above its capacity for good, and charges nothing for it', async () => {
    const { engine, check, nowMs, capacity } = await createSubject(contractCase);
    const tooMuch = () => ask(engine, 'take', next(check, { cost: capacity + 1 }), nowMs);
    const forGood = { allowed: false, retryAfterMs: undefined, granted: 0 };
    expect(await tooMuch()).toMatchObject({ ...forGood, remaining: capacity });
    expect(await engine.exists(check)).toBe(false);
    await ask(engine, 'take', next(check), nowMs);
    expect(await tooMuch()).toMatchObject({ ...forGood, remaining: capacity - 1 });
  });

  it('answers a peek like a take, and charges nothing', async () => {
    const { engine, check, nowMs, capacity } = await createUsed(contractCase, 1);
    for (let cost = 1; cost <= capacity + 1; cost++) {
      const asked = next(check, { cost });
      const peeked = await ask(engine, 'peek', asked, nowMs);
      expect(peeked.remaining).toBe(capacity - 1);
      expect(await ask(engine, 'peek', asked, nowMs)).toEqual(peeked);
      const [copy = asked] = await engine.fork([asked], nowMs);
      const taken = await ask(engine, 'take', copy, nowMs);
      expect(taken.allowed).toBe(cost <= capacity - 1);
      expect(peeked).toEqual(taken.allowed ? { ...taken, ...room(peeked) } : taken);
    }
  });

  it('leases the wanted units beyond the cost, as far as there is room', async () => {
    const { engine, check, nowMs, capacity } = await createSubject(contractCase);
    const take = (leaseUnits: number) => ask(engine, 'take', { ...next(check), leaseUnits }, nowMs);
    expect(await take(1)).toMatchObject({ allowed: true, granted: 1, remaining: capacity - 2 });
    expect(await take(1_000)).toMatchObject({ allowed: true, granted: capacity - 3, remaining: 0 });
    expect(await take(1_000)).toMatchObject({ allowed: false, granted: 0, remaining: 0 });
  });

  it('keeps the counters of two rules under one key apart', async () => {
    const { engine, check, nowMs, capacity } = await createUsed(contractCase);
    const other = next(check, { id: 'other-rule' });
    expect(await ask(engine, 'take', other, nowMs)).toMatchObject({ allowed: true, remaining: capacity - 1 });
    expect(await ask(engine, 'take', next(check), nowMs)).toMatchObject({ allowed: false, remaining: 0 });
  });
}

/** The fields of an outcome that a charge changes. */
const room = ({ remaining, resetAtMs }: { remaining: number; resetAtMs: number }) => ({
  remaining,
  resetAtMs,
});

export function givesBack(contractCase: ContractCase): void {
  it('gives a charge back at once and exactly', async () => {
    const { engine, check, nowMs } = await createUsed(contractCase, 1);
    const before = await look(engine, check, nowMs);
    const request = next(check, { cost: 2 });
    await ask(engine, 'take', request, nowMs);
    const refunded = await ask(engine, 'refund', { ...request, chargedAtMs: nowMs }, nowMs);
    expect(refunded).toEqual({ remaining: before.remaining, resetAtMs: before.resetAtMs });
    expect(await look(engine, check, nowMs)).toEqual(before);
  });

  it('gives nothing back for a charge whose window is over', async () => {
    const { engine, check, nowMs, capacity } = await createSubject(contractCase);
    const early = next(check, { cost: 2 });
    const { resetAtMs } = await ask(engine, 'take', early, nowMs);
    const laterMs = Math.max(resetAtMs, nowMs + check.windowMs);
    await ask(engine, 'take', next(check, { cost: capacity }), laterMs);
    const before = await look(engine, check, laterMs);
    await ask(engine, 'refund', { ...early, chargedAtMs: nowMs }, laterMs);
    expect(before.remaining).toBe(0);
    expect(await look(engine, check, laterMs)).toEqual(before);
  });

  it('never gives back more than was charged, and stores nothing for a refund', async () => {
    const { engine, check, nowMs, capacity } = await createSubject(contractCase);
    const refund = { ...check, cost: capacity + 5, chargedAtMs: nowMs };
    expect(await ask(engine, 'refund', refund, nowMs)).toMatchObject({ remaining: capacity });
    expect(await engine.exists(check)).toBe(false);
    await ask(engine, 'take', { ...check, cost: 2 }, nowMs);
    expect(await ask(engine, 'refund', refund, nowMs)).toMatchObject({ remaining: capacity });
    expect(await engine.exists(check)).toBe(false);
    expect(await countAdmitted(engine, check, nowMs, capacity)).toBe(capacity);
  });
}

export function tellsTheTruth(contractCase: ContractCase): void {
  const moments = ({ nowMs, check: { windowMs, limit } }: Subject) =>
    [0, 1, Math.ceil(windowMs / limit), windowMs >> 1, windowMs - 1, windowMs, windowMs + 1].map(
      (after) => nowMs + after,
    );

  it('says how many units remain: exactly that many pass', async () => {
    const subject = await createUsed(contractCase);
    const { engine, check, capacity } = subject;
    for (const nowMs of moments(subject)) {
      const { remaining } = await look(engine, check, nowMs);
      expect(await countAdmitted(engine, check, nowMs, capacity)).toBe(remaining);
    }
  });

  it('says how long to wait: after that a request passes, and 1 ms earlier it does not', async () => {
    const subject = await createUsed(contractCase);
    const { engine, check, capacity } = subject;
    for (const nowMs of moments(subject))
      for (const cost of [1, 2, capacity]) {
        const asked = next(check, { cost });
        const { allowed, retryAfterMs = Number.NaN } = await ask(engine, 'peek', asked, nowMs);
        expect(await wouldPass(engine, [asked], nowMs + retryAfterMs)).toBe(true);
        if (!allowed) expect(await wouldPass(engine, [asked], nowMs + retryAfterMs - 1)).toBe(false);
      }
  });

  it('says when the whole limit is free again: then, and not 1 ms earlier', async () => {
    for (const units of [1, 2, undefined]) {
      const { engine, check, nowMs, capacity } = await createUsed(contractCase, units);
      const { resetAtMs } = await look(engine, check, nowMs);
      expect((await look(engine, check, resetAtMs)).remaining).toBe(capacity);
      expect((await look(engine, check, resetAtMs - 1)).remaining).toBeLessThan(capacity);
    }
  });

  it('locks nobody out after the clock went back by more than a window', async () => {
    const { engine, check, nowMs, capacity } = await createSubject(contractCase);
    // Seats stay until their own end: somebody may still hold them.
    if (check.algorithm === 'concurrency') return;
    const aheadMs = nowMs + 10 * check.windowMs;
    await ask(engine, 'take', next(check, { cost: capacity }), aheadMs);
    expect(await look(engine, check, nowMs)).toMatchObject({ allowed: true, remaining: capacity });
    expect(await countAdmitted(engine, check, nowMs, capacity)).toBe(capacity);
  });

  it('has nothing to reset, and nothing to wait for, before the first charge', async () => {
    const { engine, check, nowMs, capacity } = await createSubject(contractCase);
    const untouched = {
      allowed: true,
      remaining: capacity,
      resetAtMs: nowMs,
      retryAfterMs: 0,
      granted: 0,
      delayMs: 0,
    };
    expect(await look(engine, check, nowMs)).toEqual(untouched);
  });
}

/** Several limits can read one counter: two keys of one user with different tiers, or an old rule and a new one. */
export function remembersUnderAnyLimit(contractCase: ContractCase): void {
  // Another number of buckets would be another counter. A burst is part of the limit.
  const isBuckets = contractCase.rule.algorithm === 'sliding-window-buckets';
  const FEW = { limit: 1, ...(isBuckets ? {} : { extra: undefined }) };

  it('forgets nothing when a smaller limit denies a request and counts it', async () => {
    const { engine, check, nowMs } = await createUsed(contractCase);
    if (check.algorithm === 'concurrency') return;
    await ask(engine, 'take', next(check, { ...FEW, countDenied: true }), nowMs);
    expect(await look(engine, check, nowMs)).toMatchObject({ allowed: false, remaining: 0 });
  });

  it('gives back no more than asked for when a smaller limit refunds', async () => {
    const { engine, check, nowMs } = await createUsed(contractCase);
    if (check.algorithm === 'concurrency') return;
    const later = nowMs + Math.min(check.windowMs - 1, 1);
    const before = await look(engine, check, later);
    await ask(engine, 'refund', next(check, { ...FEW, chargedAtMs: nowMs }), later);
    const { remaining } = await look(engine, check, later);
    expect(remaining).toBeLessThanOrEqual(before.remaining + 1);
  });

  it('forgets nothing when a smaller limit refunds a charge of the window before', async () => {
    const { engine, check, nowMs } = await createUsed(contractCase);
    if (check.algorithm === 'concurrency') return;
    const later = nowMs + check.windowMs;
    const before = await look(engine, check, later);
    await ask(engine, 'refund', next(check, { ...FEW, chargedAtMs: nowMs }), later);
    const { remaining } = await look(engine, check, later);
    expect(remaining).toBeLessThanOrEqual(before.remaining + 1);
  });
}
