// What every algorithm promises when another region takes over what was used here.
import { expect, it } from 'vitest';
import type { AlgorithmId } from '../../src/core/algorithms/registry.ts';
import type { Check } from '../../src/core/check.ts';
import { type ContractCase, createUsed } from './algorithm-contract.ts';
import { ask, countAdmitted, createCheck, holdsLeases, look, nextKey } from './engines.ts';

/** What they hold drains, here and there. */
const DRAINING: readonly AlgorithmId[] = ['token-bucket', 'leaky-bucket', 'gcra'];
/** They remember when each unit was charged. */
const REMEMBERING: readonly AlgorithmId[] = ['sliding-window-log', 'sliding-window-buckets'];

type Relief = NonNullable<Check['relief']>;

/** By a region that drains nothing to speak of while this is looked at. */
const relieved = (check: Check, relief: Partial<Relief> & Pick<Relief, 'units' | 'sinceMs'>): Check => ({
  ...check,
  relief: { fullLimit: 1, ...relief },
});

export function isRelieved(contractCase: ContractCase): void {
  const { algorithm } = contractCase.rule;
  if (holdsLeases(algorithm)) {
    it('refuses to have a lease taken over', async () => {
      const { engine, check, nowMs } = await createUsed(contractCase, 1);
      const taken = ask(engine, 'take', relieved(check, { units: 1, sinceMs: nowMs }), nowMs);
      await expect(taken).rejects.toThrow('check 1: leases cannot be taken over');
    });
    return;
  }
  makesRoom(contractCase);
  isKeptWhateverElse(contractCase);
  if (DRAINING.includes(algorithm)) drainsOnTheWay(contractCase);
  else endsWithTheWindow(contractCase);
  if (REMEMBERING.includes(algorithm)) takesTheNewestFirst(contractCase);
  if (algorithm === 'sliding-window-counter') weighsThePreviousWindow(contractCase);
}

function makesRoom(contractCase: ContractCase): void {
  it('lets exactly as many more pass as another region has taken over', async () => {
    const { capacity } = await createUsed(contractCase, 0);
    for (let units = 1; units <= capacity; units++) {
      const { engine, check, nowMs } = await createUsed(contractCase);
      const taken = await ask(engine, 'take', relieved(check, { units, sinceMs: nowMs }), nowMs);
      expect(taken).toMatchObject({ allowed: true, remaining: units - 1, retryAfterMs: 0 });
      expect(await countAdmitted(engine, check, nowMs, capacity)).toBe(units - 1);
    }
  });

  it('leases what it was relieved of', async () => {
    const { engine, check, nowMs, capacity } = await createUsed(contractCase);
    const asked = { ...relieved(check, { units: 2, sinceMs: nowMs }), want: capacity };
    expect(await ask(engine, 'take', asked, nowMs)).toMatchObject({
      allowed: true,
      granted: 1,
      remaining: 0,
    });
  });

  it('is relieved of no more than it has used', async () => {
    const { engine, check, nowMs, capacity } = await createUsed(contractCase, 2);
    for (const units of [3, 5 * capacity, 2 ** 52]) {
      const taken = await ask(engine, 'take', relieved(check, { units, sinceMs: nowMs }), nowMs);
      expect(taken).toMatchObject({ allowed: true, remaining: capacity - 1 });
    }
  });

  it('ends as if the rest were all that was ever taken', async () => {
    const { engine, check, nowMs, capacity } = await createUsed(contractCase);
    await ask(engine, 'take', relieved(check, { units: 2, sinceMs: nowMs }), nowMs);
    const { check: known } = await createUsed(contractCase, capacity - 1);
    const { windowMs } = check;
    for (const afterMs of [0, 1, windowMs >> 1, windowMs - 1, windowMs, windowMs + 1, 2 * windowMs])
      expect(await look(engine, check, nowMs + afterMs)).toEqual(await look(engine, known, nowMs + afterMs));
  });

  it('keeps nothing if nothing is left of it', async () => {
    const { engine, check, nowMs, capacity } = await createUsed(contractCase);
    const never = { ...relieved(check, { units: capacity, sinceMs: nowMs }), cost: capacity + 1 };
    expect(await ask(engine, 'take', never, nowMs)).toMatchObject({ allowed: false, remaining: capacity });
    expect(await engine.exists(check)).toBe(false);
  });
}

