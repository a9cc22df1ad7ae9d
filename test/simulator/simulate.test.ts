// The short run has a fixed seed, so that its result depends on the code and not on luck. The long form adds a fresh
// seed, which a failure names.
import { describe, expect, it } from 'vitest';
import { runEpisode } from '../../local/simulator/episode.ts';
import type { RegionServer } from '../../local/simulator/region-server.ts';
import { type EpisodeName, runNamed, scenarioOf, simulate } from '../../local/simulator/run.ts';
import { KINDS, type Scenario } from '../../local/simulator/scenario.ts';
import { shrink } from '../../local/simulator/shrink.ts';
import type { Check, Outcome } from '../../src/core/counting/check.ts';
import { isStandIn } from '../../src/core/matching/plan.ts';
import { isLong, rounds } from '../rounds.ts';

const FRESH = Math.floor(Math.random() * 2 ** 31);
/** One episode of each kind, with some of its subjects. The long form has many episodes with all subjects. */
const REQUESTS = rounds(1, 20_000);
const SUBJECTS = 10;
/** At least this fraction of the admitted requests uses leased units: enough to judge leases by. */
const LEASED = 0.2;
const withFew = (scenario: Scenario, subjects = SUBJECTS): Scenario => ({
  ...scenario,
  subjects: scenario.subjects.slice(0, subjects),
});
const runners = [isLong ? runNamed : (name: EpisodeName) => runEpisode(withFew(scenarioOf(name)))];

describe.each(isLong ? [1, FRESH] : [1])('the regions of seed %i', (seed) => {
  it.each(KINDS)('never exceed a limit, and hold nothing for ever: %s', async (kind) => {
    const { failed, leased, stoodIn, admitted } = await simulate({ seed, requests: REQUESTS, kind, runners });
    expect(failed).toEqual([]);
    // Nothing is lost in the first two kinds. In the last one regions are gone for long enough to judge stand-ins by.
    if (kind === 'quiet' || kind === 'changing') expect(stoodIn).toBe(0);
    if (kind === 'everything') expect(stoodIn).toBeGreaterThan(0);
    expect(leased / admitted).toBeGreaterThan(LEASED);
  });
});

describe('an episode', () => {
  it('has the same result each time it is repeated', async () => {
    const again = () => runEpisode(withFew(scenarioOf({ seed: 3, number: 0, kind: 'everything' }), 4));
    const [first, second] = [await again(), await again()];
    expect(second).toEqual(first);
  });

  it('shows that a limit is exceeded if regions go on counting what they have transferred', async () => {
    const failed = await failuresOf((server) => {
      const { run } = server;
      server.run = (operation, call) => {
        const answer = run.call(server, operation, call);
        // As if the transfer had not been written down.
        if (operation === 'transfer') server.reset(call.checks.map(({ key }) => key));
        return answer;
      };
    });
    expect(failed).toContain('over');
  });

  it('shows that a limit is exceeded if regions lease more than they charge', async () => {
    const failed = await failuresOf((server) => {
      server.run = changed({ ...server }, (outcome) => ({ ...outcome, granted: 2 * outcome.granted }));
    });
    expect(failed).toContain('over');
  });

  it('shows that a stand-in counts although every region answers', async () => {
    const failed = await failuresOf((server) => {
      // As if every region had transferred its part to a region that does not exist.
      server.run = changed({ ...server }, (outcome, nowMs, check) =>
        isStandIn(check)
          ? outcome
          : {
              ...outcome,
              allowed: false,
              transferredTo: { name: 'nowhere', usableMs: 60_000 },
              resetAtMs: nowMs + 60_000,
            },
      );
    }, 1);
    expect(failed).toContain('over');
  });

  it('shows that something is held for ever if a region never forgets', async () => {
    const failed = await failuresOf((server) => {
      server.live = () => ['a counter'];
    }, 1);
    expect(failed).toContain('held');
  });

  it('shows mistakes in the code that it runs', async () => {
    const failed = await failuresOf((server) => {
      server.run = () => {
        throw new TypeError('a mistake');
      };
    }, 1);
    expect(failed).toContain('bug');
  });
});

describe('a failing scenario', () => {
  it('is shrunk to the one request that makes it fail', async () => {
    const scenario = scenarioOf({ seed: 4, number: 0, kind: 'quiet' });
    const few = await shrink(scenario, async ({ subjects }) =>
      subjects.some(({ arrivals }) => arrivals.some(({ atMs }) => atMs % 100 === 0)),
    );
    expect(few.subjects.map(({ arrivals }) => arrivals.length)).toEqual([1]);
  });
});

/** The server's answers to takes, with changed outcomes. */
const changed =
  (
    server: RegionServer,
    change: (outcome: Outcome, nowMs: number, check: Check) => Outcome,
  ): RegionServer['run'] =>
  (operation, call) => {
    const answer = server.run(operation, call);
    if (operation !== 'take') return answer;
    const outcomes = answer.outcomes as readonly Outcome[];
    return {
      ...answer,
      outcomes: outcomes.map((one, i) => change(one, answer.nowMs, call.checks[i] as Check)),
    } as typeof answer;
  };

/** The failures of an episode whose regions are broken like that. */
async function failuresOf(tamper: (server: RegionServer) => void, subjects = SUBJECTS): Promise<string[]> {
  const { failures } = await runEpisode(
    withFew(scenarioOf({ seed: 4, number: 0, kind: 'quiet' }), subjects),
    {
      tamper,
    },
  );
  return failures.map(({ kind }) => kind);
}
