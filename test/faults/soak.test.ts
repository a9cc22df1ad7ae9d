// Some seconds of random faults in every part (a minute in the long form), under load all the time. WEIR_SEED replays a
// run; WEIR_SOAK_MS makes it longer.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { freshIp, type IsolateName, REGIONS } from '../../local/weir.ts';
import { API_KEY_RANDOM_BYTES, createApiKey } from '../../src/identity/api-key.ts';
import { isLong } from '../rounds.ts';
import type { Answer, Ask, Load } from './client.ts';
import {
  addRule,
  admitted,
  DEADLINE_MS,
  expectSoon,
  type FaultStack,
  healthOf,
  LIMIT,
  latestMs,
  PART,
  recover,
  ruleFor,
  startFaultStack,
} from './harness.ts';
import { type RandomFault, randomFaults } from './random-faults.ts';
import { workerdMegabytes } from './workerd-memory.ts';

const SEED = Number(process.env['WEIR_SEED'] ?? 20_260_101);
const SOAK_MS = Number(process.env['WEIR_SOAK_MS'] ?? (isLong ? 60_000 : 8_000));
const WARM_UP_MS = 3_000;
const PER_SECOND = 40;
const WINDOW_MS = 5_000;
/**
 * For each request, workerd takes up to `KB_PER_REQUEST` with any Worker, even one that does nothing. Memory may grow
 * by this much more.
 */
const MAX_GROWTH_MB = 64;
const KB_PER_REQUEST = 16;
const ISOLATES: readonly IsolateName[] = ['one', 'two', 'three'];
const HOT = { path: '/hot', region: 'us', ip: freshIp() };

let stack: FaultStack;
let healthy: Load;
let unknownKey: string;
beforeAll(async () => {
  stack = await startFaultStack();
  await addRule(stack.weir, ruleFor('/roomy', 1_000_000));
  await addRule(stack.weir, ruleFor('/exact'));
  await addRule(stack.weir, { ...ruleFor('/hot'), windowSeconds: WINDOW_MS / 1_000 });
  unknownKey = await createApiKey(crypto.getRandomValues(new Uint8Array(API_KEY_RANDOM_BYTES)));
  await recover({ client: stack.client, isolates: ISOLATES });
});
afterAll(() => stack?.[Symbol.asyncDispose]());

/**
 * Half of the load is one subject, in all isolates. The rest comes from everywhere, now and then with an unknown key.
 */
function next(i: number): Ask {
  const isolate = ISOLATES[Math.floor(i / 2) % ISOLATES.length] as IsolateName;
  if (i % 2 === 0) return { ...HOT, isolate };
  const region = REGIONS[Math.floor(i / 6) % REGIONS.length] as string;
  return { path: '/roomy', isolate, region, ...(i % 8 === 1 && { headers: { 'X-API-Key': unknownKey } }) };
}

/** Requests that were surely admitted in a window: sent and answered within it. */
function admittedByWindow(answers: readonly Answer[]): Map<number, number> {
  const byWindow = new Map<number, number>();
  for (const { status, sentAtMs, answeredAtMs } of answers) {
    const window = Math.floor(sentAtMs / WINDOW_MS);
    if (status === 200 && window === Math.floor(answeredAtMs / WINDOW_MS))
      byWindow.set(window, (byWindow.get(window) ?? 0) + 1);
  }
  return byWindow;
}

/**
 * All regions together and every isolate may admit the limit once, and a region its part again whenever it has lost its
 * counts.
 */
function mostIn(window: number, happened: readonly RandomFault[]): number {
  const [startsAtMs, endsAtMs] = [window * WINDOW_MS, (window + 1) * WINDOW_MS];
  const losses = happened.filter(
    ({ isForgetful, beganAtMs, endedAtMs }) => isForgetful && beganAtMs < endsAtMs && endedAtMs >= startsAtMs,
  );
  return LIMIT * (1 + ISOLATES.length) + PART * losses.length;
}

async function expectHealthy(): Promise<void> {
  const { client, weir } = stack;
  expectSoon(await recover({ client, isolates: ISOLATES }));
  const closed = Object.fromEntries(REGIONS.map((region) => [region, 'closed']));
  for (const isolate of ISOLATES)
    expect(await healthOf(weir, isolate)).toMatchObject({ status: 'ok', isolate: { breakers: closed } });
  const ip = freshIp();
  const answers = [];
  for (let i = 0; i < 2 * LIMIT; i += 1)
    answers.push(await client.ask({ path: '/exact', ip, isolate: ISOLATES[i % 3] as IsolateName }));
  expect(admitted(answers)).toBe(PART);
  expect(answers.filter(({ degraded }) => degraded !== undefined)).toEqual([]);
}

it(
  `every request is answered under random faults, and all parts are well in the end: WEIR_SEED=${SEED}`,
  async () => {
    const { weir, client } = stack;
    healthy = await client.load({ perSecond: PER_SECOND, ms: WARM_UP_MS, next });
    const beforeMb = await workerdMegabytes();
    const [happened, seen] = await Promise.all([
      randomFaults({ weir, seed: SEED, ms: SOAK_MS, slowMs: 2 * DEADLINE_MS }),
      client.load({ perSecond: PER_SECOND, ms: SOAK_MS, next }),
    ]);
    console.log(
      `WEIR_SEED=${SEED}: ${happened.length} faults, slowest answer ${Math.round(seen.slowestMs)} ms`,
    );
    expect(new Set(happened.map(({ part }) => part)).size).toBe(REGIONS.length + 2);

    expect(seen.errors).toEqual([]);
    expect(seen.answers).toHaveLength((PER_SECOND * SOAK_MS) / 1_000);
    expect(seen.answers.filter(({ status }) => status !== 200 && status !== 429)).toEqual([]);
    expect(seen.slowestMs).toBeLessThanOrEqual(latestMs(seen, healthy));
    const hot = seen.answers.filter(({ ask }) => ask.path === HOT.path);
    for (const [window, count] of admittedByWindow(hot))
      expect(count, `in window ${window}`).toBeLessThanOrEqual(mostIn(window, happened));

    await expectHealthy();
    const afterMb = await workerdMegabytes();
    console.log(`workerd: ${beforeMb?.toFixed()} MB before, ${afterMb?.toFixed()} MB after`);
    // Each was sent along with a control request.
    const usualMb = (2 * seen.answers.length * KB_PER_REQUEST) / 1_024;
    if (beforeMb !== undefined && afterMb !== undefined)
      expect(afterMb - beforeMb).toBeLessThan(MAX_GROWTH_MB + usualMb);
  },
  SOAK_MS + 120_000,
);