function isKeptWhateverElse(contractCase: ContractCase): void {
  it('keeps a relief though the take is denied by another check', async () => {
    const { engine, check, nowMs } = await createUsed(contractCase);
    const { check: empty } = await createUsed(contractCase);
    const checks = [relieved(check, { units: 2, sinceMs: nowMs }), empty];
    const { outcomes } = await engine.run({ operation: 'take', checks, nowMs });
    expect(outcomes).toMatchObject([
      { allowed: true, remaining: 2 },
      { allowed: false, remaining: 0 },
    ]);
    expect(await look(engine, check, nowMs)).toMatchObject({ allowed: true, remaining: 2 });
  });

  it('keeps a relief that is too small for the take, and for the next one', async () => {
    const { engine, check, nowMs } = await createUsed(contractCase);
    const asked = { ...relieved(check, { units: 1, sinceMs: nowMs }), cost: 2 };
    expect(await ask(engine, 'take', asked, nowMs)).toMatchObject({ allowed: false, remaining: 1 });
    expect(await ask(engine, 'take', asked, nowMs)).toMatchObject({ allowed: true, remaining: 0 });
  });

  it('relieves each check of its own, and one that is not relieved of nothing', async () => {
    const { engine, check, nowMs, capacity } = await createUsed(contractCase);
    const { check: other } = await createUsed(contractCase);
    const free = createCheck({ ...contractCase.rule, key: nextKey() });
    const sinceMs = nowMs;
    const checks = [relieved(check, { units: 1, sinceMs }), relieved(other, { units: 3, sinceMs }), free];
    const { outcomes } = await engine.run({ operation: 'take', checks, nowMs });
    expect(outcomes).toMatchObject([{ remaining: 0 }, { remaining: 2 }, { remaining: capacity - 1 }]);
  });

  it('stays blocked, and is relieved once that is over', async () => {
    const blocking = { ...contractCase, rule: { ...contractCase.rule, blockMs: 7 } };
    const { engine, check, nowMs } = await createUsed(blocking);
    await ask(engine, 'take', check, nowMs);
    const asked = relieved(check, { units: 1, sinceMs: nowMs });
    expect(await ask(engine, 'take', asked, nowMs)).toMatchObject({
      allowed: false,
      remaining: 0,
      retryAfterMs: 7,
    });
    expect(await look(engine, check, nowMs + 7)).toMatchObject({ allowed: true });
  });
}

function endsWithTheWindow(contractCase: ContractCase): void {
  it('is relieved of nothing that was used after another region was asked', async () => {
    const { engine, check, nowMs } = await createUsed(contractCase);
    const before = await look(engine, check, nowMs);
    const sinceMs = nowMs - contractCase.rule.windowMs;
    expect(await ask(engine, 'take', relieved(check, { units: 2, sinceMs }), nowMs)).toMatchObject({
      allowed: false,
      remaining: 0,
    });
    expect(await look(engine, check, nowMs)).toEqual(before);
  });

  it('is relieved of nothing that no longer counts', async () => {
    const { engine, check, nowMs, capacity } = await createUsed(contractCase);
    const { resetAtMs } = await look(engine, check, nowMs);
    expect(await look(engine, check, resetAtMs)).toMatchObject({ remaining: capacity });
    const { check: known } = await createUsed({ ...contractCase, nowMs: resetAtMs }, 1);
    await ask(engine, 'take', relieved(check, { units: 2, sinceMs: nowMs }), resetAtMs);
    expect(await look(engine, check, resetAtMs)).toEqual(await look(engine, known, resetAtMs));
  });
}

function takesTheNewestFirst(contractCase: ContractCase): void {
  const { windowMs } = contractCase.rule;
  if (windowMs < 100) return;

  it('is relieved of the newest first: the oldest leaves when it should, and nothing else does', async () => {
    const { engine, check, nowMs, capacity } = await createUsed(contractCase, 1);
    const newMs = nowMs + Math.ceil(windowMs / 2);
    await ask(engine, 'take', { ...check, cost: capacity - 1 }, newMs);
    const { retryAfterMs: oldLeavesMs = 0 } = await look(engine, check, newMs);
    // Of the two that are left, one is old and one is new; a third is taken.
    await ask(engine, 'take', relieved(check, { units: capacity - 2, sinceMs: newMs }), newMs);
    const left = async (atMs: number) => (await look(engine, check, atMs)).remaining;
    expect(await left(newMs)).toBe(capacity - 3);
    expect(await left(newMs + oldLeavesMs - 1)).toBe(capacity - 3);
    expect(await left(newMs + oldLeavesMs)).toBe(capacity - 2);
  });

  it('passes over what is newer than what another region has charged', async () => {
    const { engine, check, nowMs, capacity } = await createUsed(contractCase, 2);
    const newMs = nowMs + Math.ceil(windowMs / 2);
    await ask(engine, 'take', { ...check, cost: capacity - 2 }, newMs);
    const asked = relieved({ ...check, cost: 2 }, { units: capacity, sinceMs: nowMs });
    expect(await ask(engine, 'take', asked, newMs)).toMatchObject({ allowed: true, remaining: 0 });
    const { resetAtMs } = await look(engine, check, newMs);
    expect(await look(engine, check, resetAtMs - 1)).toMatchObject({ remaining: 0 });
  });
}

