// Checks whose part the nearest region has transferred or whose rule moves, known denials, and peeks: which regions are asked
// for what.
import { describe, expect, it } from 'vitest';
import type { Conclusion } from '../../src/limiter/count.ts';
import { answers, denies, fails } from './fake-regions.ts';
import { useFakeTime } from './limiter-harness.ts';
import { place } from './placed.ts';
import { does, far, farther, near, open } from './regional-count-harness.ts';

useFakeTime();
const remainingOf = ({ results }: Conclusion) => results.map(({ outcome }) => outcome.remaining);
const takesOf = (lines: readonly string[]) => lines.filter((line) => line.includes(' take '));

describe('a check that the nearest region has transferred', () => {
  const moved = () => place({ us: 4, eu: 4, ap: 4 }, { id: 'moved' });
  const transferred = { owner: 'eu', termMs: 240_000, holdMs: 65_000 };
  /** `us` has transferred its part of the check to `eu`, and this isolate does not know. */
  async function openMoved(placed = [moved()]) {
    const opened = open({ placed });
    const { check } = moved();
    await opened.us.does.run(
      { operation: 'transfer', checks: [{ ...check, transfer: transferred }] },
      new AbortController().signal,
    );
    opened.said();
    return opened;
  }

  it('is counted at its owner at once, with both parts, and from then on with one call', async () => {
    const { count, said, leftIn, us } = await openMoved();
    expect(await count()).toMatchObject({
      charged: [{ check: { region: 'eu', limit: 8 }, outcome: { remaining: 11 } }],
    });
    expect(said()).toEqual(['us take moved', 'eu take moved']);
    expect(await count()).toMatchObject({ charged: [{ outcome: { remaining: 10 } }] });
    expect(takesOf(said())).toEqual(['eu take moved']);
    expect(leftIn(us)).toBe(0);
  });

  it('is counted at its owner while the nearest region counts the other checks', async () => {
    const { count, said, leftIn, us } = await openMoved([near(), moved()]);
    await count();
    expect(takesOf(said())).toEqual(['us take near moved', 'us take near', 'eu take moved']);
    await count();
    expect(takesOf(said())).toEqual(['us take near', 'eu take moved']);
    expect(leftIn(us, near())).toBe(2);
  });

  it('refunds the charge of the nearest region if its owner denies', async () => {
    const { count, asked, settle, leftIn, us, eu, ap } = await openMoved([near(), moved()]);
    await count();
    for (const region of [eu, ap]) does(region, asked, denies(30_000));
    expect(await count()).toMatchObject({
      results: [{ check: { id: 'near' } }, { outcome: { allowed: false } }],
    });
    await settle();
    expect(leftIn(us, near())).toBe(3);
  });

  it('refunds the charge of its owner if a rule in the nearest region denies', async () => {
    const alone = place({ us: 1 }, { id: 'alone', at: 'us' });
    const { count, settle, leftIn, eu } = await openMoved([alone, moved()]);
    await count();
    expect(leftIn(eu, moved())).toBe(3);
    expect(await count()).toMatchObject({
      results: [{ check: { id: 'alone' }, outcome: { allowed: false } }, {}],
    });
    await settle();
    expect(leftIn(eu, moved())).toBe(3);
  });

  it('is tried in the third region if its owner denies', async () => {
    const { count, said, asked, eu } = await openMoved();
    does(eu, asked, denies(30_000));
    expect(await count()).toMatchObject({ charged: [{ check: { region: 'ap', limit: 4 } }] });
    expect(takesOf(said())).toEqual(['us take moved', 'eu take moved', 'ap take moved']);
  });

  it('is counted by the third region if its owner is down, and is missing if both are down', async () => {
    const { count, asked, eu, ap } = await openMoved();
    does(eu, asked, fails('unavailable'));
    expect(await count()).toMatchObject({ failure: 'unavailable', charged: [{ check: { region: 'ap' } }] });
    does(ap, asked, fails('unavailable'));
    expect(await count()).toMatchObject({ failure: 'unavailable', charged: [], missing: [{ id: 'moved' }] });
  });

  it('is found at its owner by a peek', async () => {
    const { count, said } = await openMoved();
    expect(await count({ operation: 'peek' })).toMatchObject({ results: [{ outcome: { remaining: 12 } }] });
    expect(said()).toEqual(['us peek moved', 'eu peek moved']);
  });
});

