// The book of leases alone: one counter, a clock set by hand, and answers like those of a region.
import { describe, expect, it } from 'vitest';
import type { RuleCheck } from '../../src/core/matching/plan.ts';
import { createPlacer } from '../../src/core/regions/placement.ts';
import { createLeaseBook } from '../../src/limiter/leases.ts';
import type { Regions } from '../../src/limiter/region.ts';
import { createRegion } from './fake-regions.ts';
import { admitted, createRuleCheck, START_MS } from './rule-checks.ts';

const check = createRuleCheck({ limit: 1_000, windowMs: 60_000, rule: { lease: true } });
const region = createRegion('us', {});
const regions: Regions = [region];

function open() {
  const clock = { ms: START_MS };
  const book = createLeaseBook(() => clock.ms);
  const place = createPlacer({ us: 1 }, () => clock.ms);
  const placed = (one: RuleCheck = check) => place([one], regions, undefined);
  const note = (granted: number, one = check, announcement = '', remaining = 900) => {
    const outcome = { ...admitted, resetAtMs: START_MS + 60_000, remaining, granted };
    if (granted > 0) book.answered(one);
    const moment = { sentAtMs: clock.ms, chargedAtMs: clock.ms, usedNow: one.cost, announcement };
    return book.note({ region, check: one, outcome, whole: outcome, ...moment });
  };
  const claim = (one = check) => book.claim(regions, placed(one)[0] as ReturnType<typeof placed>[0], one);
  /** One request every 5 ms, for a second. */
  const warmUp = (one = check) => {
    for (let i = 0; i < 200; i += 1) {
      clock.ms += 5;
      note(0, one);
    }
  };
  const putBack: (() => void)[] = [];
  const use = () => book.use(placed(), { noteLeased: (_, undo) => void putBack.push(undo) });
  return { book, clock, placed, note, claim, warmUp, use, putBack };
}

