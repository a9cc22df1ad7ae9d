// A call of any operation, for fakes that look at the operation, and for tests that play histories of calls.
import type {
  Answer,
  Check,
  CheckOf,
  Operation,
  ReplyOf,
  TransferTerms,
} from '../../src/core/counting/check.ts';
import { type Counters, runChecks } from '../../src/core/counting/counters.ts';
import {
  type AnswerOf,
  type CallOf,
  type CountCall,
  type CounterOperations,
  operationsBy,
} from '../../src/core/ports/region.ts';

/** The call of one operation, which it names. */
export type NamedCall<O extends Operation> = CallOf<O> &
  Pick<CountCall, 'withAnnouncement'> & {
    readonly operation: O;
    /** By another clock than the store's own. */
    readonly nowMs?: number | undefined;
  };

export type AnyCall = { [O in Operation]: NamedCall<O> }[Operation];

export type RunAny = (call: AnyCall, signal: AbortSignal) => Promise<Answer<ReplyOf<Operation>>>;

/** A store that handles all operations alike. */
export const storeOperations = (run: RunAny): CounterOperations =>
  operationsBy(
    <O extends Operation>(operation: O, call: CallOf<O>, signal: AbortSignal) =>
      run({ ...call, operation } as unknown as AnyCall, signal) as Promise<AnswerOf<O>>,
  );

/** Runs a call on counters in memory. */
export const runAny = (
  { operation, checks }: AnyCall,
  nowMs: number,
  counters: Counters,
): Answer<ReplyOf<Operation>> =>
  runChecks(operation, checks as readonly CheckOf<typeof operation>[], nowMs, counters);

/** What histories add to the checks of an operation. */
export interface Additions {
  /** To lease, to keep charged, at most, or charged by the owner. */
  readonly units: number;
  readonly chargedAtMs: number;
  readonly transfer: Omit<TransferTerms, 'ownerCharge'>;
}

export function withAdditions(
  operation: Operation,
  check: Check,
  { units, chargedAtMs, transfer }: Additions,
): CheckOf<typeof operation> {
  const ownerCharge = units > 0 ? { units, atMs: chargedAtMs } : undefined;
  const additions: Partial<Record<Operation, object>> = {
    take: { leaseUnits: units },
    refund: { chargedAtMs, keptUnits: units },
    settle: { chargedAtMs, mostUnits: units },
    transfer: { transfer: { ...transfer, ownerCharge } },
  };
  return { ...check, ...additions[operation] };
}

/** Calls a store as a fake of all operations would be called. */
export const runOn = (operations: CounterOperations, { operation, ...call }: AnyCall, signal: AbortSignal) =>
  operations[operation](call as unknown as CallOf<never>, signal) as Promise<Answer<ReplyOf<Operation>>>;
