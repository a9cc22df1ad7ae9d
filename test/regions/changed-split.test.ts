// Parts that change under load: never more than the limit, by the old parts, the new ones or both.
import { afterAll, beforeAll, it } from 'vitest';
import { type EdgeRule, type Edges, EVEN, startEdges } from '../../local/edges.ts';
import type { Split } from '../../src/core/matching/rule.ts';
import { OLD_RULES_GONE_MS } from '../../src/core/regions/placement.ts';
import { isLong } from '../rounds.ts';
import { PATIENT_MS, usePatience } from '../shared/patience.ts';
import { burst, expectWithin, nextSubject, SPLIT, sleep } from './play.ts';

usePatience();

let edges: Edges;
beforeAll(async () => {
  // A region that a busy machine keeps from answering would have a stand-in, which admits the limit once more.
  edges = await startEdges({ roundTripMs: 5, deadlineMs: PATIENT_MS });
});
afterAll(() => edges?.[Symbol.asyncDispose]());

/** Until the new parts hold: ten seconds, two windows, and some more. */
const LOAD_MS = 15_000;
/** Between two bursts in a region. Together, they send at least twice what any limit admits. */
const PAUSE_MS = isLong ? 40 : 300;
const LIMIT = isLong ? 30 : 12;
const changedTo = (shares: Split['shares'], before = EVEN): Split => ({
  shares,
  // As if the split had changed some time before, so that the transition ends within the load.
  before: [{ shares: before.shares, replacedAtMs: Date.now() - OLD_RULES_GONE_MS + 10_000 }],
});

it('a caller never exceeds the limit while the split changes, under any algorithm', async () => {
  await Promise.all(
    [...SPLIT, 'fixed-window' as const].map(async (algorithm, i) => {
      const isMoved = i === SPLIT.length;
      const rule: EdgeRule = { algorithm, limit: isMoved ? 4 : LIMIT, windowSeconds: 1, central: isMoved };
      const system = await edges.open([rule]);
      const at = (['us', 'eu', 'ap'] as const).map((name) => system.openEdge(name));
      const subject = nextSubject();
      const times: number[] = [];
      const endsAtMs = Date.now() + LOAD_MS;
      const load = at.map(async (edge) => {
        while (Date.now() < endsAtMs) {
          times.push(...(await burst(edge, subject, 4)));
          await sleep(PAUSE_MS);
        }
      });
      await sleep(1_300);
      // The last rule is counted in one region, and moves to another one.
      await system.setRules([rule], changedTo(isMoved ? { ap: 1 } : { us: 8, eu: 1, ap: 1 }));
      await Promise.all(load);
      await system.settled();
      expectWithin(rule, times);
    }),
  );
}, 60_000);