describe('a check whose rule moves from one region to another', () => {
  const before = place({ eu: 2 }, { id: 'moves', at: 'eu' });
  const after = { ...before, parts: new Map([['ap', { limit: 2, extra: undefined }]]), at: 'ap' };
  /** The far regions are 50 ms away, one way. */
  const openMoving = (placed = [before, after]) => open({ placed, farMs: () => 50 });

  it('is charged in the old region first, and in the new one when the old one has admitted it', async () => {
    const { count, said } = openMoving();
    const { charged, tookMs } = await count();
    expect(said()).toEqual(['eu take moves', 'ap take moves']);
    const [old, late] = charged.map(({ chargedAtMs = 0 }) => chargedAtMs);
    expect((late ?? 0) - (old ?? 0)).toBe(100);
    expect(tookMs).toBe(200);
  });

  it('is not charged in the new region if the old one denies it', async () => {
    const { count, said, leftIn, ap } = openMoving();
    await count({ placed: [before] });
    await count({ placed: [before] });
    said();
    expect(await count()).toMatchObject({ results: [{ outcome: { allowed: false } }] });
    expect(said()).toEqual(['eu take moves']);
    expect(leftIn(ap, after)).toBe(2);
  });

  it('is given back in the old region if the new one denies it', async () => {
    const { count, settle, leftIn, eu } = openMoving();
    await count({ placed: [after] });
    await count({ placed: [after] });
    expect(await count()).toMatchObject({ results: [{}, { outcome: { allowed: false } }] });
    await settle();
    expect(leftIn(eu, before)).toBe(2);
  });

  it('is charged in the new region if the old one does not answer', async () => {
    const { count, asked, eu } = openMoving();
    does(eu, asked, fails('unavailable'));
    expect(await count()).toMatchObject({
      charged: [{ check: { region: 'ap' } }],
      missing: [{ id: 'moves' }],
    });
  });

  it('waits for no other check, and no other check waits for it', async () => {
    const { count, said } = openMoving([near(), before, after]);
    await count();
    expect(takesOf(said())).toEqual(['us take near', 'eu take moves', 'ap take moves']);
  });

  it('is charged once in a region that counts it both ways', async () => {
    const split = { ...before, parts: new Map([['us', { limit: 1, extra: undefined }]]), at: undefined };
    const central = { ...before, parts: new Map([['us', { limit: 2, extra: undefined }]]), at: 'us' };
    const { count, said } = openMoving([split, central]);
    await count();
    expect(takesOf(said())).toEqual(['us take moves']);
  });

  it('is peeked at in both regions at the same time', async () => {
    const { count } = openMoving();
    expect((await count({ operation: 'peek' })).tookMs).toBe(100);
  });
});

describe('memory alone', () => {
  const denied = async (...placed: Parameters<typeof open>[0]['placed']) => {
    const opened = open({ placed });
    await opened.count();
    return opened.knownDenial;
  };
  const used = () => place({ us: 1 }, { id: 'used', at: 'us', cost: 2 });

  it('denies, and names only the checks that deny', async () => {
    const knownDenial = await denied(near(), used());
    expect(knownDenial()).toMatchObject([{ check: { id: 'used' } }]);
    expect(knownDenial([near()])).toBeUndefined();
  });

  it.each([
    ['counts denied requests', { countDenied: true }],
    ['might begin to block', { blockMs: 2_000 }],
  ])('does not decide if a rule of the request %s', async (_, shape) => {
    const knownDenial = await denied(used());
    const other = place({ us: 9 }, { id: 'other', at: 'us', ...shape });
    expect(knownDenial([used()])).toBeDefined();
    expect(knownDenial([used(), other])).toBeUndefined();
    expect(knownDenial([other, used()])).toBeUndefined();
  });

  it('denies while a rule blocks', async () => {
    const blocking = place({ us: 1 }, { id: 'blocking', at: 'us', blockMs: 120_000 });
    const { count, knownDenial } = open({ placed: [near(), blocking] });
    for (let i = 0; i < 2; i += 1) await count();
    expect(knownDenial()).toMatchObject([{ check: { id: 'blocking' }, outcome: { retryAfterMs: 120_000 } }]);
  });
});

describe('a peek', () => {
  it('looks in another region if the nearest one has no room', async () => {
    const { count, asked, us } = open({ placed: [near()] });
    does(us, asked, denies(30_000));
    await count({ operation: 'peek' });
    expect(asked).toEqual(['us peek near', 'eu peek near']);
  });

  it('looks in every region that counts something, and changes nothing', async () => {
    const { count, asked, settle } = open({ placed: [near(), far(), farther()] });
    const counted = await count({ operation: 'peek' });
    await settle();
    expect(remainingOf(counted)).toEqual([12, 2, 2]);
    expect(asked).toEqual(['us peek near', 'eu peek far', 'ap peek farther']);
  });

  it('asks no region to transfer, and gives nothing back, even if another region denies', async () => {
    const { count, asked, settle, us, eu } = open({ placed: [near(), far()] });
    does(us, asked, answers({ remaining: 0 }));
    does(eu, asked, denies(30_000));
    await count({ operation: 'peek' });
    await settle();
    expect(asked).toEqual(['us peek near', 'eu peek far']);
  });
});
