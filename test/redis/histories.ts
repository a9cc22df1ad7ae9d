// Random and adversarial histories of one rule or several, for properties that must hold after any of them.
import fc from 'fast-check';
import { ALGORITHM_IDS, type AlgorithmId } from '../../src/core/counting/algorithms/registry.ts';
import { type Check, largestLimit, type Outcome } from '../../src/core/counting/check.ts';
import {
  ask,
  createCheck,
  type Engine,
  holdsSeats,
  look,
  next,
  type RuleShape,
  START_MS,
} from './engines.ts';

/** Moments that an attacker would choose, and any number of milliseconds. */
type Wait = number | 'retry' | 'before retry' | 'border' | 'before border' | 'window' | 'before window';

export interface Step {
  readonly wait: Wait;
  /** `all` takes whatever is left. */
  readonly cost: number | 'all';
  readonly want: number;
  /** How many times the rule's limit is the limit of this request; 1 if not given. */
  readonly limitTimes?: number;
}

export interface Attempt {
  readonly atMs: number;
  readonly check: Check;
  readonly outcome: Outcome;
}

export interface Admission {
  readonly atMs: number;
  readonly units: number;
}

const wait = fc.oneof(
  { weight: 3, arbitrary: fc.constant<Wait>(0) },
  { weight: 3, arbitrary: fc.integer({ min: 1, max: 40 }) },
  {
    weight: 5,
    arbitrary: fc.constantFrom<Wait>(
      'retry',
      'before retry',
      'border',
      'before border',
      'window',
      'before window',
    ),
  },
  { weight: 1, arbitrary: fc.integer({ min: 100, max: 5_000 }) },
);

export const step = fc.record<Step>({
  wait,
  cost: fc.oneof(fc.constant(1), fc.constant('all' as const), fc.integer({ min: 1, max: 13 })),
  want: fc.oneof(
    { weight: 4, arbitrary: fc.constant(0) },
    { weight: 1, arbitrary: fc.integer({ min: 1, max: 5 }) },
  ),
});

export const steps = fc.array(step, { minLength: 1, maxLength: 30 });

/** Steps between which the limit changes, as it does for another tier, another key, or a part in another region. */
export const stepsOfManyLimits: fc.Arbitrary<Step[]> = fc.array(
  fc
    .tuple(step, fc.constantFrom(1, 1, 1, 0.5, 0.2, 2, 5))
    .map(([one, limitTimes]) => ({ ...one, limitTimes })),
  { minLength: 1, maxLength: 30 },
);

const small = {
  limit: fc.integer({ min: 1, max: 12 }),
  windowMs: fc.oneof(fc.integer({ min: 1, max: 60 }), fc.constantFrom(997, 1_000, 60_000)),
};

export const ruleOf = (...algorithms: AlgorithmId[]): fc.Arbitrary<RuleShape> =>
  fc.record({
    algorithm: fc.constantFrom(...algorithms),
    ...small,
    extra: fc.option(fc.integer({ min: 1, max: 12 }), { nil: undefined }),
  });

/** Products of limit and window near the largest allowed, without algorithms that remember every unit. */
const largeRule: fc.Arbitrary<RuleShape> = fc.record({
  algorithm: fc.constantFrom(...ALGORITHM_IDS.filter((id) => id !== 'sliding-window-log' && !holdsSeats(id))),
  limit: fc.integer({ min: 999_000, max: 2 ** 20 }),
  windowMs: fc.integer({ min: 2 ** 32 - 1_000, max: 2 ** 32 }),
  extra: fc.option(fc.integer({ min: 1, max: 100 }), { nil: undefined }),
});

const options = fc.record({
  countDenied: fc.boolean(),
  blockMs: fc.option(fc.integer({ min: 1, max: 2_000 }), { nil: undefined }),
});

/** Any rule with any options. */
export const anyRule: fc.Arbitrary<RuleShape> = fc
  .tuple(
    fc.oneof({ weight: 5, arbitrary: ruleOf(...ALGORITHM_IDS) }, { weight: 1, arbitrary: largeRule }),
    options,
  )
  .map(([rule, { countDenied, blockMs }]) => ({
    ...rule,
    blockMs,
    countDenied: countDenied && !holdsSeats(rule.algorithm),
  }));

function waitMs(
  chosen: Wait,
  { algorithm, windowMs, extra = 10 }: Check,
  nowMs: number,
  retryMs: number,
): number {
  const cellMs = algorithm === 'sliding-window-buckets' ? Math.ceil(windowMs / extra) : windowMs;
  const toBorderMs = cellMs - (nowMs % cellMs);
  if (typeof chosen === 'number') return chosen;
  const moments = {
    retry: retryMs,
    'before retry': Math.max(0, retryMs - 1),
    border: toBorderMs,
    'before border': toBorderMs - 1,
    window: windowMs,
    'before window': windowMs - 1,
  };
  return moments[chosen];
}

/** Every step is a request. The answer to an earlier one decides when the next one comes. */
export async function play(engine: Engine, rule: Check, history: readonly Step[]): Promise<Attempt[]> {
  const attempts: Attempt[] = [];
  let atMs = START_MS;
  for (const { wait: chosen, cost: asked, want, limitTimes = 1 } of history) {
    atMs += waitMs(chosen, rule, atMs, attempts.at(-1)?.outcome.retryAfterMs ?? 0);
    const cost = asked === 'all' ? Math.max(1, (await look(engine, rule, atMs)).remaining) : asked;
    const limit = Math.ceil(Math.min(rule.limit * limitTimes, largestLimit(rule.algorithm, rule.windowMs)));
    const check = next(rule, { cost, limit, leaseUnits: want });
    attempts.push({ atMs, check, outcome: await ask(engine, 'take', check, atMs) });
  }
  return attempts;
}

/** A new subject with a history. `nowMs` is the last moment of the history. */
export async function age(engine: Engine, rule: RuleShape, history: readonly Step[]) {
  const check = createCheck(rule);
  const attempts = await play(engine, check, history);
  return { check, attempts, nowMs: attempts.at(-1)?.atMs ?? START_MS };
}

export const admissionsOf = (attempts: readonly Attempt[]): Admission[] =>
  attempts
    .filter(({ outcome }) => outcome.allowed)
    .map(({ atMs, check, outcome }) => ({ atMs, units: check.cost + outcome.granted }));

export const unitsOf = (admissions: readonly Admission[]) =>
  admissions.reduce((total, { units }) => total + units, 0);
