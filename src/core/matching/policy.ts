// The name of a limit that clients read. A rule's own name is for operators and may be confidential.
import type { CompiledRule, RuleLimit } from './compiled-rule.ts';
import type { Rule } from './rule.ts';

/** Names that need no escaping in a header. */
export const POLICY = /^[a-z0-9][a-z0-9._-]{0,62}$/;
const MAX_CHARACTERS = 48;
const known = new WeakMap<CompiledRule, string>();

/** One name for each limit. If a rule has several limits, each name ends with its window. */
export function policyOf(rule: CompiledRule): string {
  const found = known.get(rule);
  if (found !== undefined) return found;
  const policy = limitPolicyOf(rule, rule);
  known.set(rule, policy);
  return policy;
}

/** The name of the rule's limit that has this window. */
export function limitPolicyOf(
  rule: Rule,
  { window, windowSeconds }: Pick<RuleLimit, 'window' | 'windowSeconds'>,
) {
  const name = ruleNameOf(rule);
  return rule.limits.length === 0 ? name : `${name}-${window ?? inUnits(windowSeconds)}`;
}

/** The policy of the rule. If the rule has none, `/users/:id` of scope `ip` becomes `users-id-ip`. */
export const ruleNameOf = ({ policy, resource, scope }: Rule): string =>
  policy ?? `${slugOf(resource)}-${scope === 'apiKey' ? 'key' : scope}`;

function slugOf(resource: string): string {
  const words = resource.toLowerCase().replace(/\/\*$/, '/all').replace(/\*$/, '-all');
  const slug = words.replace(/[^a-z0-9._]+/g, '-').replace(/^[^a-z0-9]+|-$/g, '');
  return slug.slice(0, MAX_CHARACTERS) || 'root';
}

const UNITS = [
  ['d', 86_400],
  ['h', 3_600],
  ['m', 60],
] as const;

/** 3,600 seconds are `1h`, and 90 are `90s`. */
function inUnits(seconds: number): string {
  const unit = UNITS.find(([, size]) => seconds % size === 0);
  return unit ? `${seconds / unit[1]}${unit[0]}` : `${seconds}s`;
}
