// Translates checks into KEYS and ARGV of the script, and its reply into outcomes. lua/counters.lua describes both.
import { type Answer, type Check, keysOf, type Outcome } from '../core/counting/check.ts';
import { mapStable } from '../core/map-stable.ts';
import { type CounterCall, CounterStoreError } from '../core/ports/region.ts';
import { letterOf } from './script.ts';

/** Integers for each check: those in every reply, and the details, which the script sends only if they are unusual. */
const PLAIN = 2;
const DETAILS = 4;

export interface ScriptCall {
  readonly keys: string[];
  readonly args: string[];
}

type Column = (check: Check) => number | string | undefined;

/** Optional columns of a check, in the order of lua/counters.lua. Columns of one entry are sent together. */
const COLUMNS: readonly (readonly [Column, ...Column[]])[] = [
  [({ cost }) => (cost === 1 ? undefined : cost)],
  [({ extra }) => extra],
  [({ want }) => want || undefined],
  [({ blockMs }) => blockMs || undefined],
  [({ countDenied, isShadow }) => (countDenied ? 1 : 0) + (isShadow ? 2 : 0) || undefined],
  [({ chargedAtMs }) => chargedAtMs],
  [({ seatId }) => seatId],
  [({ transfer }) => transfer?.owner, ({ transfer }) => transfer?.termMs, ({ transfer }) => transfer?.holdMs],
  [({ borders }) => borders?.join(' ')],
];

export function toScriptCall({ operation, checks, nowMs }: CounterCall): ScriptCall {
  const keys = keysOf(checks);
  const hasKeys = keys.length > 1;
  const { columns, mask } = columnsOf(checks);
  let call: string = operation;
  if (hasKeys || columns.length > 0) call += ` ${hasKeys ? 1 : 0}${mask}`;
  if (nowMs !== undefined) call += ` now=${nowMs}`;
  const args = [call];
  for (const check of checks) {
    args.push(`;${check.id}:${letterOf(check.algorithm)}`, String(check.limit), String(check.windowMs));
    if (hasKeys) args.push(String(keys.indexOf(check.key) + 1));
    for (const of of columns) args.push(String(of(check) ?? ''));
  }
  return { keys, args };
}

interface Columns {
  readonly columns: readonly Column[];
  /** Tells the script which groups of columns there are. */
  readonly mask: string;
}

/** The columns by the groups that a call uses, as bits. Each entry is made once, so the map stays small. */
const columnsByBits = new Map<number, Columns>();

/** Leaves out columns that no check needs, because every argument costs Redis time. */
function columnsOf(checks: readonly Check[]): Columns {
  let bits = 0;
  for (let group = 0; group < COLUMNS.length; group += 1)
    if (isUsed(COLUMNS[group]?.[0], checks)) bits |= 1 << group;
  const known = columnsByBits.get(bits);
  if (known) return known;
  const made = {
    columns: COLUMNS.filter((_, group) => bits & (1 << group)).flat(),
    mask: COLUMNS.map((_, group) => (bits & (1 << group) ? '1' : '0')).join(''),
  };
  columnsByBits.set(bits, made);
  return made;
}

function isUsed(column: Column | undefined, checks: readonly Check[]): boolean {
  for (const check of checks) if (column?.(check) !== undefined) return true;
  return false;
}

/** Checks the shape of a reply before anything trusts it. */
export function parseAnswer(reply: unknown, checks: readonly Check[]): Answer {
  const detailsAt = 1 + PLAIN * checks.length;
  const length = detailsAt + DETAILS * checks.length;
  const isOwner = (field: unknown, i: number) =>
    i >= detailsAt && (i - detailsAt) % DETAILS === 0 && HOME.test(String(field));
  if (
    !Array.isArray(reply) ||
    (reply.length !== detailsAt && reply.length !== length) ||
    !reply.every((field, i) => Number.isSafeInteger(field) || isOwner(field, i))
  )
    throw new CounterStoreError('bad-reply', `expected ${detailsAt} or ${length} integers`);
  const fields: readonly number[] = reply;
  return {
    nowMs: fields[0] ?? 0,
    outcomes: mapStable(checks, (check, i) => toOutcome(fields, i, detailsAt, check)),
    announced: undefined,
  };
}

/** Stands in place of `allowed`: the region that the counter was transferred to. */
const HOME = /^>[a-z0-9-]{1,32}$/;

/** The reply has no details if all checks pass with the usual values: allowed, and 0 for the rest. */
function toOutcome(fields: readonly number[], i: number, detailsAt: number, check: Check): Outcome {
  const { limit, extra = 0 } = check;
  const at = detailsAt + DETAILS * i;
  const remaining = fields[1 + PLAIN * i] ?? 0;
  const resetAtMs = fields[2 + PLAIN * i] ?? 0;
  const first = fields[at] ?? 1;
  const retryMs = fields[at + 1] ?? 0;
  const granted = fields[at + 2] ?? 0;
  const delayMs = fields[at + 3] ?? 0;
  const transferredTo = typeof first === 'string' ? (first as string).slice(1) : undefined;
  const allowed = transferredTo === undefined ? first : 0;
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
    nowMs: undefined,
    transferredTo,
  };
}
