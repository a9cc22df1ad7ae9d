// Runs episodes until there were enough requests; several at once, if there are workers.
import { type Episode, runEpisode } from './episode.ts';
import { drawScenario, type Kind, type Scenario } from './scenario.ts';
import { addEpisode, createSummary, type Summary } from './summary.ts';

export interface EpisodeName {
  readonly seed: number;
  readonly number: number;
  readonly kind?: Kind | undefined;
}

/** Any two names draw different scenarios. */
export const scenarioOf = ({ seed, number, kind }: EpisodeName): Scenario =>
  drawScenario((Math.imul(seed, 0x9e3779b1) ^ Math.imul(number + 1, 0x85ebca6b)) >>> 0, kind);

export const runNamed = (name: EpisodeName): Promise<Episode> => runEpisode(scenarioOf(name));

export interface RunOptions {
  readonly seed: number;
  readonly requests: number;
  readonly kind?: Kind | undefined;
  /** Each runner runs one episode at a time. */
  readonly runners?: readonly ((name: EpisodeName) => Promise<Episode>)[];
  readonly onEpisode?: (summary: Summary) => void;
}

export async function simulate(options: RunOptions): Promise<Summary> {
  const { seed, requests, kind, runners = [runNamed], onEpisode } = options;
  const summary = createSummary();
  let next = 0;
  const runAll = async (run: (name: EpisodeName) => Promise<Episode>) => {
    while (summary.requests < requests) {
      const number = next;
      next += 1;
      addEpisode(summary, number, await run({ seed, number, kind }));
      onEpisode?.(summary);
    }
  };
  await Promise.all(runners.map(runAll));
  return summary;
}
