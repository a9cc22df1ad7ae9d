// Translates checks into KEYS and ARGV of the script, and its reply into outcomes. lua/counters.lua describes both.
import {
  type Balance,
  type Check,
  type CheckOf,
  keysOf,
  type Operation,
  type Outcome,
  type RefundCheck,
  type ReplyOf,
  type SettleCheck,
  type TakeCheck,
  type TransferReply,
  type TransferTerms,
} from '../core/counting/check.ts';
import { mapStable } from '../core/map-stable.ts';
import { type AnswerOf, type CallOf, CounterStoreError } from '../core/ports/region.ts';
import { letterOf } from './script.ts';

/** Integers for each check: those in every reply, and the details, which the script sends only if they are unusual. */
const PLAIN = 2;
const DETAILS = 4;

export interface ScriptCall {
  readonly keys: string[];
  readonly args: string[];
}

/** Any check, with what its operation adds to it. */
interface AnyCheck extends TakeCheck, RefundCheck {
  readonly mostUnits?: SettleCheck['mostUnits'];
  readonly transfer?: TransferTerms;
}

type Column = (check: AnyCheck) => number | string | undefined;

/** Optional columns of a check, in the order of lua/counters.lua. Columns of one entry are sent together. */
const COLUMNS: readonly (readonly [Column, ...Column[]])[] = [
  [({ cost }) => (cost === 1 ? undefined : cost)],
  [({ extra }) => extra],
  [
    ({ leaseUnits, keptUnits, mostUnits, transfer }) =>
      leaseUnits || keptUnits || mostUnits || transfer?.ownerCharge?.units || undefined,
  ],
  [({ blockMs }) => blockMs || undefined],
  [({ countDenied, isShadow }) => (countDenied ? 1 : 0) + (isShadow ? 2 : 0) || undefined],
  [({ chargedAtMs, transfer }) => chargedAtMs ?? transfer?.ownerCharge?.atMs],
  [({ seatId }) => seatId],
  [({ transfer }) => transfer?.owner, ({ transfer }) => transfer?.termMs, ({ transfer }) => transfer?.holdMs],
  [({ borders }) => borders?.join(' ')],
];

export function toScriptCall<O extends Operation>(
  operation: O,
  { checks, nowMs }: Pick<CallOf<O>, 'checks' | 'nowMs'>,
): ScriptCall {
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
function columnsOf(checks: readonly AnyCheck[]): Columns {
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

function isUsed(column: Column | undefined, checks: readonly AnyCheck[]): boolean {
  for (const check of checks) if (column?.(check) !== undefined) return true;
  return false;
}

/** Checks the shape of a reply before anything trusts it. */
export function parseAnswer<O extends Operation>(
  operation: O,
  reply: unknown,
  checks: readonly CheckOf<O>[],
): AnswerOf<O> {
  const detailsAt = 1 + PLAIN * checks.length;
  const length = detailsAt + DETAILS * checks.length;
  const isOwner = (field: unknown, i: number) =>
    i >= detailsAt && (i - detailsAt) % DETAILS === 0 && OWNER.test(String(field));
  if (
    !Array.isArray(reply) ||
    (reply.length !== detailsAt && reply.length !== length) ||
    !reply.every((field, i) => Number.isSafeInteger(field) || isOwner(field, i))
  )
    throw new CounterStoreError('bad-reply', `expected ${detailsAt} or ${length} integers`);
  const nowMs: number = reply[0];
  const toReply: (fields: ReplyFields, check: Check, nowMs: number) => ReplyOf<O> = REPLIES[operation];
  return {
    nowMs,
    outcomes: mapStable(checks, (check, i) => toReply(fieldsOf(reply, i, detailsAt), check, nowMs)),
    announced: undefined,
  };
}

/** Stands in place of `passes`: the region that the counter was transferred to. */
const OWNER = /^>[a-z0-9-]{1,32}$/;

/** The fields of one check. */
interface ReplyFields {
  readonly remaining: number;
  readonly resetAtMs: number;
  /** 1 or 0, or the owner of the part. */
  readonly passes: number | string;
  readonly retryMs: number;
  readonly granted: number;
  readonly delayMs: number;
}

/** The reply has no details if all checks pass with the usual values: 1, and 0 for the rest. */
function fieldsOf(fields: readonly number[], i: number, detailsAt: number): ReplyFields {
  const at = detailsAt + DETAILS * i;
  return {
    remaining: fields[1 + PLAIN * i] ?? 0,
    resetAtMs: fields[2 + PLAIN * i] ?? 0,
    passes: fields[at] ?? 1,
    retryMs: fields[at + 1] ?? 0,
    granted: fields[at + 2] ?? 0,
    delayMs: fields[at + 3] ?? 0,
  };
}

function toOutcome(fields: ReplyFields, check: Check, nowMs: number): Outcome {
  const { passes, remaining, resetAtMs, retryMs, granted, delayMs } = fields;
  expectPlausible(fields, check);
  const owner = typeof passes === 'string' ? passes.slice(1) : undefined;
  const waitMs = owner === undefined ? retryMs : resetAtMs - nowMs;
  return {
    allowed: passes === 1,
    remaining,
    resetAtMs,
    retryAfterMs: waitMs === -1 ? undefined : waitMs,
    granted,
    delayMs,
    nowMs: undefined,
    transferredTo: owner === undefined ? undefined : { name: owner, usableMs: retryMs },
  };
}

function toBalance(fields: ReplyFields, check: Check): Balance {
  expectPlausible(fields, check);
  return { remaining: fields.remaining, resetAtMs: fields.resetAtMs };
}

function toTransferReply(
  { passes, remaining, resetAtMs, retryMs }: ReplyFields,
  nowMs: number,
): TransferReply {
  if (passes === 1) return { kind: 'transferred', untilMs: resetAtMs };
  if (resetAtMs > nowMs) return { kind: 'refused', retryAfterMs: retryMs };
  return { kind: 'in-use', usedUnits: remaining, retryAfterMs: retryMs };
}

const REPLIES: {
  readonly [O in Operation]: (fields: ReplyFields, check: Check, nowMs: number) => ReplyOf<O>;
} = {
  take: toOutcome,
  peek: toOutcome,
  refund: toBalance,
  settle: toBalance,
  renew: ({ passes }) => (passes === 1 ? 'held' : 'lost'),
  transfer: (fields, _, nowMs) => toTransferReply(fields, nowMs),
  recall: ({ passes }) => (passes === 1 ? 'recalled' : 'unchanged'),
};

function expectPlausible(
  { passes, remaining, retryMs }: ReplyFields,
  { limit, extra = 0 }: Pick<Check, 'limit' | 'extra'>,
): void {
  const isPlausible =
    (passes === 0 || passes === 1 || typeof passes === 'string') &&
    remaining >= 0 &&
    remaining <= Math.max(limit, extra) &&
    retryMs >= -1;
  if (!isPlausible) throw new CounterStoreError('bad-reply', 'a field is out of range');
}
