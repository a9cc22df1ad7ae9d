// Translates checks into KEYS and ARGV of the script, and its reply into outcomes. The files of lua/counters describe
// both: take.lua the plain take, which the script answers with the text of the key, and each operation its own reply.
import { algorithmOf, letterOf } from '../core/counting/algorithms/registry.ts';
import {
  type Check,
  type CheckOf,
  keysOf,
  type Operation,
  type Outcome,
  type ReplyOf,
  type TransferReply,
} from '../core/counting/check.ts';
import { type Counter, decideTake, paramsOf } from '../core/counting/counters.ts';
import { mapStable } from '../core/map-stable.ts';
import { type AnswerOf, CounterStoreError } from '../core/ports/region.ts';

export interface ScriptCall {
  readonly keys: string[];
  readonly args: string[];
}

/** An optional column: its name, and what a check has there. */
type Column<C> = readonly [name: string, of: (check: C) => number | string | undefined];

const COMMON: readonly Column<Check>[] = [
  ['cost', ({ cost }) => (cost === 1 ? undefined : cost)],
  ['extra', ({ extra }) => extra],
  ['seat', ({ seatId }) => seatId],
  ['borders', ({ borders }) => borders?.join(' ')],
  ['block', ({ blockMs }) => blockMs || undefined],
  ['denied', ({ countDenied }) => (countDenied ? 1 : undefined)],
  ['shadow', ({ isShadow }) => (isShadow ? 1 : undefined)],
];

const COLUMNS: { readonly [O in Operation]: readonly Column<CheckOf<O>>[] } = {
  take: [...COMMON, ['lease', ({ leaseUnits }) => leaseUnits || undefined]],
  peek: COMMON,
  refund: [
    ...COMMON,
    ['at', ({ chargedAtMs }) => chargedAtMs],
    ['kept', ({ keptUnits }) => keptUnits || undefined],
  ],
  settle: [
    ...COMMON,
    ['at', ({ chargedAtMs }) => chargedAtMs],
    ['most', ({ mostUnits }) => mostUnits || undefined],
  ],
  renew: COMMON,
  transfer: [
    ...COMMON,
    ['owner', ({ transfer }) => transfer?.owner],
    ['term', ({ transfer }) => transfer?.termMs],
    ['hold', ({ transfer }) => transfer?.holdMs],
    ['at', ({ transfer }) => transfer?.ownerCharge?.atMs],
    ['charged', ({ transfer }) => transfer?.ownerCharge?.units || undefined],
  ],
  recall: COMMON,
};

export function toScriptCall<O extends Operation>(
  operation: O,
  { checks }: { readonly checks: readonly CheckOf<O>[] },
): ScriptCall {
  const keys = keysOf(checks);
  const hasKeys = keys.length > 1;
  const { header, columns } = usedColumns(operation, checks);
  const args = [hasKeys ? `${header} key` : header];
  for (const check of checks) {
    args.push(`;${check.id}:${letterOf(check.algorithm)}`, String(check.limit), String(check.windowMs));
    for (const [, of] of columns) args.push(String(of(check) ?? ''));
    if (hasKeys) args.push(String(keys.indexOf(check.key) + 1));
  }
  return { keys, args };
}

interface UsedColumns<C> {
  /** The first argument. */
  readonly header: string;
  readonly columns: readonly Column<C>[];
}

/** By operation, and by the columns that a call uses, as bits. Each entry is made once, so the map stays small. */
const known = new Map<Operation, Map<number, UsedColumns<never>>>();

/** Leaves out columns that no check needs, because every argument costs Redis time. */
function usedColumns<O extends Operation>(
  operation: O,
  checks: readonly CheckOf<O>[],
): UsedColumns<CheckOf<O>> {
  const all: readonly Column<CheckOf<O>>[] = COLUMNS[operation];
  let bits = 0;
  for (let i = 0; i < all.length; i += 1) if (isUsed(all[i], checks)) bits |= 1 << i;
  let byBits = known.get(operation);
  if (!byBits) {
    byBits = new Map();
    known.set(operation, byBits);
  }
  const found = byBits.get(bits) as UsedColumns<CheckOf<O>> | undefined;
  if (found) return found;
  const columns = all.filter((_, i) => bits & (1 << i));
  const made = { header: [operation, ...columns.map(([name]) => name)].join(' '), columns };
  byBits.set(bits, made as UsedColumns<never>);
  return made;
}

function isUsed<C>(column: Column<C> | undefined, checks: readonly C[]): boolean {
  for (const check of checks) if (column?.[1](check) !== undefined) return true;
  return false;
}

const badReply = (expected: string) => new CounterStoreError('bad-reply', expected);

/** Checks the shape of a reply before anything trusts it. */
export function parseAnswer<O extends Operation>(
  operation: O,
  reply: unknown,
  checks: readonly CheckOf<O>[],
): AnswerOf<O> {
  if (typeof reply === 'string' && operation === 'take') return answerOfText(reply, checks) as AnswerOf<O>;
  const { size, read }: ReplyForm<ReplyOf<O>> = REPLIES[operation];
  if (!Array.isArray(reply) || reply.length !== 1 + size * checks.length || !isTime(reply[0]))
    throw badReply(`expected ${1 + size * checks.length} values`);
  const nowMs: number = reply[0];
  const outcomes = mapStable(checks, (check, i) =>
    read(reply.slice(1 + size * i, 1 + size * (i + 1)), check, nowMs),
  );
  return { nowMs, outcomes, announced: undefined };
}

