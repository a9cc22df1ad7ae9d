// How much the definition of an algorithm allows, computed the slow way from all admissions.
import type { Check } from '../../src/core/counting/check.ts';
import { type Admission, DEFINITIONS } from '../core/whole-limit.ts';

export type { Admission };

/** Buckets may have any number, so they are compared with the true window. */
const ALLOWED = { ...DEFINITIONS, 'sliding-window-buckets': DEFINITIONS['sliding-window-log'] };

/** The first admission that was one too many, by time. Undefined if there is none. */
export function firstBeyond(check: Check, admissions: readonly Admission[]): Admission | undefined {
  const allows = ALLOWED[check.algorithm];
  return admissions.find(({ atMs }, i) => !allows(admissions.slice(0, i + 1), atMs, check));
}
