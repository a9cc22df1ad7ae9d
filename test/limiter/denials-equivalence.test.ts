// A denial must not outlive its reason: isolates that remember denials admit exactly the same requests as without
// memory, and ask their counters no more often than necessary.
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { RuleCheck } from '../../src/core/matching/plan.ts';
import {
  createMemoryEngine,
  ENGINE_NAMES,
  ENGINES,
  type Engine,
  nextSeatId,
  WITHOUT_SEATS,
} from '../redis/engines.ts';
import { rounds } from '../rounds.ts';
import {
  askTwin,
  checkOn,
  createGaps,
  createIsolates,
  createRandom,
  nextSubject,
  type Verdict,
} from './denial-systems.ts';
import { firstBeyond } from './most-admitted.ts';
import { START_MS } from './rule-checks.ts';
import { playSlowly } from './slow-answers.ts';

const RUNS = { 'its twin': rounds(18), 'the script': rounds(2) };
const REQUESTS = { 'its twin': 250, 'the script': 80 };

const seldom = fc.oneof(
  { weight: 5, arbitrary: fc.constant(false) },
  { weight: 1, arbitrary: fc.constant(true) },
);

const traffic = fc.record({
  load: fc.constantFrom(1.2, 5, 50),
  isolates: fc.constantFrom(1, 3, 10),
  seed: fc.integer(),
});

const shape = {
  limit: fc.integer({ min: 1, max: 12 }),
  windowMs: fc.oneof(fc.integer({ min: 1, max: 60 }), fc.constantFrom(997, 1_000, 60_000)),
  extra: fc.option(fc.integer({ min: 1, max: 12 }), { nil: undefined }),
  cost: fc.oneof(fc.constant(1), fc.integer({ min: 1, max: 6 })),
};

const blockingRule = fc.record({
  ...shape,
  algorithm: fc.constantFrom(...WITHOUT_SEATS),
  blockMs: fc.integer({ min: 1, max: 2_000 }),
});

type Shape = Pick<RuleCheck, 'limit' | 'extra' | 'cost' | 'windowMs'>;
const costThatFits = ({ limit, extra = limit, cost }: Shape) => Math.min(cost, limit, extra);
/** The longest wait for a cost that fits into the limit. No algorithm needs more than two windows. */
const longestWaitMs = ({ windowMs }: Shape) => 2 * windowMs;

interface Step {
  readonly isolate: number;
  readonly remembering: Verdict;
  readonly twin: Verdict;
}

interface Play {
  readonly engine: Engine;
  readonly requests: number;
  readonly load: number;
  readonly isolates: number;
  readonly seed: number;
  readonly checks: readonly [RuleCheck, ...RuleCheck[]];
  /** Chooses the checks of one request. The default is all of them. */
  readonly choose?: (checks: readonly RuleCheck[], random: () => number) => readonly RuleCheck[];
}

/** Random requests, and now and then one at the very moment that a denial has named, or 1 ms before it. */
async function play({ engine, requests, load, isolates, seed, checks, choose }: Play): Promise<Step[]> {
  const random = createRandom(seed);
  const gapMs = createGaps(checks[0], load, random);
  const system = createIsolates(engine, isolates);
  const steps: Step[] = [];
  let nowMs = START_MS;
  let namedMs = START_MS;
  for (let i = 0; i < requests; i++) {
    const isNamed = random() < 0.2;
    nowMs = Math.max(nowMs, isNamed ? namedMs - Math.round(random()) : nowMs + gapMs());
    const isolate = Math.floor(random() * isolates);
    const asked = choose?.(checks, random) ?? checks;
    const remembering = await system.decide(isolate, asked, nowMs);
    const twin = await askTwin(engine, asked, nowMs);
    if (twin.retryAfterMs) namedMs = nowMs + twin.retryAfterMs;
    steps.push({ isolate, remembering, twin });
  }
  return steps;
}

const admissions = (steps: readonly Step[], of: 'remembering' | 'twin') =>
  steps.map((step) => Number(step[of].allowed)).join('');

const expectSame = (steps: readonly Step[]) =>
  expect(admissions(steps, 'remembering')).toBe(admissions(steps, 'twin'));

/** A run of denials ends when the counters admit a request. In each run, every isolate that is denied must ask once. */
function fewestAsked(steps: readonly Step[]): number {
  let asked = 0;
  let told = new Set<number>();
  for (const { isolate, twin } of steps) {
    if (twin.allowed) told = new Set();
    else if (!told.has(isolate)) {
      told.add(isolate);
      asked += 1;
    }
  }
  return asked;
}

const deniedAsked = (steps: readonly Step[]) =>
  steps.filter(({ remembering }) => remembering.asked && !remembering.allowed).length;

/** Any rules together. For most of them, isolates remember denials. */
const rules = fc.array(
  fc.record({
    ...shape,
    algorithm: fc.constantFrom(...WITHOUT_SEATS),
    holdsSeat: seldom,
    isShadow: seldom,
    countDenied: seldom,
    blocks: seldom,
    sharesKey: fc.boolean(),
    rule: fc.oneof(
      { weight: 8, arbitrary: fc.constant({}) },
      { weight: 1, arbitrary: fc.constant({ refundOnError: true }) },
      { weight: 1, arbitrary: fc.constant({ costFromOrigin: true }) },
    ),
  }),
  { minLength: 2, maxLength: 4 },
);

type AnyRule = typeof rules extends fc.Arbitrary<(infer R)[]> ? R : never;

