// Several processes race for the same units on a real redis-server, by its own clock: exactly the limit is admitted,
// and denied requests charge nothing.
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ALGORITHM_IDS } from '../../src/core/counting/algorithms/registry.ts';
import type { Check, Outcome } from '../../src/core/counting/check.ts';
import { parseAnswer, toScriptCall } from '../../src/redis/wire.ts';
import { createCheck, next } from './engines.ts';
import { type LuaCounters, startLuaCounters } from './lua-counters.ts';
import type { RaceResult, RaceTask } from './races-worker.ts';

const WORKER = fileURLToPath(new URL('./races-worker.ts', import.meta.url));
const HOUR_MS = 3_600_000;

type Request = readonly Check[];

interface Raced {
  readonly request: Request;
  readonly outcomes: readonly Outcome[];
}

const RACERS = 4;

let lua: LuaCounters;
let windowMs: number;
let racers: readonly ChildProcess[];
beforeAll(async () => {
  lua = await startLuaCounters({ injectedClock: false });
  windowMs = quietWindowMs(Date.now());
  racers = Array.from({ length: RACERS }, () => fork(WORKER, { serialization: 'advanced' }));
});
afterAll(async () => {
  for (const racer of racers) racer.kill();
  await lua[Symbol.asyncDispose]();
});

/** A window so long that no unit comes back during a race, with its borders far from now. */
function quietWindowMs(nowMs: number): number {
  const candidates = [1_000, 1_100, 1_200, 1_300, 1_400].map((hours) => hours * HOUR_MS);
  const far = candidates.find((ms) => nowMs % ms > HOUR_MS && nowMs % ms < ms - HOUR_MS);
  if (far === undefined) throw new Error('every window has a border near now');
  return far;
}

/** Runs each list of requests in its own process. All start together. */
async function race(lists: readonly (readonly Request[])[]): Promise<Raced[]> {
  expect(lists).toHaveLength(RACERS);
  await Promise.all(racers.map((racer, i) => prepare(racer, lists[i] ?? [])));
  const results = racers.map((racer) => once(racer, 'message'));
  for (const racer of racers) racer.send('go');
  const replies = (await Promise.all(results)).map(([result]) => result as RaceResult);
  return lists.flatMap((requests, i) =>
    requests.map((request, j) => ({
      request,
      outcomes: parseAnswer('take', replies[i]?.[j], request).outcomes,
    })),
  );
}

async function prepare(racer: ChildProcess, requests: readonly Request[]): Promise<void> {
  const calls = requests.map((checks) => toScriptCall('take', { checks }));
  racer.send({ port: lua.port, script: lua.script, calls } satisfies RaceTask);
  await once(racer, 'message');
}

const passed = ({ outcomes }: Raced) => outcomes.every(({ allowed }) => allowed);
const repeat = (times: number, request: () => Request) => Array.from({ length: times }, request);

/** Units of this rule that were admitted, by the answers. */
const admittedUnits = (raced: readonly Raced[], { key }: Check) =>
  raced
    .filter(passed)
    .flatMap(({ request }) => request.filter((check) => check.key === key))
    .reduce((total, { cost }) => total + cost, 0);

/** Units of this rule that were charged, by the counter itself. */
async function chargedUnits(check: Check): Promise<number> {
  const { outcomes } = await lua.run({ operation: 'peek', checks: [next(check)] });
  return check.limit - (outcomes[0]?.remaining ?? Number.NaN);
}

describe.each(ALGORITHM_IDS)('%s', (algorithm) => {
  it('admits exactly the limit to four processes that race for one key', async () => {
    const rule = createCheck({ algorithm, limit: 50, windowMs });
    const raced = await race(Array.from({ length: 4 }, () => repeat(60, () => [next(rule)])));
    expect(raced.filter(passed)).toHaveLength(50);
    expect(await chargedUnits(rule)).toBe(50);
  });

  it('admits exactly the limit in units to racing requests of different costs', async () => {
    const rule = createCheck({ algorithm, limit: 97, windowMs });
    const raced = await race([1, 2, 3, 7].map((cost) => repeat(100, () => [next(rule, { cost })])));
    expect(admittedUnits(raced, rule)).toBe(97);
    expect(await chargedUnits(rule)).toBe(97);
  });
});

describe('overlapping sets of rules', () => {
  it('charge each rule for exactly the requests that all rules of the request admitted', async () => {
    const rule = (algorithm: (typeof ALGORITHM_IDS)[number], limit: number) =>
      createCheck({ algorithm, limit, windowMs });
    const everyone = rule('gcra', 120);
    const tenants = [rule('sliding-window-log', 70), rule('sliding-window-counter', 70)] as const;
    const users = [rule('token-bucket', 20), rule('fixed-window', 60), rule('concurrency', 15)] as const;
    const sets = [
      [everyone, tenants[0], users[0]],
      [users[1], everyone, tenants[0]],
      [tenants[1], users[2], everyone],
      [users[1], tenants[1], tenants[0], everyone],
    ];
    const request = (set: Request, cost: number) => set.map((check) => next(check, { cost }));
    const raced = await race(sets.map((set, i) => repeat(150, () => request(set, i === 3 ? 2 : 1))));

    const rules = [everyone, ...tenants, ...users];
    for (const one of rules) expect(await chargedUnits(one)).toBe(admittedUnits(raced, one));
    for (const set of sets) {
      const left = await Promise.all(set.map(async (one) => one.limit - (await chargedUnits(one))));
      expect(Math.min(...left)).toBeLessThan(2);
    }
    const denied = raced.filter((one) => !passed(one));
    expect(denied.length).toBe(600 - raced.filter(passed).length);
    expect(denied.length).toBeGreaterThan(0);
  });
});
