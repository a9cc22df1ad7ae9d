// A frozen region, and calls that are lost before or after they ran: never over the limit, and only time and the
// charges of abandoned requests are lost.
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type Edges, type RegionOfEdges, startEdges } from '../../local/edges.ts';
import { PATIENT_MS, usePatience } from '../shared/patience.ts';
import { playWithoutStandstill } from '../shared/standstill.ts';
import { nextSubject, oneByOne, sleep } from './play.ts';

const ROUND_TRIP_MS = 60;
const LIMIT = 60;
const RULE = { algorithm: 'fixed-window', limit: LIMIT, windowSeconds: 3_600 } as const;

/** Requests give up on the frozen region after this time. */
const FROZEN_DEADLINE_MS = 2_000;

let edges: Edges;
/** Healthy regions get all the time they need. Requests give up only on a frozen region. */
function useEdges(deadlineMs: number): void {
  beforeAll(async () => {
    edges = await startEdges({ roundTripMs: ROUND_TRIP_MS, deadlineMs });
  });
  afterAll(() => edges?.[Symbol.asyncDispose]());
}

const others = () => edges.regions.filter(({ name }) => name !== 'us');
const far = async (fault: Parameters<RegionOfEdges['far']['faults']['set']>[0]) => {
  for (const region of others()) await region.far.faults.set(fault);
};
afterEach(async () => {
  for (const { redis } of edges.regions) redis.thaw();
  await far({ latencyMs: ROUND_TRIP_MS });
});
const eu = (): RegionOfEdges => {
  const found = edges.regions.find(({ name }) => name === 'eu');
  if (!found) throw new Error('there is no region eu');
  return found;
};

/** A subject that has used up its part in us, and nothing else. Its calls to the other regions met the fault. */
async function usedUp(fault: Parameters<typeof far>[0] = {}) {
  const system = await edges.open([RULE]);
  const subject = nextSubject();
  const us = system.openEdge('us');
  await far(fault);
  expect(await oneByOne(us, subject, LIMIT / 3)).toHaveLength(LIMIT / 3);
  await system.settled();
  const heal = () => far({ latencyMs: 1 });
  return { system, subject, us, heal };
}

describe('a call that is lost', () => {
  usePatience();
  useEdges(PATIENT_MS);

  it('costs nothing if it asked for a part and never ran', async () => {
    const { system, subject, heal } = await usedUp({ status: 500 });
    await heal();
    expect(await oneByOne(system.openEdge('us'), subject, LIMIT)).toHaveLength((2 * LIMIT) / 3);
  });

  it('costs nothing if it asked for a part and only its answer is lost', async () => {
    const { system, subject, us, heal } = await usedUp({ resetMidReply: true });
    await heal();
    // This request asks the other regions, and learns that us has the whole limit.
    expect(await oneByOne(us, subject, 1)).toHaveLength(1);
    expect(await oneByOne(us, subject, 10)).toHaveLength(10);
    // A request in eu, which has transferred its part, learns the same.
    expect(await oneByOne(system.openEdge('eu'), subject, LIMIT)).toHaveLength((2 * LIMIT) / 3 - 11);
    expect(await oneByOne(system.openEdge('ap'), subject, 5)).toEqual([]);
  });

  it('costs what it charged, and no more, if it counted a request and its answer is lost', async () => {
    const { system, subject, us, heal } = await usedUp({ status: 500 });
    await far({ status: 500 });
    await eu().far.faults.set({ resetMidReply: true });
    // us denies the request, and this denial stands.
    expect(await us.request(subject)).toMatchObject({ kind: 'counted', allowed: false });
    await heal();
    expect(await oneByOne(system.openEdge('us'), subject, LIMIT)).toHaveLength((2 * LIMIT) / 3 - 1);
  });
});

describe('while a region is frozen', () => {
  useEdges(FROZEN_DEADLINE_MS);

  /** How many requests are admitted while eu is frozen, and after it has thawed. */
  const play = async () => {
    eu().redis.freeze();
    const system = await edges.open([RULE]);
    const subject = nextSubject();
    const us = system.openEdge('us');
    const before = await oneByOne(us, subject, LIMIT / 3);
    await sleep(2 * ROUND_TRIP_MS);
    before.push(...(await oneByOne(us, subject, LIMIT / 3 + 1)));
    eu().redis.thaw();
    await system.settled();
    const after = await oneByOne(system.openEdge('us'), subject, LIMIT);
    return { before: before.length, after: after.length };
  };

  it('a caller can use the parts of the other regions and no more, and after the thaw only the rest', async () => {
    const us = (await edges.open([RULE])).openEdge('us');
    const control = () => us.request(nextSubject());
    const standstillMs = FROZEN_DEADLINE_MS / 4;
    const { before, after } = await playWithoutStandstill({ play, control, standstillMs });
    expect(before).toBe((2 * LIMIT) / 3);
    // The abandoned request was still charged once eu thawed, if it came before the part was transferred.
    expect(after).toBeGreaterThanOrEqual(LIMIT / 3 - 1);
    expect(after).toBeLessThanOrEqual(LIMIT / 3);
  });
});