/** The first rule has no seats and does not only log, so that isolates have denials to remember. */
function checksOf(chosen: readonly AnyRule[]): [RuleCheck, ...RuleCheck[]] {
  const shared = nextSubject();
  return chosen.map(({ holdsSeat, sharesKey, blocks, algorithm, extra, isShadow, countDenied, ...rule }, i) =>
    checkOn(sharesKey ? shared : nextSubject(), {
      ...rule,
      id: `rule-${i}`,
      ...(holdsSeat && i > 0 ? { algorithm: 'concurrency' } : { algorithm, extra }),
      ...(blocks ? { cost: costThatFits({ ...rule, extra }), blockMs: 5 + longestWaitMs(rule) } : {}),
      countDenied: countDenied && !holdsSeat,
      isShadow: isShadow && i > 0,
    }),
  ) as [RuleCheck, ...RuleCheck[]];
}

/** Some of the checks. Each request takes its own seats. */
const someOf = (checks: readonly RuleCheck[], random: () => number): readonly RuleCheck[] => {
  const some = checks.filter(() => random() < 0.7);
  return (some.length > 0 ? some : checks).map((check) =>
    check.algorithm === 'concurrency' ? { ...check, seatId: nextSeatId() } : check,
  );
};

describe.each(ENGINE_NAMES)('on %s', (name) => {
  let engine: Engine;
  beforeAll(async () => {
    engine = await ENGINES[name]();
  });
  afterAll(() => engine[Symbol.asyncDispose]());
  const numRuns = RUNS[name];
  const requests = REQUESTS[name];

  it.each(WITHOUT_SEATS)(
    '%s: isolates that remember denials admit the same requests as isolates without memory',
    async (algorithm) => {
      await fc.assert(
        fc.asyncProperty(fc.record(shape), traffic, async (rule, { load, isolates, seed }) => {
          const checks = [checkOn(nextSubject(), { ...rule, algorithm })] as const;
          expectSame(await play({ engine, requests, load, isolates, seed, checks }));
        }),
        { numRuns },
      );
    },
  );

  it.each(WITHOUT_SEATS)('%s: each isolate asks only once during a run of denials', async (algorithm) => {
    await fc.assert(
      fc.asyncProperty(fc.record(shape), traffic, async (rule, { load, isolates, seed }) => {
        const fitting = { ...rule, algorithm, cost: costThatFits(rule) };
        const checks = [checkOn(nextSubject(), fitting)] as const;
        const steps = await play({ engine, requests, load, isolates, seed, checks });
        expect(deniedAsked(steps)).toBe(fewestAsked(steps));
      }),
      { numRuns: Math.ceil(numRuns / 3) },
    );
  });

  it('several rules: isolates that remember denials admit the same requests as isolates without memory', async () => {
    await fc.assert(
      fc.asyncProperty(rules, traffic, async (chosen, { load, isolates, seed }) => {
        const checks = checksOf(chosen);
        expectSame(await play({ engine, requests, load, isolates, seed, checks, choose: someOf }));
      }),
      { numRuns: numRuns * 3 },
    );
  });

  it('several rules: each isolate asks only once during a run of denials', async () => {
    await fc.assert(
      fc.asyncProperty(rules, traffic, async (chosen, { load, isolates, seed }) => {
        const remembered = { countDenied: false, holdsSeat: false, isShadow: false, blocks: false, rule: {} };
        const checks = checksOf(chosen.map((rule) => ({ ...rule, ...remembered, cost: costThatFits(rule) })));
        const steps = await play({ engine, requests, load, isolates, seed, checks });
        expect(deniedAsked(steps)).toBe(fewestAsked(steps));
      }),
      { numRuns },
    );
  });

  it('a block that is longer than any wait: memory does not change which requests are admitted', async () => {
    await fc.assert(
      fc.asyncProperty(blockingRule, traffic, async ({ blockMs, ...rule }, { load, isolates, seed }) => {
        const long = { ...rule, cost: costThatFits(rule), blockMs: blockMs + longestWaitMs(rule) };
        const checks = [checkOn(nextSubject(), long)] as const;
        expectSame(await play({ engine, requests, load, isolates, seed, checks }));
      }),
      { numRuns },
    );
  });

  // If there is still no room after a block, the next request starts a new block.
  it('a block of any length: memory does not change which requests are admitted', async () => {
    await fc.assert(
      fc.asyncProperty(blockingRule, traffic, async (rule, { load, isolates, seed }) => {
        const checks = [checkOn(nextSubject(), rule)] as const;
        expectSame(await play({ engine, requests, load, isolates, seed, checks }));
      }),
      { numRuns: numRuns * 2 },
    );
  });
});

describe('with up to 20 ms between isolates and counters', () => {
  const engine = createMemoryEngine();
  const cases = [1.2, 5, 50].flatMap((load) => [1, 3, 10].map((isolates) => ({ load, isolates })));

  it.each(WITHOUT_SEATS)(
    '%s: memory loses at most one admission in a hundred, and admits nothing beyond the limit',
    async (algorithm) => {
      let remembering = 0;
      let twin = 0;
      for (const [seed, { load, isolates }] of cases.entries()) {
        const check = checkOn(nextSubject(), { algorithm, limit: 40, windowMs: 1_000, cost: 1 + (seed % 2) });
        const requests = Math.round(150 * load);
        const played = await playSlowly({ engine, check, load, isolates, requests, seed });
        expect(played.outlived).toBe(0);
        remembering += played.remembering.length;
        twin += played.twin.length;
        const admissions = played.remembering.map((atMs) => ({ atMs, units: check.cost }));
        expect(firstBeyond(check, admissions)).toBeUndefined();
      }
      expect(remembering).toBeGreaterThanOrEqual(twin * 0.99);
    },
  );
});