describe('a book of leases', () => {
  it('asks for a lease once the pace is known, and only once until it is answered', () => {
    const { claim, warmUp, note } = open();
    expect(claim()).toBe(0);
    warmUp();
    expect([claim(), claim()]).toEqual([100, 0]);
    note(100);
    expect(claim()).toBe(100);
  });

  it('keeps its pace while nothing is left, and leases at once when the limit is free again', () => {
    const { claim, warmUp, note, clock } = open();
    warmUp();
    note(0, check, '', 0);
    clock.ms += 30_000;
    note(0);
    expect(claim()).toBe(100);
  });

  it('loses its pace when no request comes', () => {
    const { claim, warmUp, note, clock } = open();
    warmUp();
    clock.ms += 30_000;
    note(0);
    expect(claim()).toBe(0);
  });

  it('asks for nothing with the first request after a pause', () => {
    const { claim, warmUp, clock } = open();
    warmUp();
    clock.ms += 30_000;
    expect(claim()).toBe(0);
  });

  it('keeps its pace after a denial, and leases with the first request of the next window', () => {
    const { claim, warmUp, clock, book } = open();
    warmUp();
    const resetAtMs = START_MS + 60_000;
    book.denied(check, { ...admitted, allowed: false, remaining: 0, resetAtMs }, clock.ms);
    clock.ms = resetAtMs - 1;
    expect(claim()).toBe(0);
    clock.ms = resetAtMs;
    expect(claim()).toBe(100);
  });

  it('asks again if there was no answer for a second', () => {
    const { claim, warmUp, clock } = open();
    warmUp();
    claim();
    clock.ms += 1_000;
    expect(claim()).toBeGreaterThan(0);
  });

  it('asks again after an answer that granted nothing', () => {
    const { claim, warmUp, book } = open();
    warmUp();
    claim();
    book.answered(check);
    expect(claim()).toBe(100);
  });

  it('counts its leased units as left when another request is charged', () => {
    const { note, clock } = open();
    expect(note(100)).toBe(1_000);
    clock.ms += 1;
    // The region has charged one more.
    expect(note(0, { ...check })).toBe(1_000);
  });

  it('counts units as left if the pending lease may have charged them', () => {
    const { note, claim, warmUp, clock } = open();
    warmUp();
    expect(claim()).toBe(100);
    clock.ms += 1;
    // The region now reports 800: 900 before, minus the 99 that it has granted, minus this request.
    expect(note(0, check, '', 800)).toBe(899);
  });

  it('does not count units twice if the pending lease has not charged them yet', () => {
    const { note, claim, warmUp, clock } = open();
    warmUp();
    claim();
    clock.ms += 1;
    expect(note(0, check, '', 899)).toBe(899);
  });

  it('counts units of other isolates as used, even while it waits for a lease', () => {
    const { note, claim, warmUp, clock } = open();
    warmUp();
    claim();
    clock.ms += 1;
    expect(note(0, check, '', 500)).toBe(600);
  });

  it('counts what the latest charge has left, even if an earlier charge is answered later', () => {
    const { book, clock, use } = open();
    const answered = (chargedAtMs: number, remaining: number, granted = 0) => {
      const outcome = { ...admitted, resetAtMs: START_MS + 60_000, remaining, granted };
      const moment = { sentAtMs: clock.ms, chargedAtMs, usedNow: 1, announcement: '' };
      return book.note({ region, check, outcome, whole: outcome, ...moment });
    };
    clock.ms += 10;
    expect(answered(START_MS + 10, 500, 10)).toBe(510);
    expect(answered(START_MS + 9, 400)).toBe(400);
    expect(use()).toMatchObject([{ outcome: { remaining: 509 } }]);
    expect(answered(START_MS + 11, 300)).toBe(309);
    expect(use()).toMatchObject([{ outcome: { remaining: 308 } }]);
  });

  it('counts no units of a lease that has ended as left', () => {
    const { note, clock } = open();
    note(100);
    // The margin for clocks.
    clock.ms += 60_000 - 10;
    expect(note(0, check, '', 800)).toBe(800);
  });

  it('tells the time by the clock of the region', () => {
    const { note, use, clock } = open();
    note(2);
    clock.ms += 700;
    expect(use()).toMatchObject([{ outcome: { nowMs: START_MS + 700 } }]);
  });

  it('gives nothing back of leases from before another announcement', () => {
    const { note, book, clock } = open();
    for (let i = 0; i <= 10_000; i += 1) note(10, { ...check, key: `{${i}}` });
    book.enter('another');
    clock.ms += 10_000;
    expect(book.takeIdle()).toEqual([]);
  });

  it('uses each unit once', () => {
    const { note, use, book } = open();
    note(3);
    expect([use(), use(), use(), use()].map((used) => used !== undefined)).toEqual([true, true, true, false]);
    expect(book.total()).toEqual({ counters: 0, units: 0 });
  });

  it('takes back a unit of a request that was not admitted', () => {
    const { note, use, putBack, book } = open();
    note(1);
    use();
    putBack[0]?.();
    expect([book.total().units, use() !== undefined]).toEqual([1, true]);
  });

  it('counts a unit as left again that it has taken back', () => {
    const { note, use, putBack } = open();
    note(10);
    expect(use()).toMatchObject([{ outcome: { remaining: 909 } }]);
    putBack[0]?.();
    expect(use()).toMatchObject([{ outcome: { remaining: 909 } }]);
  });

  it('takes back nothing once all leases have ended', () => {
    const { note, use, putBack, book } = open();
    note(1);
    use();
    book.enter('another');
    putBack[0]?.();
    expect(book.total().units).toBe(0);
  });

  it('ignores a lease that it asked for before another announcement', () => {
    const { note, book } = open();
    book.enter('another');
    note(10, check, '');
    expect(book.total().units).toBe(0);
    note(10, check, 'another');
    expect(book.total().units).toBe(10);
  });

  it('has no units for a caller that has another limit on the same counter', () => {
    const { note, book, placed } = open();
    note(10);
    const [other] = placed({ ...check, full: { limit: 5, extra: undefined } });
    expect([placed().some(book.has), other && book.has(other)]).toEqual([true, false]);
    const [burst] = placed({ ...check, full: { ...check.full, extra: 5 } });
    expect(burst && book.has(burst)).toBe(false);
  });

  it('gives up units that were not used for ten seconds, once', () => {
    const { note, book, clock } = open();
    note(10);
    clock.ms += 9_999;
    expect(book.takeIdle()).toEqual([]);
    clock.ms += 1;
    expect(book.takeIdle()).toMatchObject([{ units: 10, chargedAtMs: START_MS }]);
    expect([book.takeIdle(), book.total().units]).toEqual([[], 0]);
  });

  it('gives up the oldest lease if it has ten thousand: its memory is bounded', () => {
    const { note, book } = open();
    for (let i = 0; i <= 10_000; i += 1) note(10, { ...check, key: `{${i}}` });
    expect(book.total()).toEqual({ counters: 10_000, units: 100_000 });
    expect(book.takeIdle()).toMatchObject([{ units: 10, check: { key: '{0}' } }]);
  });

  it('forgets the counters that were used longest ago: its memory is bounded', () => {
    const { warmUp, claim, note } = open();
    warmUp();
    for (let i = 0; i < 10_000; i += 1) note(0, { ...check, key: `{${i}}` });
    expect(claim()).toBe(0);
  });
});
