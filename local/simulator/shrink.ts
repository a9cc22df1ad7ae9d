// Makes a failing episode smaller: fewer subjects, requests and faults, as long as it still fails in the same way.
import { runEpisode } from './episode.ts';
import type { Scenario } from './scenario.ts';

export interface Shrunk {
  readonly scenario: Scenario;
  readonly requests: number;
  readonly journal: readonly string[];
}

/** The most runs. Each takes some milliseconds. */
const MAX_RUNS = 400;

/** `fails` says whether an episode still shows the failure. */
export async function shrink(
  scenario: Scenario,
  fails: (scenario: Scenario) => Promise<boolean>,
): Promise<Scenario> {
  let runs = 0;
  const stillFails = async (smaller: Scenario) => {
    runs += 1;
    return runs <= MAX_RUNS && fails(smaller);
  };
  let smallest = scenario;
  /** Leaves out smaller and smaller pieces of one list. */
  const leaveOut = async <T>(all: readonly T[], withList: (list: readonly T[]) => Scenario) => {
    let list = all;
    for (let size = Math.ceil(list.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2))
      for (let from = 0; from < list.length; ) {
        const fewer = [...list.slice(0, from), ...list.slice(from + size)];
        if (fewer.length > 0 && (await stillFails(withList(fewer)))) list = fewer;
        else from += size;
      }
    smallest = withList(list);
  };
  await leaveOut(smallest.subjects, (subjects) => ({ ...smallest, subjects }));
  if (smallest.faults.length > 0) {
    const withoutAny = { ...smallest, faults: [] };
    if (await stillFails(withoutAny)) smallest = withoutAny;
    else await leaveOut(smallest.faults, (faults) => ({ ...smallest, faults }));
  }
  for (const i of smallest.subjects.keys()) {
    const subject = smallest.subjects[i];
    if (!subject) continue;
    await leaveOut(subject.arrivals, (arrivals) => ({
      ...smallest,
      subjects: smallest.subjects.with(i, { ...subject, arrivals }),
    }));
  }
  return smallest;
}

/** The smallest history that exceeds the limit of that key. */
export async function shrinkOver(scenario: Scenario, key: string): Promise<Shrunk> {
  const smallest = await shrink(scenario, async (smaller) => {
    const { failures } = await runEpisode(smaller);
    return failures.some(({ kind, subject }) => kind === 'over' && subject === key);
  });
  const { journal, requests } = await runEpisode(smallest, { journalOf: key });
  return { scenario: smallest, requests, journal };
}
