// Every failure that the simulator has ever shown, as small as it could be made. Each file says what went wrong.
import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { runEpisode } from '../../local/simulator/episode.ts';
import { type KeptEpisode, keepEpisode, scenarioOfKept } from '../../local/simulator/kept-episode.ts';
import { scenarioOf } from '../../local/simulator/run.ts';

const FOLDER = new URL('episodes/', import.meta.url);
const kept = readdirSync(FOLDER).map((file) => {
  const episode: KeptEpisode = JSON.parse(readFileSync(new URL(file, FOLDER), 'utf8'));
  return { name: file.replace('.json', ''), episode };
});

describe('an episode that once failed', () => {
  it.each(kept)('passes, and still admits requests: $name', async ({ episode }) => {
    expect(episode.wentWrong).toMatch(/\w+.*\.$/);
    const { failures, admitted } = await runEpisode(scenarioOfKept(episode));
    expect(failures).toEqual([]);
    expect(admitted).toBeGreaterThan(0);
  });
});

it('an episode that is written to a file and read again has the same result', async () => {
  const scenario = scenarioOf({ seed: 5, number: 0, kind: 'everything' });
  const few = { ...scenario, subjects: scenario.subjects.slice(1, 2) };
  const file = JSON.stringify(keepEpisode(few, { wentWrong: 'Nothing.', foundBy: 'this test' }));
  expect(await runEpisode(scenarioOfKept(JSON.parse(file)))).toEqual(await runEpisode(few));
});
