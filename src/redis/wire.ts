// The script's KEYS, ARGV and reply, as lua/counters.lua describes them, from and to what the core speaks.
import type { Answer, Check, Outcome } from '../core/counting/check.ts';
import { type CounterCall, CounterStoreError } from '../core/ports/counter-store.ts';

/** Integers for each check, in the two forms of a reply. */
const LONG = 6;
const SHORT = 2;

export interface ScriptCall {
  readonly keys: string[];
  readonly args: string[];
}

/** The columns that a check can have beside the plain ones, in the order of lua/counters.lua. */
const COLUMNS: readonly (readonly [name: string, of: (check: Check) => number | string | undefined])[] = [
  ['cost', ({ cost }) => (cost === 1 ? undefined : cost)],
  ['extra', ({ extra }) => extra],
  ['want', ({ want }) => want || undefined],
  ['block', ({ blockMs }) => blockMs || undefined],
  ['flags', ({ countDenied, log }) => (countDenied ? 'd' : '') + (log ? 'l' : '') || undefined],
  ['at', ({ chargedAtMs }) => chargedAtMs],
  ['lease', ({ leaseId }) => leaseId],
  ['home', ({ cession }) => cession?.home],
  ['term', ({ cession }) => cession?.termMs],
  ['hold', ({ cession }) => cession?.holdMs],
];

export function toScriptCall({ operation, checks, nowMs }: CounterCall): ScriptCall {
  const keys = [...new Set(checks.map(({ key }) => key))];
  // Every argument costs Redis time: columns that say nothing are left out.
  const columns = COLUMNS.filter(([, of]) => checks.some((check) => of(check) !== undefined));
  const hasKeys = keys.length > 1;
  let call: string = operation;
  if (hasKeys) call += ' key';
  for (const [name] of columns) call += ` ${name}`;
  if (nowMs !== undefined) call += ` now=${nowMs}`;
  const args = [call];
  for (const check of checks) {
    args.push(check.algorithm, check.id, String(check.limit), String(check.windowMs));
    if (hasKeys) args.push(String(keys.indexOf(check.key) + 1));
    for (const [, of] of columns) args.push(String(of(check) ?? ''));
  }
  return { keys, args };
}

/** Checks the shape of a reply before anything trusts it. */
export function parseAnswer(reply: unknown, checks: readonly Check[]): Answer {
  const stride = Array.isArray(reply) ? (reply.length - 1) / checks.length : 0;
  const isHome = (field: unknown, i: number) => stride === LONG && i % LONG === 1 && HOME.test(String(field));
  if (
    !Array.isArray(reply) ||
    (stride !== LONG && stride !== SHORT) ||
    !reply.every((field, i) => Number.isSafeInteger(field) || isHome(field, i))
  )
    throw new CounterStoreError('bad-reply', `expected ${1 + checks.length * LONG} integers`);
  const [nowMs, ...fields] = reply as [number, ...number[]];
  const fieldsOf = (i: number) => fields.slice(i * stride, (i + 1) * stride);
  return { nowMs, outcomes: checks.map((check, i) => toOutcome(inFull(fieldsOf(i)), check)) };
}

/** Instead of whether it is allowed: the region that the counter was ceded to. */
const HOME = /^>[a-z0-9-]{1,32}$/;

/** The short form says nothing but what is left: all the rest is as plain as can be. */
function inFull(fields: readonly number[]): readonly number[] {
  const [remaining = 0, resetAtMs = 0] = fields;
  return fields.length === SHORT ? [1, remaining, resetAtMs, 0, 0, 0] : fields;
}

function toOutcome(fields: readonly number[], { limit, extra = 0 }: Check): Outcome {
  const [first = 0, remaining = 0, resetAtMs = 0, retryMs = 0, granted = 0, delayMs = 0] = fields;
  const movedTo = typeof first === 'string' ? (first as string).slice(1) : undefined;
  const allowed = movedTo === undefined ? first : 0;
  const plausible =
    (allowed === 0 || allowed === 1) &&
    remaining >= 0 &&
    remaining <= Math.max(limit, extra) &&
    retryMs >= -1;
  if (!plausible) throw new CounterStoreError('bad-reply', 'a field is out of range');
  return {
    allowed: allowed === 1,
    remaining,
    resetAtMs,
    retryAfterMs: retryMs === -1 ? undefined : retryMs,
    granted,
    delayMs,
    ...(movedTo !== undefined && { movedTo }),
  };
}
