import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Edges, startEdges } from '../../local/edges.ts';
import { burst, LENT, nextSubject, oneByOne } from './play.ts';

let edges: Edges;
beforeAll(async () => {
  edges = await startEdges({ roundTripMs: 10 });
});
afterAll(() => edges?.[Symbol.asyncDispose]());

const isDraining = (algorithm: string) => ['token-bucket', 'leaky-bucket', 'gcra'].includes(algorithm);
const HOUR = { windowSeconds: 3_600 };

describe.each(LENT)('a caller in one region under %s', (algorithm) => {
  const rule = { algorithm, limit: 60, ...HOUR };

  it('can use the whole limit, and not one more, there or elsewhere', async () => {
    const system = await edges.open([{ ...rule, limit: 300 }]);
    const subject = nextSubject();
    const admitted = (await oneByOne(system.openEdge('us'), subject, 310)).length;
    // What drains also drains on the way between regions: parts of a unit, for each loan.
    expect(admitted).toBeGreaterThanOrEqual(isDraining(algorithm) ? 297 : 300);
    for (const name of ['us', 'eu', 'ap'] as const) {
      const rest = await burst(system.openEdge(name), subject, 10);
      expect(rest.length).toBeLessThanOrEqual(300 - admitted);
    }
  });

  it('can also do so all at once, from several isolates', async () => {
    const system = await edges.open([rule]);
    const subject = nextSubject();
    const isolates = [system.openEdge('us'), system.openEdge('us'), system.openEdge('us')];
    const all = await Promise.all(isolates.map((edge) => burst(edge, subject, 40)));
    // Batches that cross on their way may be more than was used: what is not taken over is lost until the window ends.
    const admitted = all.flat().length + (await oneByOne(system.openEdge('us'), subject, 30)).length;
    expect(admitted).toBeLessThanOrEqual(60);
    expect(admitted).toBeGreaterThanOrEqual(50);
  });

  it('has the share alone without spill', async () => {
    const system = await edges.open([{ ...rule, spill: false }]);
    const subject = nextSubject();
    expect(await oneByOne(system.openEdge('us'), subject, 30)).toHaveLength(20);
    expect(await oneByOne(system.openEdge('eu'), subject, 30)).toHaveLength(20);
  });
});

describe('a limit that is not split', () => {
  it.each([
    ['because the rule says so', { algorithm: 'fixed-window', limit: 60, central: true }],
    ['because its parts would be too small', { algorithm: 'gcra', limit: 2 }],
    ['because denied requests count', { algorithm: 'fixed-window', limit: 60, countDenied: true }],
    ['because it blocks', { algorithm: 'token-bucket', limit: 60, blockSeconds: 7_200 }],
  ] as const)('holds from everywhere: %s', async (_, rule) => {
    const system = await edges.open([{ ...rule, ...HOUR }]);
    const subject = nextSubject();
    const us = await oneByOne(system.openEdge('us'), subject, Math.ceil(rule.limit / 2));
    const eu = await oneByOne(system.openEdge('eu'), subject, rule.limit);
    expect([us.length, eu.length]).toEqual([Math.ceil(rule.limit / 2), Math.floor(rule.limit / 2)]);
    expect(await oneByOne(system.openEdge('ap'), subject, 5)).toEqual([]);
  });

  it('charges nothing here if it denies there', async () => {
    const system = await edges.open([
      { algorithm: 'fixed-window', limit: 6, ...HOUR, central: true },
      { algorithm: 'fixed-window', limit: 30, ...HOUR, spill: false },
    ]);
    const subject = nextSubject();
    const us = system.openEdge('us');
    expect(await oneByOne(us, subject, 20)).toHaveLength(6);
    await system.settled();
    const denied = await system.openEdge('us').request(subject);
    expect(denied).toMatchObject({ kind: 'counted', allowed: false });
    // What was charged here for those that were denied there has been given back.
    await system.setRules([{ algorithm: 'fixed-window', limit: 30, ...HOUR, spill: false }]);
  });
});
