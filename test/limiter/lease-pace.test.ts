// What an isolate measures of a counter: its own pace, how much of the use is its own, and what is left.
import { describe, expect, it } from 'vitest';
import { LeaseCounter, noteRemaining, paceOf, updatePace } from '../../src/limiter/lease-counter.ts';
import { createRuleCheck, START_MS } from './rule-checks.ts';

const check = createRuleCheck({ limit: 1_000, windowMs: 60_000, rule: { lease: true } });
const resetAtMs = START_MS + 60_000;

function open() {
  const measured = new LeaseCounter(START_MS);
  let ms = START_MS;
  /** Sends this many requests, one every `everyMs`. */
  const use = (requests: number, everyMs: number) => {
    for (let i = 0; i < requests; i += 1) {
      ms += everyMs;
      updatePace(measured, check.cost, ms);
      measured.used += check.cost;
    }
  };
  const tell = (remaining: number, charged: number, atMs = ms) =>
    noteRemaining(measured, { outcome: { remaining, resetAtMs }, atMs, charged });
  const pace = (isolates = 100, atMs = ms) => paceOf(measured, { check, ms: atMs, isolates, callMs: 0 });
  return { measured, use, tell, pace };
}

describe('the pace of an isolate', () => {
  const openWithRest = () => {
    const opened = open();
    opened.tell(1_000, 0);
    return opened;
  };

  it('is measured over a quarter of a second', () => {
    const { use, pace } = openWithRest();
    use(50, 5);
    expect(pace().unitsPerMs).toBe(49 / 250);
  });

  it('is measured over ten requests if they take longer', () => {
    const { use, pace } = openWithRest();
    use(10, 100);
    expect(pace().unitsPerMs).toBe(0);
    use(1, 100);
    expect(pace().unitsPerMs).toBe(10 / 1_100);
  });

  it('is measured over two seconds at most', () => {
    const { use, pace } = openWithRest();
    use(4, 500);
    expect(pace().unitsPerMs).toBe(3 / 2_000);
  });

  it('is known from the last two measurements', () => {
    const { use, pace } = openWithRest();
    use(50, 5);
    use(25, 10);
    expect(pace()).toMatchObject({ unitsPerMs: 25 / 250, unitsPerMsBefore: 49 / 250 });
  });

  it('stays the same while nothing is left', () => {
    const { use, pace, tell } = openWithRest();
    use(50, 5);
    tell(0, 1);
    use(1, 30_000);
    expect(pace().unitsPerMs).toBe(49 / 250);
  });
});

describe('the estimated number of isolates that use a counter', () => {
  it('is the number of isolates in the region until the isolate has compared two answers', () => {
    const { tell, pace } = open();
    expect(pace(7).isolates).toBe(7);
    tell(900, 1);
    expect(pace(7).isolates).toBe(7);
  });

  it('is one if no other isolate has charged anything', () => {
    const { tell, pace } = open();
    tell(900, 1);
    tell(800, 100);
    expect(pace().isolates).toBe(1);
  });

  it('grows with the units that other isolates have charged', () => {
    const { tell, pace } = open();
    tell(900, 1);
    tell(600, 100);
    expect(pace().isolates).toBe(3);
  });

  it('is never higher than the number of isolates in the region', () => {
    const { tell, pace } = open();
    tell(900, 1);
    tell(600, 100);
    expect(pace(2).isolates).toBe(2);
  });

  it('ignores units that came back between two answers', () => {
    const { tell, pace } = open();
    tell(500, 1);
    tell(900, 100);
    expect(pace().isolates).toBe(1);
  });

  it('ignores answers of different windows', () => {
    const { tell, pace } = open();
    tell(900, 1);
    tell(100, 100, resetAtMs);
    expect(pace(7).isolates).toBe(7);
  });

  it('follows a change: charges from long ago count less', () => {
    const { tell, pace } = open();
    tell(100_000, 1);
    tell(98_000, 500);
    expect(pace().isolates).toBe(4);
    for (let rest = 97_900; rest > 95_000; rest -= 100) tell(rest, 100);
    expect(pace().isolates).toBeLessThan(1.2);
  });
});

describe('the known remainder of a counter', () => {
  it('is the number that the region reported last', () => {
    const { tell, pace } = open();
    tell(900, 1);
    tell(0, 0);
    expect(pace().remaining).toBe(0);
  });

  it('is the whole limit once the window has ended', () => {
    const { tell, pace } = open();
    tell(0, 1);
    expect([pace(1, resetAtMs - 1).remaining, pace(1, resetAtMs).remaining]).toEqual([0, 1_000]);
  });
});
