// What every algorithm promises about rules that apply together, and about the options of a rule.
import { expect, it } from 'vitest';
import { ALGORITHM_IDS } from '../../src/core/counting/algorithms/registry.ts';
import { type Check, problemOf } from '../../src/core/counting/check.ts';
import { type ContractCase, createSubject, createUsed } from './algorithm-contract.ts';
import { ask, createCheck, type Engine, look, next, nextKey, wouldPass } from './engines.ts';

const take = async (engine: Engine, checks: readonly Check[], nowMs: number) =>
  (await engine.run({ operation: 'take', checks, nowMs })).outcomes;

/** A rule of another algorithm with nothing left. */
async function createFull(
  engine: Engine,
  rule: Pick<Check, 'algorithm' | 'key' | 'id'>,
  nowMs: number,
): Promise<Check> {
  const check = createCheck({ limit: 2, windowMs: 3_600_000, cost: 2, ...rule });
  await ask(engine, 'take', check, nowMs);
  return next(check, { cost: 1 });
}

export function combinesRules(contractCase: ContractCase): void {
  for (const algorithm of ALGORITHM_IDS)
    it(`charges nothing for a request that a rule of ${algorithm} denies, before or after it`, async () => {
      const { engine, check, nowMs, capacity } = await createSubject(contractCase);
      for (const key of [check.key, nextKey()]) {
        const full = await createFull(engine, { algorithm, key, id: 'full' }, nowMs);
        for (const checks of [
          [full, next(check)],
          [next(check), full],
        ]) {
          const outcomes = await take(engine, checks, nowMs);
          expect(outcomes.map(({ allowed }) => allowed)).toEqual(checks.map((one) => one !== full));
          expect((await look(engine, check, nowMs)).remaining).toBe(capacity);
        }
      }
    });

  it('charges all rules of a request that all of them allow', async () => {
    const { engine, check, nowMs, capacity } = await createSubject(contractCase);
    const others = ALGORITHM_IDS.map((algorithm) =>
      createCheck({ algorithm, limit: 5, windowMs: 3_600_000, cost: 2 }),
    );
    await take(engine, [next(check), ...others], nowMs);
    expect((await look(engine, check, nowMs)).remaining).toBe(capacity - 1);
    for (const other of others) expect((await look(engine, other, nowMs)).remaining).toBe(3);
  });

  it('makes a request wait as long as the slowest of the rules that deny it', async () => {
    const { engine, check, nowMs } = await createUsed(contractCase);
    const checks = [next(check)];
    for (const algorithm of ALGORITHM_IDS)
      checks.push(await createFull(engine, { algorithm, key: nextKey(), id: 'full' }, nowMs));
    const waits = (await take(engine, checks, nowMs)).map(({ retryAfterMs = Number.NaN }) => retryAfterMs);
    const longestMs = Math.max(...waits);
    expect(await wouldPass(engine, checks, nowMs + longestMs)).toBe(true);
    expect(await wouldPass(engine, checks, nowMs + longestMs - 1)).toBe(false);
  });

  it('never denies as a shadow rule, and reports what it would have done', async () => {
    const { engine, check, nowMs } = await createUsed(contractCase);
    const before = await look(engine, check, nowMs);
    const enforced = createCheck({ ...contractCase.rule, key: nextKey() });
    const { remaining: capacity } = await look(engine, enforced, nowMs);
    const [logged, passed] = await take(engine, [next(check, { isShadow: true }), enforced], nowMs);
    expect(logged).toMatchObject({ allowed: false, remaining: 0, retryAfterMs: before.retryAfterMs });
    expect(passed).toMatchObject({ allowed: true, remaining: capacity - 1 });
    expect(await look(engine, check, nowMs)).toEqual(before);
  });

  it('charges a shadow rule only if the request passes', async () => {
    const { engine, check, nowMs, capacity } = await createSubject(contractCase);
    const log = () => next(check, { isShadow: true });
    const full = await createFull(engine, { algorithm: 'fixed-window', key: nextKey(), id: 'full' }, nowMs);
    await take(engine, [log(), full], nowMs);
    expect((await look(engine, check, nowMs)).remaining).toBe(capacity);
    await take(engine, [log()], nowMs);
    expect((await look(engine, check, nowMs)).remaining).toBe(capacity - 1);
  });

  it('neither counts nor blocks as a shadow rule for a request that another rule denies', async () => {
    const { engine, check, nowMs } = await createUsed(contractCase);
    const before = await look(engine, check, nowMs);
    const counting = next(check, { countDenied: true });
    const options = {
      isShadow: true,
      blockMs: 3_600_000,
      countDenied: problemOf(counting, 'take') === undefined,
    };
    const full = await createFull(engine, { algorithm: 'fixed-window', key: nextKey(), id: 'full' }, nowMs);
    for (const asked of [next(check, options), next(check, { ...options, cost: 2 })]) {
      await take(engine, [asked, full], nowMs);
      await take(engine, [full, asked], nowMs);
      expect(await look(engine, check, nowMs)).toEqual(before);
    }
  });
}

