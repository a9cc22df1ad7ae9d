// Compares the reasons why a rule does not apply with compiled snapshots: of the rule alone, and with its winner.
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { type ExplainRequest, explain, type RuleExplanation } from '../../src/authoring/explain.ts';
import { isOwnPath } from '../../src/core/matching/resource.ts';
import { EVERY_SCOPE, type Tier } from '../../src/core/matching/rule.ts';
import { compileSnapshot } from '../../src/core/matching/snapshot.ts';
import { rounds } from '../rounds.ts';
import { anyRequest, anyRule, anyTiers, type GivenRule, rule } from './random-explanations.ts';

/** The reasons that do not depend on other rules, in their order, each with the fields that remove it from a rule. */
const OWN_REASONS: readonly (readonly [RuleExplanation['reason'], Partial<GivenRule>])[] = [
  ['disabled', { enabled: true }],
  ['time', { validFromMs: null, validUntilMs: null }],
  ['resource', { resources: ['/*'] }],
  ['method', { methods: [] }],
  ['tier', { tiers: [] }],
  ['tenant', { tenants: [] }],
  ['subject', { subjects: [] }],
  ['percent', { percent: 100 }],
];
const freedFrom = (given: GivenRule, first: number): GivenRule =>
  Object.assign({ ...given }, ...OWN_REASONS.slice(first).map(([, fields]) => fields));
/** With a limit for every caller. This does not change which rule wins. */
const limited = (given: GivenRule): GivenRule => ({ ...given, limits: rule({ id: given.id }).limits });
/** A rule that counts has one scope. */
const counting = (given: GivenRule): GivenRule => ({
  ...limited(given),
  ...{ action: 'reject', replaces: false, scope: given.scope === EVERY_SCOPE ? 'ip' : given.scope },
});

const matches = (
  given: GivenRule,
  among: readonly GivenRule[],
  tiers: readonly Tier[],
  request: ExplainRequest,
) => {
  const rules = among.filter(({ enabled }) => enabled);
  return compileSnapshot('v', { rules, tiers, lists: [] })
    .match(request)
    .some((match) => match.rule.id === given.id);
};

it('explain gives the reason without which a compiled snapshot would match the rule', () => {
  const seen = new Set<string>();
  fc.assert(
    fc.property(
      fc.array(anyRule, { maxLength: 30, size: 'max' }),
      anyTiers,
      fc.array(anyRequest, { minLength: 5, maxLength: 8 }),
      (fields, tiers, requests) => {
        const rules = fields.map((each, i) => rule({ id: `r${i}`, ...each }));
        const byId = new Map(rules.map((each) => [each.id, each]));
        for (const request of requests)
          for (const verdict of explain({ rules, tiers, lists: [] }, request).rules) {
            const given = byId.get(verdict.ruleId) ?? expect.fail('a rule that nobody gave');
            const isMatched = (one: GivenRule, ...others: readonly GivenRule[]) =>
              matches(one, [one, ...others], tiers, request);
            seen.add(verdict.reason);
            const own = OWN_REASONS.findIndex(([reason]) => reason === verdict.reason);
            if (own !== -1) {
              // Without this reason and all later ones, the rule applies. Without only the later ones, it does not.
              expect(isMatched(counting(freedFrom(given, own)))).toBe(!isOwnPath(request.matchPath));
              expect(isMatched(counting(freedFrom(given, own + 1)))).toBe(false);
              continue;
            }
            // Nothing in the rule itself keeps the rule from applying.
            expect(isMatched(counting(given))).toBe(true);
            if ('winnerId' in verdict) {
              const winner = byId.get(verdict.winnerId) ?? expect.fail('a winner that nobody gave');
              // A rule with several resources may have lost them to several rules.
              if (given.resources.length === 0) expect(isMatched(limited(given), winner)).toBe(false);
              expect(isMatched(counting(winner))).toBe(true);
            } else if (verdict.reason === 'unlimited') {
              const others = rules.filter((each) => each !== given);
              expect(isMatched(given, ...others)).toBe(false);
              expect(isMatched(limited(given), ...others)).toBe(true);
            } else expect(verdict.reason).toBe(given.action === 'allow' ? 'allows' : 'applies');
          }
      },
    ),
    { numRuns: rounds(400) },
  );
  // A reason that explain never gave would be untested.
  const others = ['outranked', 'replaced', 'unlimited', 'allows', 'applies'];
  expect([...seen].sort()).toEqual([...OWN_REASONS.map(([reason]) => reason), ...others].sort());
});
