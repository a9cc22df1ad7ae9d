// Rules that put others aside: a rule that `replaces`, and one that allows. Where such a rule wins its slot, rules of
// the same scope whose resource contains its own do not apply.
import { contains } from './resource.ts';
import type { Candidate, Slot } from './slots.ts';

/** The winners that no other winner puts aside. Mostly that is all of them. */
export function withoutReplaced(winners: readonly Candidate[]): readonly Candidate[] {
  if (!winners.some(({ isReplacing }) => isReplacing)) return winners;
  return winners.filter(({ slot }) => !winners.some((other) => isReplacedBy(slot, other)));
}

const isReplacedBy = (slot: Slot, { slot: other, isReplacing }: Candidate): boolean =>
  isReplacing && reaches(other, slot);

/** Whether rules of the first slot can put those of the second aside. A shadow rule changes nothing. */
export const reaches = (
  from: Pick<Slot, 'scope' | 'route' | 'isShadow'>,
  to: Pick<Slot, 'scope' | 'route' | 'isShadow'>,
): boolean =>
  from.scope === to.scope &&
  (to.isShadow || !from.isShadow) &&
  !isSameRoute(from.route, to.route) &&
  contains(to.route, from.route);

const isSameRoute = (a: Slot['route'], b: Slot['route']): boolean => contains(a, b) && contains(b, a);