export function keepsViolatorsOut(contractCase: ContractCase): void {
  const counting = { countDenied: true } as const;

  it('counts denied requests up to a debt of its whole capacity, or refuses to count them', async () => {
    const { engine, check, nowMs, capacity } = await createUsed(contractCase);
    const asked = () => next(check, counting);
    const problem = problemOf(asked(), 'take');
    if (problem !== undefined) {
      await expect(ask(engine, 'take', asked(), nowMs)).rejects.toThrow(problem);
      return;
    }
    const refund = (cost: number) => ask(engine, 'refund', { ...check, cost, chargedAtMs: nowMs }, nowMs);
    expect(await ask(engine, 'take', asked(), nowMs)).toMatchObject({ allowed: false, remaining: 0 });
    expect(await refund(1)).toMatchObject({ remaining: 0 });
    expect(await refund(1)).toMatchObject({ remaining: 1 });
    await ask(engine, 'take', next(check), nowMs);
    for (let i = 0; i < 3 * capacity; i++) await ask(engine, 'take', asked(), nowMs);
    expect(await refund(capacity)).toMatchObject({ remaining: 0 });
    expect(await refund(1)).toMatchObject({ remaining: 1 });
  });

  it('does not count a denied request that only another rule denied', async () => {
    const { engine, check, nowMs, capacity } = await createSubject(contractCase);
    if (problemOf(next(check, counting), 'take') !== undefined) return;
    const full = await createFull(engine, { algorithm: 'fixed-window', key: nextKey(), id: 'full' }, nowMs);
    await take(engine, [next(check, counting), full], nowMs);
    expect((await look(engine, check, nowMs)).remaining).toBe(capacity);
  });

  it('blocks a subject beyond the limit for the set time, and asking again does not extend the block', async () => {
    const { engine, check, nowMs, capacity } = await createUsed(contractCase);
    const { resetAtMs } = await look(engine, check, nowMs);
    const blockMs = resetAtMs - nowMs + 1_000;
    const untilMs = nowMs + blockMs;
    const asked = () => next(check, { blockMs });
    const blocked = { allowed: false, remaining: 0, resetAtMs: untilMs };
    // A peek starts no block, so its wait is that of the counter.
    const { retryAfterMs = Number.NaN } = await ask(engine, 'peek', asked(), nowMs);
    expect(retryAfterMs).toBeLessThan(blockMs);
    expect(await wouldPass(engine, [asked()], nowMs + retryAfterMs)).toBe(true);
    expect(await ask(engine, 'take', asked(), nowMs)).toMatchObject({ ...blocked, retryAfterMs: blockMs });
    expect(await ask(engine, 'take', asked(), nowMs + 1)).toMatchObject({
      ...blocked,
      retryAfterMs: blockMs - 1,
    });
    expect(await ask(engine, 'take', asked(), untilMs - 1)).toMatchObject({ ...blocked, retryAfterMs: 1 });
    expect(await look(engine, check, untilMs - 1)).toMatchObject(blocked);
    expect(await ask(engine, 'take', asked(), untilMs)).toMatchObject({
      allowed: true,
      remaining: capacity - 1,
    });
  });

  it('does not shorten a wait by a block, and does not block for a cost above its capacity', async () => {
    const { engine, check, nowMs, capacity } = await createUsed(contractCase);
    const { retryAfterMs } = await look(engine, check, nowMs);
    expect(await ask(engine, 'take', next(check, { blockMs: 1 }), nowMs)).toMatchObject({ retryAfterMs });
    const unused = createCheck(contractCase.rule);
    const never = { cost: capacity + 1, blockMs: 1_000 };
    expect(await ask(engine, 'take', next(unused, never), nowMs)).toMatchObject({ retryAfterMs: undefined });
    expect(await ask(engine, 'take', next(unused), nowMs)).toMatchObject({ allowed: true });
  });
}
