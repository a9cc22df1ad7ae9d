// The two engines that must keep the same promises: the script on a real Redis, and its twin in memory. Both have an
// injected clock, and the few calls that tests need.
import { ALGORITHM_IDS, type AlgorithmId } from '../../src/core/counting/algorithms/registry.ts';
import type { Check, CheckOf, Operation, ReplyOf } from '../../src/core/counting/check.ts';
import { createMemoryCounters, runChecks } from '../../src/core/counting/counters.ts';
import type { AnswerOf } from '../../src/core/ports/region.ts';
import type { NamedCall } from '../shared/any-call.ts';
import { startLuaCounters } from './lua-counters.ts';

export type TimedCall<O extends Operation> = NamedCall<O> & { readonly nowMs: number };

export interface Engine extends AsyncDisposable {
  run<O extends Operation>(call: TimedCall<O>): Promise<AnswerOf<O>>;
  /** Whether anything is stored for this check. */
  exists(check: Check): Promise<boolean>;
  /** The same checks on copies of their counters, so that a try changes nothing here. */
  fork(checks: readonly Check[], nowMs: number): Promise<Check[]>;
}

export const ENGINES: Readonly<Record<'the script' | 'its twin', () => Promise<Engine>>> = {
  'the script': createLuaEngine,
  'its twin': async () => createMemoryEngine(),
};

export const ENGINE_NAMES = Object.keys(ENGINES) as (keyof typeof ENGINES)[];

export function createMemoryEngine(): Engine {
  const counters = createMemoryCounters();
  return {
    run: async <O extends Operation>({ operation, checks, nowMs }: TimedCall<O>) =>
      runChecks<O>(operation, checks, nowMs, counters),
    exists: async ({ key, id }) => counters.get(key, id) !== undefined,
    async fork(checks, nowMs) {
      const keys = new Map(checks.map(({ key }) => [key, nextKey()]));
      return checks.map((check) => {
        const key = keys.get(check.key) ?? '';
        counters.save(key, check.id, counters.get(check.key, check.id), nowMs);
        return { ...check, key };
      });
    },
    [Symbol.asyncDispose]: async () => {},
  };
}

async function createLuaEngine(): Promise<Engine> {
  const lua = await startLuaCounters({ injectedClock: true });
  return {
    run: (call) => lua.run(call),
    exists: async ({ key }) => (await lua.redis.exists(key)) === 1,
    async fork(checks) {
      const keys = new Map(checks.map(({ key }) => [key, nextKey()]));
      await Promise.all([...keys].map(([from, to]) => lua.redis.copy(from, to)));
      return checks.map((check) => ({ ...check, key: keys.get(check.key) ?? '' }));
    },
    [Symbol.asyncDispose]: () => lua[Symbol.asyncDispose](),
  };
}

export const START_MS = 1_800_000_000_000;
export const holdsSeats = (algorithm: AlgorithmId) => algorithm === 'concurrency';
export const WITHOUT_SEATS = ALGORITHM_IDS.filter((id) => !holdsSeats(id));

let keys = 0;
let seats = 0;

/** All keys of the tests share a hash tag, as the keys of one call must. */
export const nextKey = () => `{test}:${++keys}`;
export const nextSeatId = () => `seat-${String(++seats).padStart(11, '0')}`;

export type RuleShape = Pick<Check, 'algorithm' | 'limit' | 'windowMs'> & Partial<Check>;

/** A check of one unit by a new rule on a new subject, by default. */
export function createCheck({ extra, ...rule }: RuleShape): Check {
  const holdsSeat = holdsSeats(rule.algorithm);
  return {
    key: nextKey(),
    id: 'rule',
    cost: 1,
    ...(holdsSeat ? { seatId: nextSeatId() } : { extra }),
    ...rule,
  };
}

/** The next request under the same rule. It takes another seat. */
export function next<More extends Partial<Check>>(check: Check, changes?: More): Check & More;
export function next(check: Check, changes: Partial<Check> = {}): Check {
  return { ...check, ...(holdsSeats(check.algorithm) ? { seatId: nextSeatId() } : {}), ...changes };
}

/** Runs one check at one moment. */
export async function ask<O extends Operation>(
  engine: Engine,
  operation: O,
  check: CheckOf<O>,
  nowMs: number,
): Promise<ReplyOf<O>> {
  const checks = [check];
  const { outcomes } = await engine.run<O>({ operation, checks, nowMs } as unknown as TimedCall<O>);
  const [reply] = outcomes;
  if (reply === undefined) throw new Error('a check without a reply');
  return reply;
}

/** What is left, for a caller that holds nothing yet. */
export const look = (engine: Engine, check: Check, nowMs: number) =>
  ask(engine, 'peek', next(check, { cost: 1 }), nowMs);

/** Takes one unit after the other on a copy, until one is denied. Returns how many passed. */
export async function countAdmitted(
  engine: Engine,
  check: Check,
  nowMs: number,
  most: number,
): Promise<number> {
  const [copy = check] = await engine.fork([check], nowMs);
  for (let admitted = 0; ; admitted++) {
    const { allowed } = await ask(engine, 'take', next(copy, { cost: 1 }), nowMs);
    if (!allowed) return admitted;
    if (admitted > most) throw new Error(`more than ${most} were admitted`);
  }
}

/** Whether these checks would pass together. Tries it on copies. */
export async function wouldPass(engine: Engine, checks: readonly Check[], nowMs: number): Promise<boolean> {
  const copies = await engine.fork(checks, nowMs);
  const { outcomes } = await engine.run({ operation: 'take', checks: copies, nowMs });
  return outcomes.every(({ allowed }, i) => allowed || checks[i]?.isShadow);
}