/** What an operation answers for each check. */
interface ReplyForm<R> {
  /** How many values. */
  readonly size: number;
  readonly read: (fields: readonly unknown[], check: Check, nowMs: number) => R;
}

const isTime = (field: unknown) => Number.isSafeInteger(field);
/** A number that is not negative. */
const isCount = (field: unknown): field is number => Number.isSafeInteger(field) && (field as number) >= 0;
const isRemaining = (field: unknown, { limit, extra = 0 }: Check): field is number =>
  isCount(field) && field <= Math.max(limit, extra);
/** The region that the counter was transferred to. */
const OWNER = /^>[a-z0-9-]{1,32}$/;

function toOutcome(
  [allowed, remaining, resetAtMs, retryMs, granted, delayMs]: readonly unknown[],
  check: Check,
  nowMs: number,
): Outcome {
  const isPlausible =
    isRemaining(remaining, check) && isTime(resetAtMs) && isCount(granted) && isCount(delayMs);
  if (!isPlausible || !(isCount(retryMs) || retryMs === -1)) throw badReply('a field is out of range');
  const reset = resetAtMs as number;
  const common = { remaining, resetAtMs: reset, granted, delayMs, nowMs: undefined };
  if (allowed === 0 || allowed === 1) {
    const retryAfterMs = retryMs === -1 ? undefined : retryMs;
    return { allowed: allowed === 1, ...common, retryAfterMs, transferredTo: undefined };
  }
  if (typeof allowed !== 'string' || !OWNER.test(allowed)) throw badReply('a field is out of range');
  const transferredTo = { name: allowed.slice(1), usableMs: retryMs };
  return { allowed: false, ...common, retryAfterMs: reset - nowMs, transferredTo };
}

const isSet = ([field]: readonly unknown[]): boolean => {
  if (field !== 0 && field !== 1) throw badReply('a field is out of range');
  return field === 1;
};

function toTransferReply([kind, first, retryAfterMs]: readonly unknown[]): TransferReply {
  if (!isCount(first) || !isCount(retryAfterMs)) throw badReply('a field is out of range');
  if (kind === 'transferred') return { kind, untilMs: first };
  if (kind === 'in-use') return { kind, usedUnits: first, retryAfterMs };
  if (kind === 'refused') return { kind, retryAfterMs };
  throw badReply('an unknown kind of reply');
}

const BALANCE: ReplyForm<ReplyOf<'refund'>> = {
  size: 2,
  read([remaining, resetAtMs], check) {
    if (!isRemaining(remaining, check) || !isTime(resetAtMs)) throw badReply('a field is out of range');
    return { remaining, resetAtMs: resetAtMs as number };
  },
};

const SETTLEMENT: ReplyForm<ReplyOf<'settle'>> = {
  size: 3,
  read([remaining, resetAtMs, chargedUnits], check, nowMs) {
    if (!isCount(chargedUnits)) throw badReply('a field is out of range');
    return { ...BALANCE.read([remaining, resetAtMs], check, nowMs), chargedUnits };
  },
};

const REPLIES: { readonly [O in Operation]: ReplyForm<ReplyOf<O>> } = {
  take: { size: 6, read: toOutcome },
  peek: { size: 6, read: toOutcome },
  refund: BALANCE,
  settle: SETTLEMENT,
  renew: { size: 1, read: (fields) => (isSet(fields) ? 'held' : 'lost') },
  transfer: { size: 3, read: toTransferReply },
  recall: { size: 1, read: (fields) => (isSet(fields) ? 'recalled' : 'unchanged') },
};

/** The clock, whether all checks passed, and the value of the key before. */
const TEXT = /^(\d{10}) (\d{1,6})([+-])(.*)$/s;
const NUMBERS = /^\d+(?: \d+)*$/;

/** The outcomes of a plain take, by the counters as they were. */
function answerOfText(reply: string, checks: readonly CheckOf<'take'>[]): AnswerOf<'take'> {
  const [, seconds, micros, sign, text = ''] = TEXT.exec(reply) ?? [];
  if (sign === undefined) throw badReply('expected the clock and the text of the key');
  const nowMs = Number(seconds) * 1000 + Math.floor(Number(micros) / 1000);
  const { passes, outcomes } = decideTake(checks, nowMs, (check) => counterIn(text, check));
  if (passes !== (sign === '+')) throw badReply('the script has decided otherwise than its twin');
  return { nowMs, outcomes, announced: undefined };
}

function counterIn(text: string, check: Check): Counter | undefined {
  const { algorithm, id } = check;
  const name = `;${id}:${letterOf(algorithm)}`;
  const place = text.indexOf(name);
  if (place < 0) return undefined;
  const from = place + name.length;
  const record = text.slice(from, text.indexOf(';', from));
  if (!NUMBERS.test(record)) throw badReply('expected the numbers of a counter');
  const state = algorithmOf(algorithm).parse?.(record.split(' ').map(Number), paramsOf(check));
  return { algorithm, state, blockedUntilMs: 0, expiresAtMs: 0 };
}
