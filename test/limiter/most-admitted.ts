// How much the definition of an algorithm allows, counted the slow way from all that was admitted.
import type { Check } from '../../src/core/counting/check.ts';
import { type Admission, DEFINITIONS } from '../core/whole-limit.ts';

export type { Admission };

/** Buckets may come in any number, so that they are held to the true window. */
const ALLOWED = { ...DEFINITIONS, 'sliding-window-buckets': DEFINITIONS['sliding-window-log'] };

/** The first admission that was one too many, in the order of time; undefined if there is none. */
export function firstBeyond(check: Check, admissions: readonly Admission[]): Admission | undefined {
  const allows = ALLOWED[check.algorithm];
  return admissions.find(({ atMs }, i) => !allows(admissions.slice(0, i + 1), atMs, check));
}
