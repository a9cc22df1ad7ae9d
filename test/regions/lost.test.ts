// A region that is frozen, and regions that are lost in the middle of a loan: never over, and little is lost.
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type Edges, type RegionOfEdges, startEdges } from '../../local/edges.ts';
import { nextSubject, oneByOne, sleep } from './play.ts';

const ROUND_TRIP_MS = 60;
const LIMIT = 60;
const RULE = { algorithm: 'fixed-window', limit: LIMIT, windowSeconds: 3_600 } as const;
/** What is borrowed first at most: a quarter of what was used, divided by the isolates that there are. */
const FIRST_BATCH = 5;

function expectOneBatchLost(rest: readonly number[]) {
  const lost = (2 * LIMIT) / 3 - rest.length;
  expect(lost).toBeGreaterThanOrEqual(1);
  expect(lost).toBeLessThanOrEqual(FIRST_BATCH);
}

let edges: Edges;
beforeAll(async () => {
  // Long enough that a lender that is well is never given up on, however busy this machine is.
  edges = await startEdges({ roundTripMs: ROUND_TRIP_MS, deadlineMs: 2_000 });
});
afterAll(() => edges?.[Symbol.asyncDispose]());
afterEach(async () => {
  for (const { redis, gateway, far } of edges.regions) {
    redis.thaw();
    await gateway.faults.clear();
    await far.faults.set({ latencyMs: ROUND_TRIP_MS });
  }
});

const region = (name: string): RegionOfEdges => {
  const found = edges.regions.find((candidate) => candidate.name === name);
  if (!found) throw new Error(`there is no region ${name}`);
  return found;
};

/** A subject that has used up its part in us, which is all it has used. */
async function usedUp() {
  const system = await edges.open([RULE]);
  const subject = nextSubject();
  const us = system.openEdge('us');
  expect(await oneByOne(us, subject, LIMIT / 3)).toHaveLength(LIMIT / 3);
  return { system, subject, us };
}

describe('while a region is frozen', () => {
  it('a caller can use what the others have, and no more', async () => {
    region('eu').redis.freeze();
    const { subject, us } = await usedUp();
    expect(await oneByOne(us, subject, 40)).toHaveLength(LIMIT / 3);
  });

  it('and after it has thawed, the rest', async () => {
    region('eu').redis.freeze();
    const { system, subject, us } = await usedUp();
    const before = await oneByOne(us, subject, 40);
    region('eu').redis.thaw();
    await sleep(100);
    const after = await oneByOne(system.openEdge('us'), subject, 40);
    const all = LIMIT / 3 + before.length + after.length;
    expect(all).toBeLessThanOrEqual(LIMIT);
    // Loans that were given up on have been charged all the same, once it thawed.
    expect(all).toBeGreaterThanOrEqual(LIMIT / 3 + before.length);
  });
});

describe('a loan that is lost', () => {
  it('before the lender has charged it costs nothing', async () => {
    const { system, subject, us } = await usedUp();
    for (const name of ['eu', 'ap']) await region(name).far.faults.set({ status: 500 });
    expect(await oneByOne(us, subject, 1)).toEqual([]);
    for (const name of ['eu', 'ap']) await region(name).far.faults.set({ latencyMs: 1 });
    expect(await oneByOne(system.openEdge('us'), subject, 60)).toHaveLength((2 * LIMIT) / 3);
  });

  it('after the lender has charged costs one batch', async () => {
    const { system, subject, us } = await usedUp();
    await region('eu').far.faults.set({ resetMidReply: true });
    await region('ap').far.faults.set({ status: 500 });
    expect(await oneByOne(us, subject, 1)).toEqual([]);
    for (const name of ['eu', 'ap']) await region(name).far.faults.set({ latencyMs: 1 });
    expectOneBatchLost(await oneByOne(system.openEdge('us'), subject, 60));
  });

  it('before the borrower has heard of it costs one batch', async () => {
    const { system, subject, us } = await usedUp();
    const asked = us.request(subject);
    // The first call has been denied by now; the lender is being asked.
    await sleep(ROUND_TRIP_MS / 2);
    await region('us').gateway.faults.set({ status: 500 });
    const decision = await asked;
    await region('us').gateway.faults.clear();
    for (const name of ['eu', 'ap']) await region(name).far.faults.set({ latencyMs: 1 });
    // It had been denied: that stands.
    expect(decision).toMatchObject({ kind: 'counted', allowed: false });
    expectOneBatchLost(await oneByOne(system.openEdge('us'), subject, 60));
  });
});
