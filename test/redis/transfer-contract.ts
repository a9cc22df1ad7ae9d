// What every algorithm promises to a region that transfers its part: it transfers only an empty counter, counts nothing until
// all charges that its owner may have made have stopped counting, and then starts from nothing.
import { describe, expect, it } from 'vitest';
import type { Check } from '../../src/core/counting/check.ts';
import { IDLE_MS } from '../../src/core/counting/transfer.ts';
import type { ContractCase } from './algorithm-contract.ts';
import { ask, createCheck, look, nextSeatId } from './engines.ts';

const TERM_MS = 5_000;
const HOLD_MS = 2_000;
const to = (owner: string) => ({ owner, termMs: TERM_MS, holdMs: HOLD_MS });

export function transfers({ engine, rule, nowMs }: ContractCase): void {
  const create = () => createCheck(rule);
  const transfer = (check: Check, owner: string, atMs: number) =>
    ask(engine(), 'transfer', { ...check, transfer: to(owner) }, atMs);
  const endMs = nowMs + TERM_MS + HOLD_MS;

  it('transfers an empty counter, and names the owner in every later answer', async () => {
    const check = create();
    expect(await transfer(check, 'eu', nowMs)).toEqual({ kind: 'transferred', untilMs: endMs });
    for (const operation of ['take', 'peek'] as const)
      expect(await ask(engine(), operation, check, endMs - 1)).toMatchObject({
        allowed: false,
        retryAfterMs: 1,
        transferredTo: { name: 'eu', usableMs: 0 },
        resetAtMs: endMs,
      });
  });

  it('starts from nothing when the transfer is over', async () => {
    const check = create();
    const untouched = await look(engine(), check, endMs);
    await transfer(check, 'eu', nowMs);
    await ask(engine(), 'take', check, nowMs);
    expect(await look(engine(), check, endMs)).toEqual(untouched);
    expect(await ask(engine(), 'take', check, endMs)).toMatchObject({ allowed: true });
  });

  it('transfers a counter only some time after its last charge stopped counting, and says when', async () => {
    const check = create();
    const { resetAtMs } = await ask(engine(), 'take', check, nowMs);
    const refused = await transfer(check, 'eu', nowMs);
    const idleAtMs = resetAtMs + IDLE_MS;
    expect(refused).toMatchObject({ kind: 'in-use', retryAfterMs: idleAtMs - nowMs });
    expect(await look(engine(), check, nowMs)).toMatchObject({ allowed: true });
    expect(await transfer(check, 'eu', idleAtMs - 1)).toMatchObject({
      kind: 'in-use',
      retryAfterMs: 1,
    });
    expect(await transfer(check, 'eu', idleAtMs)).toMatchObject({ kind: 'transferred' });
  });

  describe('a counter in use', () => {
    const startMs = nowMs - (nowMs % rule.windowMs);
    /** A check of a counter that was charged at the start of a window, and the units charged. */
    const use = async () => {
      const check = create();
      const taken = [await take(check, startMs), await take(check, startMs)];
      return { check, units: taken.filter(({ allowed }) => allowed).length };
    };
    const take = (check: Check, atMs: number) =>
      ask(engine(), 'take', { ...check, seatId: check.seatId && nextSeatId() }, atMs);
    /** The owner reports that it has charged itself with this many units. */
    const transferFor = (check: Check, units: number, [chargedAtMs, atMs]: readonly [number, number]) => {
      const ownerCharge = units === 0 ? undefined : { units, atMs: chargedAtMs };
      return ask(engine(), 'transfer', { ...check, transfer: { ...to('eu'), ownerCharge } }, atMs);
    };

    it('is transferred only to an owner that has charged itself with as many units, or else names their number', async () => {
      const { check, units } = await use();
      const atOnce = [startMs, startMs] as const;
      expect(await transferFor(check, units - 1, atOnce)).toMatchObject({
        kind: 'in-use',
        usedUnits: units,
      });
      expect((await take(check, startMs)).transferredTo).toBeUndefined();
      expect(await transferFor(check, units + 1, atOnce)).toMatchObject({ kind: 'transferred' });
      expect(await take(check, startMs)).toMatchObject({ allowed: false, transferredTo: { name: 'eu' } });
    });

    it('is not transferred for a charge of another window', async () => {
      const { check } = await use();
      const nextMs = startMs + rule.windowMs;
      await take(check, nextMs);
      expect(await transferFor(check, 1e6, [nextMs - 1, nextMs])).toMatchObject({ kind: 'in-use' });
      expect(await transferFor(check, 1e6, [nextMs, nextMs])).toMatchObject({ kind: 'transferred' });
    });
  });

  it('renews a transfer for its owner, and for no other region', async () => {
    const check = create();
    await transfer(check, 'eu', nowMs);
    expect(await transfer(check, 'us', nowMs + 1_000)).toEqual({
      kind: 'refused',
      retryAfterMs: endMs - nowMs - 1_000,
    });
    expect(await transfer(check, 'eu', nowMs + 1_000)).toEqual({
      kind: 'transferred',
      untilMs: endMs + 1_000,
    });
    expect(await transfer(check, 'us', endMs + 1_000)).toMatchObject({ kind: 'transferred' });
  });

  it('does not renew a transfer that was recalled', async () => {
    const check = create();
    expect(await ask(engine(), 'recall', check, nowMs)).toBe('unchanged');
    await transfer(check, 'eu', nowMs);
    for (const reply of ['recalled', 'unchanged'])
      expect(await ask(engine(), 'recall', check, nowMs)).toBe(reply);
    expect(await transfer(check, 'eu', nowMs)).toEqual({
      kind: 'refused',
      retryAfterMs: endMs - nowMs + check.windowMs,
    });
    expect(await ask(engine(), 'take', check, nowMs)).toMatchObject({ transferredTo: { name: 'eu' } });
  });

  it('keeps a transfer despite refunds and settlements', async () => {
    const check = create();
    await transfer(check, 'eu', nowMs);
    await ask(engine(), 'refund', { ...check, chargedAtMs: nowMs }, nowMs);
    if (check.algorithm !== 'concurrency')
      await ask(engine(), 'settle', { ...check, cost: 2, chargedAtMs: nowMs }, nowMs);
    expect(await ask(engine(), 'take', check, nowMs)).toMatchObject({
      transferredTo: { name: 'eu' },
      resetAtMs: endMs,
    });
  });
}
