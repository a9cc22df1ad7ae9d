// The input and the answer of a check without a request, and how the input is parsed.
import { LARGEST_COST } from '../core/matching/rule.ts';
import {
  type FieldError,
  flag,
  listOf,
  optional,
  refine,
  refuse,
  type Shape,
  type Shaped,
  strictObject,
  text,
  textFrom,
  wholeNumber,
} from '../core/shape.ts';
import { invalidBody } from '../http/internal-problems.ts';

/** Each check needs at least one counter, and one call to Redis covers all of them. */
const MAX_CHECKS = 20;
const MAX_CHARACTERS = 256;

/** One rule for one subject. */
export interface CheckInput {
  /** The id or the name of a rule. */
  readonly rule?: string | undefined;
  /** Instead of `rule`: the name that clients read. */
  readonly policy?: string | undefined;
  /**
   * Who is counted: an IP, or the id of a user, tenant or API key, by the scope of the rule. Leave the subject out if
   * the scope is global.
   */
  readonly subject?: string | undefined;
  /** If left out, the rule's own cost. */
  readonly cost?: number | undefined;
  /** Only looks and charges nothing. All checks of a call must have the same value. */
  readonly peek?: boolean | undefined;
  /** The tier of the subject. If left out, the default tier. */
  readonly tier?: string | undefined;
}

/** Weir charges all checks of a call, or none of them. */
export type CheckCall = (
  | CheckInput
  | { readonly checks: readonly CheckInput[]; readonly peek?: boolean | undefined }
) & {
  /** For a day, Weir charges calls with the same key once and gives all of them the same answer. */
  readonly idempotencyKey?: string | undefined;
};

export interface CheckOutcome {
  /** The name that clients read. */
  readonly policy: string;
  readonly subject: string | null;
  readonly allowed: boolean;
  readonly limit: number;
  readonly remaining: number;
  readonly cost: number;
  /** When the whole limit is free again. */
  readonly resetAt: string;
  /** Null if the check is allowed, or if no wait helps. */
  readonly retryAfterMs: number | null;
}

export interface CheckAnswer {
  readonly allowed: boolean;
  /** The id to give back or settle the charges with; null if nothing was charged. */
  readonly id: string | null;
  /** The longest of all waits; null if the call is allowed, or if no wait helps. */
  readonly retryAfterMs: number | null;
  /** Wait this long before you go on: a rule throttles. */
  readonly delayMs: number;
  /** Why nothing was counted; each rule's `onUnavailable` has decided. Null if the call was counted. */
  readonly degraded: string | null;
  readonly results: readonly CheckOutcome[];
}

const name = refine(
  refine(
    refine(
      textFrom(1),
      ({ length }) => length <= MAX_CHARACTERS,
      `must have at most ${MAX_CHARACTERS} characters`,
    ),
    // No store could tell such a text from others.
    (given) => given.isWellFormed(),
    'has half of a surrogate pair, which is not a character',
  ),
  // Postgres would refuse the whole batch of records, and with it the records of others.
  (given) => !given.includes('\0'),
  'has a NUL character, which Postgres cannot store',
);
const cost = refine(
  wholeNumber,
  (units) => units >= 1 && units <= LARGEST_COST,
  `must be from 1 to ${LARGEST_COST}`,
);

const fields = {
  rule: optional(name),
  policy: optional(name),
  subject: optional(name),
  cost: optional(cost),
  peek: optional(flag),
  tier: optional(name),
};
const one = strictObject(fields);
const single = strictObject({ ...fields, idempotencyKey: optional(name) });
const several = strictObject({
  checks: refine(listOf(one, 1), ({ length }) => length <= MAX_CHECKS, `can be ${MAX_CHECKS} at most`),
  peek: optional(flag),
  idempotencyKey: optional(name),
});

export interface ReadCall {
  /** Where the body has this check. A body with a single check has no list. */
  readonly pointerTo: (place: number) => string;
  readonly checks: readonly Omit<Shaped<typeof one>, 'peek'>[];
  readonly isPeek: boolean;
  readonly idempotencyKey: string | undefined;
}

/** Throws a ProblemError that names each field that is wrong. */
export function readCall(body: unknown): ReadCall {
  const isSeveral = typeof body === 'object' && body !== null && 'checks' in body;
  const pointerTo = (place: number) => (isSeveral ? `#/checks/${place}` : '#');
  const errors: FieldError[] = [];
  const given = isSeveral ? several(body, '#', errors) : undefined;
  const alone = isSeveral ? undefined : single(body, '#', errors);
  const checks = given?.checks ?? (alone ? [omitKey(alone)] : []);
  const peeks = checks.map(({ peek }) => peek ?? given?.peek ?? false);
  checks.forEach(({ rule, policy }, i) => {
    if ((rule === undefined) === (policy === undefined))
      refuse(pointerTo(i), 'must have either rule or policy', errors);
  });
  if (new Set(peeks).size > 1) refuse('#/checks', 'must all peek, or none of them', errors);
  if (errors.length > 0) throw invalidBody(errors);
  return {
    pointerTo,
    checks: checks.map(omitPeek),
    isPeek: peeks[0] === true,
    idempotencyKey: (given ?? alone)?.idempotencyKey,
  };
}

const omitKey = ({ idempotencyKey: _, ...check }: Shaped<typeof single>) => check;
const omitPeek = ({ peek: _, ...check }: Shaped<typeof one>) => check;

/** What the runtime puts in place of bytes that are not UTF-8, such as those of an `ü` in Latin-1. */
const REPLACED = '\ufffd';
const keyHeader = refine(
  name,
  (given) => !given.includes(REPLACED),
  'must be UTF-8; fetch() sends it as Latin-1, so a key with other characters than those of ASCII belongs into the body',
);

/**
 * The key in a header. It must be like one in the body: an empty key would be the same for all calls without one, and
 * keys that differ only in replaced characters would be the same.
 */
export function readKeyHeader(value: string | null): string | undefined {
  return value === null ? undefined : readOrThrow(keyHeader, value, 'Idempotency-Key');
}

const settling = strictObject({
  id: text,
  cost: refine(
    wholeNumber,
    (units) => units >= 0 && units <= LARGEST_COST,
    `must be from 0 to ${LARGEST_COST}`,
  ),
});
const refunding = strictObject({ id: text });

export const readSettling = (body: unknown) => readOrThrow(settling, body);
export const readRefunding = (body: unknown) => readOrThrow(refunding, body);

function readOrThrow<T>(shape: Shape<T>, value: unknown, at = '#'): T {
  const errors: FieldError[] = [];
  const found = shape(value, at, errors);
  if (found === undefined || errors.length > 0) throw invalidBody(errors);
  return found;
}
