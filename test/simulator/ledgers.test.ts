// The judge of a whole episode: how much more may pass after a region has forgotten what it counted.
import { expect, it } from 'vitest';
import { createLedgers } from '../../local/simulator/ledgers.ts';
import type { Content } from '../../local/simulator/rule-sets.ts';
import { scenarioOf } from '../../local/simulator/run.ts';
import { REGIONS, START_MS } from '../../local/simulator/scenario.ts';
import { RULE_DEFAULTS } from '../../src/core/matching/flat-rule.ts';
import { type RuleCheck, standInAt } from '../../src/core/matching/plan.ts';
import { checkOf } from '../limiter/regional-isolate.ts';

const AP = 2;
const limited = (limit: number): RuleCheck => {
  const check = checkOf('counter', { algorithm: 'sliding-window-log', limit, windowMs: 60_000 });
  return { ...check, rule: { ...check.rule, id: 'grows', limit }, full: { limit, extra: undefined } };
};
/** The limit grows from 3 to 30. Each of the three regions has a third of it. */
const [before, after] = [limited(3), limited(30)];
const contentWith = ({ rule: { id, name, limit } }: RuleCheck): Content => {
  const counting = { algorithm: 'sliding-window-log', limit, windowSeconds: 1 } as const;
  const rule = { ...RULE_DEFAULTS, ...counting, id, name, resource: '/', scope: 'ip', ordinal: 1 } as const;
  return {
    sets: [{ path: '/', rules: [rule] }],
    shares: { us: 1, eu: 1, ap: 1 },
    sharesBefore: [],
    moved: {},
  };
};
const scenario = {
  ...scenarioOf({ seed: 1, number: 0, kind: 'quiet' }),
  contents: [
    { atMs: START_MS, content: contentWith(before) },
    { atMs: START_MS + 1, content: contentWith(after) },
  ],
};

it.each([
  [40, []],
  [41, ['over']],
])(
  'after a region has lost its part of a limit that grew, %d units of 30 are judged: %j',
  (units, failures) => {
    const ledgers = createLedgers(scenario);
    ledgers.admit(before, { region: 0, request: 0, nowMs: START_MS - 100_000 });
    for (let i = 1; i <= units; i += 1)
      ledgers.admit(after, { region: 0, request: i, nowMs: START_MS + 1_000 + i });
    const forgot = [{ atMs: START_MS + 900, region: AP }];
    expect(ledgers.judge(forgot).map(({ kind }) => kind)).toEqual(failures);
  },
);

it.each([
  ['30 more in one region', { eu: 30 }, []],
  ['30 more in each of two regions, one of which was down, too', { eu: 30, ap: 30 }, []],
  ['31 more in one region', { eu: 31 }, ['over']],
] as const)(
  'beside a used-up limit of 30, what stand-ins admit is judged by itself: %s',
  (_, counts, failures) => {
    const ledgers = createLedgers(scenario);
    let request = 0;
    const admit = (check: RuleCheck, region: number, units: number) => {
      for (let i = 1; i <= units; i += 1)
        ledgers.admit(check, { region, request: ++request, nowMs: START_MS + request });
    };
    admit(after, 0, 30);
    for (const [region, units] of Object.entries(counts))
      admit(standInAt(region, after), REGIONS.indexOf(region as 'eu'), units);
    expect(ledgers.judge([]).map(({ kind }) => kind)).toEqual(failures);
  },
);

it.each([
  ['of that stand-in', 'eu', []],
  ['of another region', 'ap', ['over']],
] as const)('a stand-in may admit its limit again after a loss %s', (_, lost, failures) => {
  const ledgers = createLedgers(scenario);
  for (let i = 1; i <= 60; i += 1)
    ledgers.admit(standInAt('eu', after), { region: 1, request: i, nowMs: START_MS + i });
  const forgot = [{ atMs: START_MS + 30, region: REGIONS.indexOf(lost) }];
  expect(ledgers.judge(forgot).map(({ kind }) => kind)).toEqual(failures);
});

it('a bucket that an isolate with an old limit has touched drains at the pace of that limit', () => {
  const bucket = (limit: number): RuleCheck => {
    const check = checkOf('bucket', { algorithm: 'gcra', limit, windowMs: 60_000 });
    return { ...check, rule: { ...check.rule, id: 'shrinks', limit }, full: { limit, extra: undefined } };
  };
  const [old, lowered] = [bucket(30), bucket(6)];
  const over = (isTouched: boolean) => {
    const ledgers = createLedgers(scenario);
    for (let i = 0; i < 6; i += 1) ledgers.admit(lowered, { region: 0, request: i, nowMs: START_MS + i });
    if (isTouched) ledgers.touch(old, { region: 0, atMs: START_MS + 100 });
    for (let i = 6; i < 12; i += 1)
      ledgers.admit(lowered, { region: 0, request: i, nowMs: START_MS + 20_000 + i });
    return ledgers.judge([]).length;
  };
  expect([over(true), over(false)]).toEqual([0, 1]);
});

it('a region loses a part of whole requests: of 6 units at 3 each, two of three regions have 3', () => {
  const check = checkOf('counter', { algorithm: 'sliding-window-log', limit: 6, windowMs: 60_000, cost: 3 });
  const dear: RuleCheck = { ...check, full: { limit: 6, extra: undefined } };
  const { contents: _, ...world } = scenario;
  const contents = [{ atMs: START_MS, content: contentWith(dear) }];
  const over = (requests: number) => {
    const ledgers = createLedgers({ ...world, contents });
    for (let request = 1; request <= requests; request += 1)
      ledgers.admit(dear, { region: 0, request, nowMs: START_MS + 1_000 + request });
    return ledgers.judge([{ atMs: START_MS + 900, region: 1 }]).length;
  };
  expect([over(3), over(4)]).toEqual([0, 1]);
});
