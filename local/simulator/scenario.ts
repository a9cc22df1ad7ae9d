// One episode as data, drawn from its seed, so that it can be repeated and made smaller.
import { createRandom, type Random } from '../random.ts';
import { CLOCK_BOUND_MS } from './bounds.ts';
import { between, happens, oneOf, placeBy, wholeBetween } from './draw.ts';
import { drawFaults, type Fault } from './faults.ts';
import type { NetworkSettings } from './network.ts';
import { type Content, drawChange, drawSets, drawShares, isHot, type RuleSet } from './rule-sets.ts';
import { drawArrivals, type SubjectPlan, TRAFFICS } from './traffic.ts';

export const REGIONS = ['us', 'eu', 'ap'] as const;
export const START_MS = 1_800_000_000_000;
export const KINDS = ['quiet', 'lossy', 'faulty', 'changing', 'everything'] as const;
export type Kind = (typeof KINDS)[number];

export interface Scenario {
  readonly seed: number;
  readonly kind: Kind;
  readonly deadlineMs: number;
  readonly isolatesPerPlace: number;
  readonly network: NetworkSettings;
  readonly boundMs: number;
  /** The distance of each clock to the true time: of regions, and of isolates by number. */
  readonly skewMs: readonly number[];
  readonly isolateSkewMs: readonly number[];
  /** The first content is in force from the start. */
  readonly contents: readonly { readonly atMs: number; readonly content: Content }[];
  readonly subjects: readonly SubjectPlan[];
  readonly faults: readonly Fault[];
  readonly endsAtMs: number;
}

const SUBJECTS = 25;
/** One of this many subjects is fast enough for leases. */
const HOT_EVERY = 5;
const SETS = 8;
/** Subjects start in the first part of this time. */
const LONGEST_MS = 1_200_000;
const BEGIN_MS = 200_000;

export function drawScenario(seed: number, wanted?: Kind): Scenario {
  const random = createRandom(seed);
  const kind = wanted ?? KINDS[placeBy(random, [4, 2, 2, 1, 1])] ?? 'quiet';
  const isolatesPerPlace = wholeBetween(random, 1, 3);
  const has = (...kinds: Kind[]) => kinds.includes(kind) || kind === 'everything';
  // A smaller bound makes the judgement stricter.
  const boundMs =
    kind === 'quiet' ? 0 : oneOf(random, [0, 0, CLOCK_BOUND_MS / 50, CLOCK_BOUND_MS / 5, CLOCK_BOUND_MS]);
  const skew = () => Math.round(between(random, -boundMs / 2, boundMs / 2));
  const deadlineMs = oneOf(random, [250, 250, 500, 1_000]);
  const contents = drawContents(random, has('changing') ? wholeBetween(random, 1, 4) : 0);
  const subjects = drawSubjects(random, contents[0]?.content.sets ?? []);
  const endsAtMs = Math.max(...subjects.map(({ arrivals }) => arrivals.at(-1)?.atMs ?? START_MS));
  return {
    seed,
    kind,
    deadlineMs,
    isolatesPerPlace,
    network: drawNetwork(random, { seed, isLossy: has('lossy', 'faulty') && happens(random, 0.8) }),
    boundMs,
    skewMs: REGIONS.map(skew),
    isolateSkewMs: Array.from({ length: REGIONS.length * isolatesPerPlace }, skew),
    contents,
    subjects,
    faults: has('faulty')
      ? drawFaults(random, { startMs: START_MS, endsAtMs, subjects: subjects.length })
      : [],
    endsAtMs,
  };
}

function drawNetwork(
  random: Random,
  { seed, isLossy }: { readonly seed: number; readonly isLossy: boolean },
): NetworkSettings {
  const far = REGIONS.map(() => REGIONS.map(() => between(random, 20, 125)));
  const lossRate = isLossy ? oneOf(random, [0.01, 0.1, 0.3]) : 0;
  return {
    seed,
    // Both directions take the same time.
    oneWayMs: far.map((row, i) =>
      row.map((_, j) => (i === j ? 1 : (far[Math.min(i, j)]?.[Math.max(i, j)] ?? 1))),
    ),
    jitter: oneOf(random, [0, 0.1, 0.5]),
    lossRate,
    lateRate: lossRate / 4,
    leaveRate: lossRate / 10,
  };
}

function drawContents(random: Random, changes: number): Scenario['contents'] {
  const shares = drawShares(random, REGIONS);
  let content: Content = { sets: drawSets(random, SETS), shares, sharesBefore: [], moved: {} };
  const contents = [{ atMs: START_MS, content }];
  for (let i = 1; i <= changes; i += 1) {
    const atMs = Math.round(START_MS + ((i - random()) * LONGEST_MS) / 2 / changes);
    content = drawChange(random, content, REGIONS, i);
    contents.push({ atMs, content });
  }
  return contents;
}

const drawSubjects = (random: Random, sets: readonly RuleSet[]): SubjectPlan[] =>
  Array.from({ length: SUBJECTS }, (_, i) => {
    const set = oneOf(random, i % HOT_EVERY === 0 ? sets.filter(isHot) : sets);
    const traffic = oneOf(random, TRAFFICS);
    const startMs = START_MS + wholeBetween(random, 0, BEGIN_MS);
    const arrivals = drawArrivals(random, {
      rules: set.rules,
      traffic,
      startMs,
      longestMs: LONGEST_MS - BEGIN_MS,
    });
    return { name: `s${i}`, path: set.path, traffic, arrivals };
  });
