// The breaker of a region: when it opens, and what closes it.
import { describe, expect, it } from 'vitest';
import { FAILURE, halfOpenBreaker, openBreaker, openIsolate, START_MS, SUCCESS } from './breaker-harness.ts';

describe('a closed breaker', () => {
  it.each([0, 1, 15, 20, 1_000])(
    'opens at the fifth failure in a row after %d successes, too',
    (successes) => {
      const { call, state } = openIsolate();
      call(SUCCESS, successes);
      call(FAILURE, 4);
      expect(state()).toBe('closed');
      call(FAILURE);
      expect(state()).toBe('open');
    },
  );

  it.each([
    [4, 'FFFFSF', 'open'],
    [5, 'FFFFSF', 'closed'],
    [5, 'FFFFSFF', 'open'],
    [10, 'FFFFSFFFFSF', 'closed'],
    [10, 'FFFFSFFFFSFF', 'open'],
  ])(
    'after %d successes and then %s is %s: it opens when half of the calls have failed',
    (successes, results, expected) => {
      const { call, state } = openIsolate();
      call(SUCCESS, successes);
      for (const result of results) call(result === 'F' ? FAILURE : SUCCESS);
      expect(state()).toBe(expected);
    },
  );

  /** Nine failures, and never five in a row. */
  const nineFailures = (call: ReturnType<typeof openIsolate>['call']) => {
    for (const failures of [4, 4, 1]) {
      call(SUCCESS);
      call(FAILURE, failures);
    }
  };

  it('judges by the last 20 calls and forgets earlier ones', () => {
    const { call, state } = openIsolate();
    call(SUCCESS, 1_000);
    nineFailures(call);
    expect(state()).toBe('closed');
    call(FAILURE);
    expect(state()).toBe('open');
  });

  it('forgets failures, too, after 20 later calls', () => {
    const { call, state } = openIsolate();
    call(SUCCESS, 16);
    call(FAILURE, 4);
    call(SUCCESS, 16);
    // Among the last 20 calls are 4 failures, which drop out one by one.
    nineFailures(call);
    expect(state()).toBe('closed');
  });

  it('judges by the last minute, to the millisecond', () => {
    const at = (passedMs: number) => {
      const { call, state, clock } = openIsolate();
      call(FAILURE, 4);
      clock.ms += passedMs;
      call(FAILURE);
      return state();
    };
    expect(at(59_999)).toBe('open');
    expect(at(60_000)).toBe('closed');
  });

  it('does not let old successes excuse new failures', () => {
    const { call, state, clock } = openIsolate();
    call(SUCCESS, 15);
    clock.ms += 60_000;
    call(FAILURE, 5);
    expect(state()).toBe('open');
  });

  it('is not opened by a success, even if half of the calls have failed', () => {
    const { call, state, clock } = openIsolate();
    call(SUCCESS, 10);
    clock.ms += 30_000;
    call(FAILURE, 4);
    call(SUCCESS);
    call(FAILURE);
    clock.ms += 30_000;
    call(SUCCESS);
    expect(state()).toBe('closed');
  });

  it('lets all concurrent requests in, and needs no probe', () => {
    const { enter, probe, state } = openIsolate();
    expect(Array.from({ length: 100 }, enter)).not.toContain(undefined);
    expect([probe(), state()]).toEqual([undefined, 'closed']);
  });
});

describe('an open breaker', () => {
  it.each([
    [0, 750],
    [0.5, 1_000],
    [1, 1_250],
  ])('with a random value of %d lets no call in for %d ms, and then only probes', (dice, openMs) => {
    const { clock, enter, probe, state } = openBreaker(() => dice);
    for (const passedMs of [0, 1, openMs - 1]) {
      clock.ms = START_MS + passedMs;
      expect([state(), enter(), probe()]).toEqual(['open', undefined, undefined]);
    }
    clock.ms = START_MS + openMs;
    expect([state(), enter()]).toEqual(['half-open', undefined]);
    expect(probe()).toBeDefined();
    expect(enter()).toBeUndefined();
  });

  it.each([
    ['success', SUCCESS],
    ['failure', FAILURE],
  ])('ignores a late %s of a call from before it opened', (_, hasFailed) => {
    const { call, permit, report, state, clock, changes } = openIsolate();
    const late = Array.from({ length: 8 }, permit);
    call(FAILURE, 5);
    for (const given of late) report(given, hasFailed);
    expect([state(), changes]).toEqual(['open', ['open']]);
    clock.ms += 999;
    expect(state()).toBe('open');
    clock.ms += 1;
    expect(state()).toBe('half-open');
  });
});