function drainsOnTheWay(contractCase: ContractCase): void {
  const { windowMs, limit } = contractCase.rule;

  it('is relieved only of what has not drained on the way', async () => {
    const { capacity } = await createUsed(contractCase, 0);
    // Of what another region was charged, a unit drains there in this time.
    const unitMs = windowMs;
    for (const [afterMs, left] of [
      [0, 2],
      [1, 1],
      [unitMs, 1],
      [unitMs + 1, 0],
      [2 * unitMs, 0],
    ] as const) {
      const atMs = contractCase.nowMs + afterMs;
      const { engine, check } = await createUsed({ ...contractCase, nowMs: atMs });
      const asked = relieved(check, { units: 2, sinceMs: contractCase.nowMs, fullLimit: 1 });
      const never = { ...asked, cost: capacity + 1 };
      expect(await ask(engine, 'take', never, atMs)).toMatchObject({ allowed: false, remaining: left });
    }
  });

  it('drains at its own pace afterwards', async () => {
    const { engine, check, nowMs, capacity } = await createUsed(contractCase);
    const asked = { ...relieved(check, { units: 1, sinceMs: nowMs }), cost: capacity + 1 };
    await ask(engine, 'take', asked, nowMs);
    const { resetAtMs } = await look(engine, check, nowMs);
    expect(resetAtMs).toBe(nowMs + Math.ceil(((capacity - 1) * windowMs) / limit));
  });
}

function weighsThePreviousWindow({ engine: started }: ContractCase): void {
  it('is relieved of the current window first, then of as much of the previous one as weighs the rest', async () => {
    const engine = started();
    const startMs = 1_800_000_000_000;
    const check = createCheck({ algorithm: 'sliding-window-counter', limit: 10, windowMs: 1_000 });
    await ask(engine, 'take', { ...check, cost: 10 }, startMs);
    const nowMs = startMs + 1_500;
    expect(await ask(engine, 'take', { ...check, cost: 4 }, nowMs)).toMatchObject({ remaining: 1 });
    const relieve = (units: number, sinceMs: number) =>
      ask(engine, 'take', { ...relieved(check, { units, sinceMs }), cost: 11 }, nowMs);
    // Of 10 in the previous window, 5 still count; the 4 of the current one go first.
    expect(await relieve(3, nowMs)).toMatchObject({ remaining: 4 });
    expect(await look(engine, check, startMs + 1_600)).toMatchObject({ remaining: 5 });
    // The last of the current window, and 4 of the previous one, which weigh 2.
    expect(await relieve(3, nowMs)).toMatchObject({ remaining: 7 });
    expect(await look(engine, check, startMs + 1_833)).toMatchObject({ remaining: 8 });
    expect(await look(engine, check, startMs + 1_834)).toMatchObject({ remaining: 9 });
    // Asked in the previous window: the other region's charge is fading there as well.
    expect(await relieve(3, startMs + 999)).toMatchObject({ remaining: 7 });
  });

  it('is relieved of no more of the previous window than weighs the rest, rounded down', async () => {
    const engine = started();
    const startMs = 1_800_000_000_000;
    const check = createCheck({ algorithm: 'sliding-window-counter', limit: 10, windowMs: 1_000 });
    await ask(engine, 'take', { ...check, cost: 10 }, startMs);
    // Of each 10 that were used, 7 still count. One unit weighs as much as 1.4 of those: one of them goes.
    const nowMs = startMs + 1_300;
    const asked = { ...relieved(check, { units: 1, sinceMs: nowMs }), cost: 11 };
    expect(await ask(engine, 'take', asked, nowMs)).toMatchObject({ remaining: 3 });
    expect(await ask(engine, 'take', asked, nowMs)).toMatchObject({ remaining: 4 });
  });
}

/** Parts of a limit change while their counters live: what was taken stays taken, whatever a unit is worth now. */
export function keepsWhatWasTaken({ engine: started, rule, nowMs }: ContractCase): void {
  if (!DRAINING.includes(rule.algorithm)) return;
  const under = (check: Check, limit: number) => ({ ...check, limit, extra: limit });

  it('is missing as many units under another limit and burst', async () => {
    const engine = started();
    const check = createCheck({ ...rule, limit: 10, extra: 10 });
    await ask(engine, 'take', { ...check, cost: 6 }, nowMs);
    expect(await look(engine, under(check, 20), nowMs)).toMatchObject({ remaining: 14 });
    expect(await look(engine, under(check, 5), nowMs)).toMatchObject({
      allowed: false,
      remaining: 0,
      retryAfterMs: Math.ceil((2 * rule.windowMs) / 5),
    });
    expect(await ask(engine, 'take', under(check, 7), nowMs)).toMatchObject({ remaining: 0 });
    expect(await look(engine, check, nowMs)).toMatchObject({ remaining: 3 });
    expect(await look(engine, under(check, 7), nowMs + rule.windowMs)).toMatchObject({ remaining: 7 });
  });
}
