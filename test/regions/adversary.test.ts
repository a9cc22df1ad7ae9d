// A caller that spreads, concentrates, switches and races at the ends of windows never gets more than the limit.
import { afterAll, beforeAll, describe, it } from 'vitest';
import { type Edge, type EdgeRule, type Edges, startEdges } from '../../local/edges.ts';
import { isLong } from '../rounds.ts';
import { PATIENT_MS, usePatience } from '../shared/patience.ts';
import { burst, expectWithin, nextSubject, SPLIT, sleep } from './play.ts';

usePatience();

let edges: Edges;
beforeAll(async () => {
  // A region that a busy machine keeps from answering would have a stand-in, which admits the limit once more.
  edges = await startEdges({ roundTripMs: 15, deadlineMs: PATIENT_MS });
});
afterAll(() => edges?.[Symbol.asyncDispose]());

const WINDOW_MS = 1_500;
/** All traffic is in proportion to the limit, so the long form sends more of everything. */
const LIMIT = isLong ? 31 : 7;
const times = (factor: number) => Math.round(factor * LIMIT);
const rules: EdgeRule[] = SPLIT.flatMap((algorithm) => [
  { algorithm, limit: LIMIT, windowSeconds: WINDOW_MS / 1_000 },
]);

/** Waits for a moment of the window, counted from its start; a negative one counts from its end. */
const untilWindow = (offsetMs: number) =>
  sleep((2 * WINDOW_MS - (Date.now() % WINDOW_MS) + offsetMs) % WINDOW_MS);

type Trick = (edgesOfTrick: readonly Edge[], subject: string) => Promise<number[]>;

const TRICKS: Readonly<Record<string, Trick>> = {
  async 'spreads over all regions at once'(at, subject) {
    const first = await Promise.all(at.map((edge) => burst(edge, subject, times(0.8))));
    await sleep(WINDOW_MS / 3);
    const more = await Promise.all(at.map((edge) => burst(edge, subject, times(0.8))));
    return [...first, ...more].flat();
  },
  async 'drains one region, then the next'(at, subject) {
    const admitted: number[] = [];
    for (const edge of [...at, ...at]) admitted.push(...(await burst(edge, subject, times(1.3))));
    return admitted;
  },
  async 'races at the ends of windows'(at, subject) {
    const admitted: number[] = [];
    for (const offsetMs of [-60, -10, 0, 10, -40]) {
      await untilWindow(offsetMs);
      const all = await Promise.all(at.map((edge) => burst(edge, subject, times(0.5))));
      admitted.push(...all.flat());
    }
    return admitted;
  },
  async 'switches the region with every request'(at, subject) {
    const admitted: number[] = [];
    const endsAtMs = Date.now() + 2 * WINDOW_MS;
    for (let i = 0; Date.now() < endsAtMs; i += 1) {
      const edge = at[(i * 7) % at.length];
      if (edge) admitted.push(...(await burst(edge, subject, 2)));
      await sleep(20);
    }
    return admitted;
  },
};

describe.each(Object.keys(TRICKS))('a caller that %s', (trick) => {
  it('never gets more than the limit, under any algorithm', async () => {
    await Promise.all(
      rules.map(async (rule) => {
        const system = await edges.open([rule]);
        const at = (['us', 'eu', 'ap', 'us', 'eu'] as const).map((name) => system.openEdge(name));
        const admitted = (await TRICKS[trick]?.(at, nextSubject())) ?? [];
        await system.settled();
        expectWithin(rule, admitted);
      }),
    );
  });
});
