// What every algorithm promises to a region that cedes its part: it cedes only an empty counter, counts nothing until
// all charges that its home may have made have stopped counting, and then starts from nothing.
import { describe, expect, it } from 'vitest';
import type { Check } from '../../src/core/counting/check.ts';
import { IDLE_MS } from '../../src/core/counting/transfer.ts';
import type { ContractCase } from './algorithm-contract.ts';
import { ask, createCheck, look, nextSeatId } from './engines.ts';

const TERM_MS = 5_000;
const HOLD_MS = 2_000;
const to = (home: string) => ({ home, termMs: TERM_MS, holdMs: HOLD_MS });

export function cedes({ engine, rule, nowMs }: ContractCase): void {
  const create = () => createCheck(rule);
  const cede = (check: Check, home: string, atMs: number) =>
    ask(engine(), 'cede', { ...check, cession: to(home) }, atMs);
  const endMs = nowMs + TERM_MS + HOLD_MS;

  it('cedes an empty counter, and names the home in every later answer', async () => {
    const check = create();
    expect(await cede(check, 'eu', nowMs)).toMatchObject({ allowed: true, resetAtMs: endMs });
    for (const operation of ['take', 'peek'] as const)
      expect(await ask(engine(), operation, check, endMs - 1)).toMatchObject({
        allowed: false,
        cededTo: 'eu',
        resetAtMs: endMs,
      });
  });

  it('starts from nothing when the cession is over', async () => {
    const check = create();
    const untouched = await look(engine(), check, endMs);
    await cede(check, 'eu', nowMs);
    await ask(engine(), 'take', check, nowMs);
    expect(await look(engine(), check, endMs)).toEqual(untouched);
    expect(await ask(engine(), 'take', check, endMs)).toMatchObject({ allowed: true });
  });

  it('cedes a counter only some time after its last charge stopped counting, and says when', async () => {
    const check = create();
    const { resetAtMs } = await ask(engine(), 'take', check, nowMs);
    const refused = await cede(check, 'eu', nowMs);
    const idleAtMs = resetAtMs + IDLE_MS;
    expect(refused).toMatchObject({ allowed: false, retryAfterMs: idleAtMs - nowMs });
    expect(await look(engine(), check, nowMs)).toMatchObject({ allowed: true });
    expect(await cede(check, 'eu', idleAtMs - 1)).toMatchObject({ allowed: false, retryAfterMs: 1 });
    expect(await cede(check, 'eu', idleAtMs)).toMatchObject({ allowed: true });
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
    /** The home reports that it has charged itself with this many units. */
    const cedeFor = (check: Check, units: number, [chargedAtMs, atMs]: readonly [number, number]) => {
      const want = units === 0 ? undefined : units;
      return ask(engine(), 'cede', { ...check, want, chargedAtMs, cession: to('eu') }, atMs);
    };

    it('is ceded only to a home that has charged itself with as many units, or else names their number', async () => {
      const { check, units } = await use();
      const atOnce = [startMs, startMs] as const;
      expect(await cedeFor(check, units - 1, atOnce)).toMatchObject({ allowed: false, remaining: units });
      expect((await take(check, startMs)).cededTo).toBeUndefined();
      expect(await cedeFor(check, units + 1, atOnce)).toMatchObject({ allowed: true, remaining: 0 });
      expect(await take(check, startMs)).toMatchObject({ allowed: false, cededTo: 'eu' });
    });

    it('is not ceded for a charge of another window', async () => {
      const { check } = await use();
      const nextMs = startMs + rule.windowMs;
      await take(check, nextMs);
      expect(await cedeFor(check, 1e6, [nextMs - 1, nextMs])).toMatchObject({ allowed: false });
      expect(await cedeFor(check, 1e6, [nextMs, nextMs])).toMatchObject({ allowed: true });
    });
  });

  it('renews a cession for its home, and for no other region', async () => {
    const check = create();
    await cede(check, 'eu', nowMs);
    expect(await cede(check, 'us', nowMs + 1_000)).toMatchObject({
      allowed: false,
      retryAfterMs: endMs - nowMs - 1_000,
    });
    expect(await cede(check, 'eu', nowMs + 1_000)).toMatchObject({ allowed: true, resetAtMs: endMs + 1_000 });
    expect(await cede(check, 'us', endMs + 1_000)).toMatchObject({ allowed: true });
  });

  it('does not renew a cession that was reclaimed', async () => {
    const check = create();
    expect(await ask(engine(), 'reclaim', check, nowMs)).toMatchObject({ allowed: false });
    await cede(check, 'eu', nowMs);
    expect(await ask(engine(), 'reclaim', check, nowMs)).toMatchObject({ allowed: true, resetAtMs: endMs });
    expect(await cede(check, 'eu', nowMs)).toMatchObject({
      allowed: false,
      retryAfterMs: endMs - nowMs + check.windowMs,
    });
    expect(await ask(engine(), 'take', check, nowMs)).toMatchObject({ cededTo: 'eu' });
  });

  it('keeps a cession despite refunds and settlements', async () => {
    const check = create();
    await cede(check, 'eu', nowMs);
    await ask(engine(), 'refund', { ...check, chargedAtMs: nowMs }, nowMs);
    if (check.algorithm !== 'concurrency')
      await ask(engine(), 'settle', { ...check, cost: 2, chargedAtMs: nowMs }, nowMs);
    expect(await ask(engine(), 'take', check, nowMs)).toMatchObject({ cededTo: 'eu', resetAtMs: endMs });
  });
}
