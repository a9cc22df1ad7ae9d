// A caller in one region can use the whole limit there, unit by unit, however far away the other regions are.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Edge, type Edges, startEdges } from '../../local/edges.ts';
import { isLong } from '../rounds.ts';
import { PATIENT_MS, usePatience } from '../shared/patience.ts';
import { burst, nextSubject, oneByOne, SPLIT } from './play.ts';

// An abandoned charge is lost. Here every region is healthy, and gets all the time it needs.
usePatience();
let edges: Edges;
beforeAll(async () => {
  edges = await startEdges({ roundTripMs: 80, deadlineMs: PATIENT_MS });
});
afterAll(() => edges?.[Symbol.asyncDispose]());

/** So long that nothing drains while the test runs, even on a busy machine. */
const DAY = { windowSeconds: 86_400 };

/** What is left, as this many requests read it one after the other. Undefined for denied ones. */
async function remainingOf(edge: Edge, subject: string, count: number): Promise<(number | undefined)[]> {
  const told: (number | undefined)[] = [];
  for (let i = 0; i < count; i += 1) {
    const decision = await edge.request(subject);
    if (decision.kind !== 'counted') throw new Error(`it was ${decision.kind}`);
    told.push(decision.allowed ? decision.results[0]?.outcome.remaining : undefined);
  }
  return told;
}

/**
 * How many of this many requests at once are admitted. Every region is healthy, so any other answer is shown unchanged.
 */
async function admittedOf(edge: Edge, subject: string, count: number): Promise<number> {
  const decisions = await Promise.all(Array.from({ length: count }, () => edge.request(subject)));
  expect(decisions.filter((one) => one.kind !== 'counted' || one.failedOver !== undefined)).toEqual([]);
  return decisions.filter(({ allowed }) => allowed).length;
}
const downFrom = (limit: number) => Array.from({ length: limit }, (_, i) => limit - 1 - i);

// The tests run at the same time, because most of the time they wait for far regions.
describe.concurrent.each(SPLIT)('a caller in one region under %s', (algorithm) => {
  const rule = { algorithm, limit: 60, ...DAY };

  it.each(isLong ? [3, 30, 100] : [3, 30])(
    'gets all of a limit of %d, counting down one by one, and not one unit more anywhere',
    async (limit) => {
      const system = await edges.open([{ ...rule, limit }]);
      const subject = nextSubject();
      const us = system.openEdge('us');
      expect(await remainingOf(us, subject, limit + 2)).toEqual([...downFrom(limit), undefined, undefined]);
      await system.settled();
      for (const name of ['us', 'eu', 'ap'] as const)
        expect(await burst(system.openEdge(name), subject, 5)).toEqual([]);
    },
  );

  it('gets all of the limit from several isolates at once', async () => {
    const system = await edges.open([rule]);
    const subject = nextSubject();
    const isolates = [system.openEdge('us'), system.openEdge('us'), system.openEdge('us')];
    const [one = 0, two = 0, three = 0] = await Promise.all(
      isolates.map((edge) => admittedOf(edge, subject, 25)),
    );
    const rest = await oneByOne(system.openEdge('us'), subject, 5);
    expect(one + two + three + rest.length).toBe(60);
  });

  it('gets only the part of that region if the rule does not spill', async () => {
    const system = await edges.open([{ ...rule, spill: false }]);
    const subject = nextSubject();
    expect(await oneByOne(system.openEdge('us'), subject, 30)).toHaveLength(20);
    expect(await oneByOne(system.openEdge('eu'), subject, 30)).toHaveLength(20);
  });
});

describe.concurrent('a limit that is not split', () => {
  it.each([
    ['because the rule says so', { algorithm: 'fixed-window', limit: 60, central: true }],
    ['because denied requests count', { algorithm: 'fixed-window', limit: 60, countDenied: true }],
    ['because the rule blocks', { algorithm: 'token-bucket', limit: 60, blockSeconds: 7_200 }],
  ] as const)('holds for callers in all regions: %s', async (_, rule) => {
    const system = await edges.open([{ ...rule, ...DAY }]);
    const subject = nextSubject();
    const us = await oneByOne(system.openEdge('us'), subject, Math.ceil(rule.limit / 2));
    const eu = await oneByOne(system.openEdge('eu'), subject, rule.limit);
    expect([us.length, eu.length]).toEqual([Math.ceil(rule.limit / 2), Math.floor(rule.limit / 2)]);
    expect(await oneByOne(system.openEdge('ap'), subject, 5)).toEqual([]);
  });

  it('leaves no charge in the nearest region for a request that it denies', async () => {
    const here = { algorithm: 'fixed-window', limit: 30, ...DAY, spill: false } as const;
    const system = await edges.open([
      here,
      { algorithm: 'fixed-window', limit: 6, ...DAY, central: true, resource: '/' },
    ]);
    const subject = nextSubject();
    expect(await oneByOne(system.openEdge('us'), subject, 20)).toHaveLength(6);
    await system.settled();
    // The isolate has given back the charges in us for requests that another region denied.
    await system.setRules([here]);
    expect(await oneByOne(system.openEdge('us'), subject, 10)).toHaveLength(4);
  });
});
