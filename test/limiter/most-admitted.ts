// How much the definition of an algorithm allows, computed the slow way from all admissions.
import type { Check } from '../../src/core/counting/check.ts';
import { type Admission, DEFINITIONS } from '../core/whole-limit.ts';

export type { Admission };

/** A check may have any number of buckets, so its admissions are compared with the true window. */
const ALLOWED = { ...DEFINITIONS, 'sliding-window-buckets': DEFINITIONS['sliding-window-log'] };

/** The earliest admission beyond the limit. Undefined if there is none. */
export function firstBeyond(check: Check, admissions: readonly Admission[]): Admission | undefined {
  const allows = ALLOWED[check.algorithm];
  return admissions.find(({ atMs }, i) => !allows(admissions.slice(0, i + 1), atMs, check));
}
