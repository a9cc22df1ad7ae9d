// An isolate on regions with counters in memory, and checks that are split over them or counted in one of them alone.

import type { RuleFields } from '../../local/rules.ts';
import type { RuleCheck } from '../../src/core/matching/plan.ts';
import type { Split } from '../../src/core/matching/rule.ts';
import { createJournal } from './fake-regions.ts';
import { createSource, openIsolate, snapshotOf, type TestRequest } from './limiter-harness.ts';
import { createMinute, createModelRegion, type ModelRegion, seenFrom } from './model-regions.ts';
import type { RuleCheckShape } from './rule-checks.ts';

/** Split over all regions; or counted in `us`, `eu` or `ap` alone. */
export const checkOf = (id: string, { rule, ...shape }: RuleCheckShape = {}) =>
  createMinute({ id, limit: 12, ...shape, rule: { id, name: id, ...rule } });
export const near = (shape: RuleCheckShape = {}) => checkOf('near', shape);
export const aloneIn = (region: string, id: string, rule: RuleFields = {}, shape: RuleCheckShape = {}) =>
  checkOf(id, { ...shape, rule: { shares: { [region]: 1 }, ...rule } });

/** An isolate whose nearest region is `us`, and its calls without those of the census. */
export function openRegions(names: readonly string[] = ['us', 'eu', 'ap'], split?: Split) {
  const { lines, tell } = createJournal();
  const regions = names.map((name) => createModelRegion(name, () => 0, tell));
  const source = createSource({ current: () => ({ ...snapshotOf('old'), split }) });
  const isolate = openIsolate(seenFrom(regions, 0), { source });
  const decide = async (checks: readonly RuleCheck[], request: TestRequest = {}) =>
    (await isolate.decide({ plan: async () => ({ kind: 'checks', checks }), ...request })).decision;
  const [us, eu, ap] = regions as [ModelRegion, ModelRegion, ModelRegion];
  const asked = () =>
    lines.filter((line) => !line.includes('present')).map((line) => line.split(' ').slice(1).join(' '));
  const left = (region: ModelRegion, check: RuleCheck, limit = check.limit) =>
    region.peek({ ...check, limit })?.remaining;
  return { us, eu, ap, regions, decide, asked, left, lines, settle: isolate.settle };
}
