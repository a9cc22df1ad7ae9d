// Rules that multiply: one rule changes all limits of a customer. It has a slot of its own. It applies to rules of its
// scope whose resources all lie within its own, so that a counter has the same limit on every path.
import { largestLimit } from '../counting/check.ts';
import type { CompiledRule } from './compiled-rule.ts';
import { contains, parseResource, type Route } from './resource.ts';
import { type Rule, resourcesOf } from './rule.ts';

export const isMultiplying = ({ action }: Pick<Rule, 'action'>): boolean => action === 'multiply';

/** Stands in place of the parts that a rule counts by. No part has this name. */
export const MULTIPLYING = 'multiply';

/** A rule that multiplies limits of this caller. */
interface Multiplying {
  readonly rule: Rule;
  readonly rank: number;
}

/** The factor for the limits of a rule. If several rules multiply, only the best one counts. */
export function timesFor(rule: Rule, multiplying: readonly Multiplying[]): number | undefined {
  let best: Multiplying | undefined;
  for (const one of multiplying)
    if ((best === undefined || one.rank < best.rank) && multiplies(one.rule, rule)) best = one;
  return best?.rule.times ?? undefined;
}

export const multiplies = (from: Rule, to: Rule): boolean =>
  from.scope === to.scope &&
  routesOf(to).every((narrow) => routesOf(from).some((wide) => contains(wide, narrow)));

const known = new WeakMap<Rule, readonly Route[]>();

function routesOf(rule: Rule): readonly Route[] {
  const found =
    known.get(rule) ??
    resourcesOf(rule)
      .map(parseResource)
      .filter((route) => route.ok);
  known.set(rule, found);
  return found;
}

/** At least 1, and no more than the algorithm can count. */
export function multiplied(
  units: number,
  times: number,
  { algorithm, windowSeconds }: Pick<CompiledRule, 'algorithm' | 'windowSeconds'>,
): number {
  return Math.max(1, Math.min(largestLimit(algorithm, windowSeconds * 1_000), Math.floor(units * times)));
}
