// Runs the contract for every algorithm on both engines. A new algorithm gets it without a test of its own.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ALGORITHM_IDS } from '../../src/core/counting/algorithms/registry.ts';
import { countsExactly, givesBack, remembersUnderAnyLimit, tellsTheTruth } from './algorithm-contract.ts';
import { ask, createCheck, ENGINE_NAMES, ENGINES, type Engine, look, next, START_MS } from './engines.ts';
import { combinesRules, keepsViolatorsOut } from './rules-contract.ts';
import { settles } from './settle-contract.ts';
import { transfers } from './transfer-contract.ts';

/** At, between and next to the borders of windows; spacings that are and are not whole milliseconds. */
const SHAPES = [
  { limit: 5, windowMs: 60_000, afterBorderMs: 0 },
  { limit: 7, windowMs: 997, afterBorderMs: 996 },
  { limit: 3, windowMs: 1_000, extra: 8, afterBorderMs: 500 },
  { limit: 8, windowMs: 1_001, extra: 3, afterBorderMs: 1 },
  { limit: 4, windowMs: 1, afterBorderMs: 0 },
];

describe.each(ENGINE_NAMES)('on %s', (name) => {
  let started: Engine;
  const engine = () => started;
  beforeAll(async () => {
    started = await ENGINES[name]();
  });
  afterAll(() => started[Symbol.asyncDispose]());

  describe.each(ALGORITHM_IDS)('%s', (algorithm) => {
    describe.each(SHAPES)('of $limit in $windowMs ms, extra $extra', ({ afterBorderMs, ...shape }) => {
      const nowMs = Math.ceil(START_MS / shape.windowMs) * shape.windowMs + afterBorderMs;
      const contractCase = { engine, rule: { algorithm, ...shape }, nowMs };
      countsExactly(contractCase);
      givesBack(contractCase);
      settles(contractCase);
      remembersUnderAnyLimit(contractCase);
      transfers(contractCase);
      tellsTheTruth(contractCase);
      combinesRules(contractCase);
      keepsViolatorsOut(contractCase);
    });
  });

  describe('a seat', () => {
    const windowMs = 30_000;
    const acquire = async (limit: number, ...costs: number[]) => {
      const first = createCheck({ algorithm: 'concurrency', limit, windowMs });
      const seats = costs.map((cost) => next(first, { cost }));
      for (const seat of seats) await ask(started, 'take', seat, START_MS);
      const [one = first, two = first] = seats;
      return { one, two };
    };
    const left = async (seat: ReturnType<typeof createCheck>, nowMs: number) =>
      (await look(started, seat, nowMs)).remaining;

    it('ends one window after it was taken, and not 1 ms earlier', async () => {
      const { one } = await acquire(5, 2);
      expect(await left(one, START_MS + windowMs - 1)).toBe(3);
      expect(await left(one, START_MS + windowMs)).toBe(5);
    });

    it('keeps all its units when it is renewed, even if nothing else is free', async () => {
      const { one } = await acquire(5, 2, 3);
      const renewMs = START_MS + 20_000;
      expect(await ask(started, 'renew', { ...one, cost: 1 }, renewMs)).toBe('held');
      expect(await look(started, one, renewMs)).toMatchObject({
        remaining: 0,
        resetAtMs: renewMs + windowMs,
      });
      expect(await left(one, START_MS + windowMs)).toBe(3);
      expect(await left(one, renewMs + windowMs - 1)).toBe(3);
      expect(await left(one, renewMs + windowMs)).toBe(5);
    });

    it('cannot be renewed after it has ended or was given back, or if it never existed', async () => {
      const { one, two } = await acquire(5, 2, 1);
      await ask(started, 'refund', two, START_MS);
      for (const [seat, nowMs] of [
        [one, START_MS + windowMs],
        [two, START_MS + 1],
        [next(one), START_MS + 1],
      ] as const) {
        const before = await look(started, one, nowMs);
        expect(await ask(started, 'renew', seat, nowMs)).toBe('lost');
        expect(await look(started, one, nowMs)).toEqual(before);
      }
    });

    it('is given back once, with all its units, and other seats stay', async () => {
      const { one, two } = await acquire(5, 2, 3);
      for (const _ of ['once', 'twice']) {
        expect(await ask(started, 'refund', { ...one, cost: 1 }, START_MS + 1)).toMatchObject({
          remaining: 2,
        });
        expect(await left(two, START_MS + 1)).toBe(2);
      }
    });

    it('is replaced when the same id takes again, and does not count against itself', async () => {
      const { one } = await acquire(5, 3, 1);
      expect(await ask(started, 'take', { ...one, cost: 4 }, START_MS + 1)).toMatchObject({
        allowed: true,
        remaining: 0,
        resetAtMs: START_MS + 1 + windowMs,
      });
      expect(await ask(started, 'take', { ...one, cost: 5 }, START_MS + 2)).toMatchObject({ allowed: false });
      expect(await left(one, START_MS + 2)).toBe(0);
      await ask(started, 'take', { ...one, cost: 2 }, START_MS + 3);
      expect(await left(one, START_MS + 3)).toBe(2);
    });
  });
});
