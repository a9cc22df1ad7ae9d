// An episode as data in a small file. A seed draws another episode as soon as the generator changes; a file does not. So
// the smallest history of each failure is kept, and `npm test` plays it: test/simulator/episodes.
import { RULE_DEFAULTS } from '../../src/core/matching/flat-rule.ts';
import type { LimitedRule } from '../rules.ts';
import type { Content, RuleSet } from './rule-sets.ts';
import { type Scenario, START_MS } from './scenario.ts';
import type { Arrival, SubjectPlan } from './traffic.ts';

/** A rule without the fields that have their default values. */
type KeptRule = Partial<LimitedRule> & Pick<LimitedRule, 'id' | 'name' | 'resource' | 'scope' | 'ordinal'>;
type KeptContent = Omit<Content, 'sets'> & {
  readonly sets: readonly (Omit<RuleSet, 'rules'> & { readonly rules: readonly KeptRule[] })[];
};

export interface KeptEpisode {
  /** Sentences: what the episode showed, and what was wrong. */
  readonly wentWrong: string;
  readonly foundBy: string;
  readonly scenario: Omit<Scenario, 'contents' | 'subjects'> & {
    readonly contents: readonly { readonly atMs: number; readonly content: KeptContent }[];
    /** Arrivals: milliseconds since the one before, place, isolate, and `!` if the origin fails. */
    readonly subjects: readonly (Omit<SubjectPlan, 'arrivals'> & { readonly arrivals: string })[];
  };
}

export function keepEpisode(
  scenario: Scenario,
  about: Pick<KeptEpisode, 'wentWrong' | 'foundBy'>,
): KeptEpisode {
  const paths = new Set(scenario.subjects.map(({ path }) => path));
  const contents = scenario.contents.map(({ atMs, content }) => {
    const sets = content.sets.filter(({ path }) => paths.has(path));
    const ids = new Set(sets.flatMap(({ rules }) => rules.map(({ id }) => id)));
    const moved = Object.fromEntries(Object.entries(content.moved).filter(([id]) => ids.has(id)));
    const keptSets = sets.map((set) => ({ ...set, rules: set.rules.map(withoutDefaults) }));
    return { atMs, content: { ...content, sets: keptSets, moved } };
  });
  const subjects = scenario.subjects.map((one) => ({ ...one, arrivals: writeArrivals(one.arrivals) }));
  return { ...about, scenario: { ...scenario, contents, subjects } };
}

export function scenarioOfKept({ scenario }: KeptEpisode): Scenario {
  const contents = scenario.contents.map(({ atMs, content }) => {
    const sets = content.sets.map((set) => ({ ...set, rules: set.rules.map(withDefaults) }));
    return { atMs, content: { ...content, sets } };
  });
  const subjects = scenario.subjects.map((one) => ({ ...one, arrivals: readArrivals(one.arrivals) }));
  return { ...scenario, contents, subjects };
}

const withDefaults = (rule: KeptRule): LimitedRule => ({ ...RULE_DEFAULTS, ...rule }) as LimitedRule;

function withoutDefaults(rule: LimitedRule): KeptRule {
  const defaults: Readonly<Record<string, unknown>> = RULE_DEFAULTS;
  const differs = ([field, value]: readonly [string, unknown]) =>
    JSON.stringify(value) !== JSON.stringify(defaults[field]);
  return Object.fromEntries(Object.entries(rule).filter(differs)) as KeptRule;
}

const writeArrivals = (arrivals: readonly Arrival[]): string =>
  arrivals
    .map(({ atMs, place, isolate, fails }, i) => {
      const sinceMs = atMs - (arrivals[i - 1]?.atMs ?? START_MS);
      return `${sinceMs},${place},${isolate}${fails ? '!' : ''}`;
    })
    .join(' ');

function readArrivals(text: string): Arrival[] {
  let atMs = START_MS;
  return text.split(' ').map((one, number) => {
    const [sinceMs = 0, place = 0, isolate = 0] = one.replace('!', '').split(',').map(Number);
    atMs += sinceMs;
    return { number, atMs, place, isolate, fails: one.endsWith('!') };
  });
}