describe('a half-open breaker', () => {
  it('lets exactly three probes in, and no more while they are under way', () => {
    const { enter, probe, clock } = halfOpenBreaker();
    const given = Array.from({ length: 10 }, probe);
    expect(given.filter((permit) => permit !== undefined)).toHaveLength(3);
    expect(given.slice(3)).toEqual(Array(7).fill(undefined));
    clock.ms += 999;
    expect([enter(), probe()]).toEqual([undefined, undefined]);
  });

  it('lets no request in, however long no probe is made', () => {
    const { enter, clock } = halfOpenBreaker();
    for (let i = 0; i < 10; i += 1) {
      expect(enter()).toBeUndefined();
      clock.ms += 60_000;
    }
  });

  it('closes at the third success, not before, and then lets all calls in', () => {
    const { permit, report, enter, probe, state } = halfOpenBreaker();
    const probes = [permit(), permit(), permit()];
    for (const each of probes) {
      expect([state(), enter(), probe()]).toEqual(['half-open', undefined, undefined]);
      report(each, SUCCESS);
    }
    expect(state()).toBe('closed');
    expect(Array.from({ length: 10 }, enter)).not.toContain(undefined);
  });

  it('closes after three successful probes one after the other', () => {
    const { call, state } = halfOpenBreaker();
    call(SUCCESS, 3);
    expect(state()).toBe('closed');
  });

  it.each([0, 1, 2])('opens again after %d successes and one failure, for as long as before', (successes) => {
    const { call, probe, state, clock } = halfOpenBreaker();
    call(SUCCESS, successes);
    call(FAILURE);
    expect([state(), probe()]).toEqual(['open', undefined]);
    clock.ms += 999;
    expect([state(), probe()]).toEqual(['open', undefined]);
    clock.ms += 1;
    expect(state()).toBe('half-open');
  });

  it('needs three more successes after it has opened again', () => {
    const { call, state, clock } = halfOpenBreaker();
    call(SUCCESS, 2);
    call(FAILURE);
    clock.ms += 1_000;
    call(SUCCESS, 2);
    expect(state()).toBe('half-open');
    call(SUCCESS);
    expect(state()).toBe('closed');
  });

  it('replaces probes without a result after a second', () => {
    const { probe, permit, call, state, clock } = halfOpenBreaker();
    call(SUCCESS);
    permit();
    permit();
    clock.ms += 999;
    expect(probe()).toBeUndefined();
    clock.ms += 1;
    call(SUCCESS);
    expect(state()).toBe('half-open');
    call(SUCCESS);
    expect(state()).toBe('closed');
  });

  it('ignores results of calls from before it opened', () => {
    const { call, permit, report, state, clock } = openIsolate();
    const late = Array.from({ length: 8 }, permit);
    call(FAILURE, 5);
    clock.ms += 1_000;
    permit();
    for (const given of late.slice(0, 4)) report(given, SUCCESS);
    expect(state()).toBe('half-open');
    for (const given of late.slice(4)) report(given, FAILURE);
    expect(state()).toBe('half-open');
  });
});

describe('a breaker that has closed again', () => {
  it('starts without earlier failures', () => {
    const { call, state } = halfOpenBreaker();
    call(SUCCESS, 3);
    call(FAILURE, 4);
    expect(state()).toBe('closed');
    call(FAILURE);
    expect(state()).toBe('open');
  });

  it('ignores late failures of probes and of calls from before it opened', () => {
    const { call, permit, report, state, clock } = openIsolate();
    const late = Array.from({ length: 5 }, permit);
    call(FAILURE, 5);
    clock.ms += 1_000;
    const lost = [permit(), permit(), permit()];
    clock.ms += 1_000;
    call(SUCCESS, 3);
    for (const given of [...late, ...lost]) report(given, FAILURE);
    expect(state()).toBe('closed');
  });
});

describe('a clock that is put back', () => {
  it.each([1, 250, 500, 1_000, 60_000, 10 ** 12])(
    'by %d ms keeps probes out for at most 1.25 s',
    (backMs) => {
      const { clock, probe } = openBreaker();
      clock.ms -= backMs;
      let askedMs = 0;
      for (; probe() === undefined; clock.ms += 1) askedMs += 1;
      expect(askedMs).toBe(backMs <= 250 ? 1_000 + backMs : 0);
    },
  );

  it('by a minute lets probes in at once', () => {
    const { clock, probe, permit } = halfOpenBreaker();
    for (const _ of [1, 2, 3]) permit();
    expect(probe()).toBeUndefined();
    clock.ms -= 60_000;
    expect(probe()).toBeDefined();
  });

  it('does not count failures that now lie in the future', () => {
    const { clock, call, state } = openIsolate();
    call(FAILURE, 4);
    clock.ms -= 60_000;
    call(FAILURE);
    expect(state()).toBe('closed');
  });
});

it('a breaker reports each change once', () => {
  const { call, clock, changes, enter, probe, permit, report } = openBreaker();
  for (let i = 0; i < 10; i += 1) enter();
  expect(changes).toEqual(['open']);
  clock.ms += 1_000;
  const probes = [permit(), permit(), permit()];
  probe();
  expect(changes).toEqual(['open', 'half-open']);
  for (const each of probes) report(each, FAILURE);
  expect(changes).toEqual(['open', 'half-open', 'open']);
  clock.ms += 1_000;
  call(SUCCESS, 30);
  expect(changes).toEqual(['open', 'half-open', 'open', 'half-open', 'closed']);
});
