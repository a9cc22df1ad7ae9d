// The port between the limiter and the counters of one region.

import type { Answer, Check, CheckOf, Operation, ReplyOf } from '../counting/check.ts';

export interface CounterCall<C extends Check = Check> {
  readonly checks: readonly C[];
}

export interface CountCall<C extends Check = Check> extends CounterCall<C> {
  /** Also read the region's announcement, in the same round trip. The checks are charged whatever it says. */
  readonly withAnnouncement?: boolean | undefined;
}

/** Only operations that decide a request also read the announcement. */
export type CallOf<O extends Operation> = O extends 'take' | 'peek'
  ? CountCall<CheckOf<O>>
  : CounterCall<CheckOf<O>>;

export type AnswerOf<O extends Operation> = Answer<ReplyOf<O>>;

/** Each changes all counters of the checks, or none. Throws a CounterStoreError if there is no reliable answer. */
export type CounterOperations = {
  readonly [O in Operation]: (call: CallOf<O>, signal: AbortSignal) => Promise<AnswerOf<O>>;
};

export interface CounterStore extends CounterOperations {
  /** Forgets the counters of these keys. What was transferred stays transferred. */
  reset(keys: readonly string[], signal: AbortSignal): Promise<void>;
  /** Resolves if the store can count. Makes a call like a request's, on counters of its own. */
  probe(signal: AbortSignal): Promise<void>;
}

/** All operations by one function, for stores that treat them alike. */
export const operationsBy = (
  run: <O extends Operation>(operation: O, call: CallOf<O>, signal: AbortSignal) => Promise<AnswerOf<O>>,
): CounterOperations => ({
  take: (call, signal) => run('take', call, signal),
  peek: (call, signal) => run('peek', call, signal),
  refund: (call, signal) => run('refund', call, signal),
  settle: (call, signal) => run('settle', call, signal),
  renew: (call, signal) => run('renew', call, signal),
  transfer: (call, signal) => run('transfer', call, signal),
  recall: (call, signal) => run('recall', call, signal),
});

/** `script-failed`: the store is alive, but cannot run this call; if it was a probe, it cannot run any call. */
export type CounterStoreFailure = 'timeout' | 'unavailable' | 'bad-reply' | 'script-failed';

/** Carries no key, argument or token, so it may be logged as it is. */
export class CounterStoreError extends Error {
  readonly failure: CounterStoreFailure;

  constructor(failure: CounterStoreFailure, message: string) {
    super(message);
    this.name = 'CounterStoreError';
    this.failure = failure;
  }
}

/** This request has used up its calls. Trying again is useless. */
export class OutOfCalls extends CounterStoreError {
  constructor() {
    super('unavailable', 'this request has made as many calls as it may');
  }
}

// The announcement in every region's Redis names the versions in force. Isolates compare it, as text, with the
// announcement that they follow.

export interface Announcement {
  /** The number of the publication. A later one has a higher number. */
  readonly sequence: number;
  /** Version of the rules, tiers and lists. */
  readonly rules: string;
  /** Version of the list of callers that have changed lately. */
  readonly callers: string;
}

const FORMAT = /^(\d{1,15})\.([0-9a-f]{16})\.([0-9a-f]{16})$/;

export const formatAnnouncement = ({ sequence, rules, callers }: Announcement): string =>
  `${sequence}.${rules}.${callers}`;

export function parseAnnouncement(text: string | null | undefined): Announcement | undefined {
  const [, sequence, rules, callers] = FORMAT.exec(text ?? '') ?? [];
  if (sequence === undefined || rules === undefined || callers === undefined) return undefined;
  return { sequence: Number(sequence), rules, callers };
}

/** One of the two things that an announcement names. */
export interface Published {
  readonly kind: 'rules' | 'callers';
  readonly version: string;
}

/** See `packText` in digest.ts. */
export interface PackedText extends Published {
  readonly packed: string;
}

export const isSameAnnouncement = (a: Announcement | undefined, b: Announcement): boolean =>
  a !== undefined && formatAnnouncement(a) === formatAnnouncement(b);

/** The one with the highest number. */
export const newestAnnouncement = (
  known: readonly (Announcement | undefined | null)[],
): Announcement | undefined =>
  known.reduce<Announcement | undefined>(
    (newest, one) => (one && one.sequence > (newest?.sequence ?? -1) ? one : newest),
    undefined,
  );

/**
 * The port to a region's announcement, and to a copy of the parts it names, because KV may not have them everywhere
 * yet.
 */
export interface RulesPointer {
  /** The text of the announcement, or undefined if there is none. */
  read(signal: AbortSignal): Promise<string | undefined>;
  /** An older announcement never replaces a newer one. */
  write(announcement: Announcement, signal: AbortSignal): Promise<void>;
  /** The copies, packed; undefined where there is none. */
  readPublished(parts: readonly Published[], signal: AbortSignal): Promise<readonly (string | undefined)[]>;
  writeParts(parts: readonly PackedText[], signal: AbortSignal): Promise<void>;
}

// The port to the metric sums of one region. Isolates add to them, and the metrics route reads them.

export interface MetricsBatch {
  /** The isolate that sends the batch. */
  readonly isolateId: string;
  /** Each batch of an isolate has its own number. A batch is added once, however often it is sent. */
  readonly number: number;
  readonly sums: readonly (readonly [series: string, amount: number])[];
  readonly report: IsolateReport;
}

/** The report of an isolate about itself. */
export interface IsolateReport {
  readonly atMs: number;
  /** By region: the state of this isolate's breaker. */
  readonly breakers: Readonly<Record<string, string>>;
  /** How long the isolate has used rules that it could not confirm; 0 if they are confirmed. */
  readonly rulesAgeMs: number;
  /** What it has leased and not used. Isolates of an older version do not report it. */
  readonly leased?: { readonly counters: number; readonly units: number } | undefined;
}

export interface RegionMetrics {
  /** By series. */
  readonly sums: ReadonlyMap<string, number>;
  /** By isolate. */
  readonly reports: ReadonlyMap<string, IsolateReport>;
  readonly isolateCount: number;
  /** The announcement; undefined if there is none. */
  readonly announced: string | undefined;
}

export interface MetricsStore {
  /** Returns the series that the region refused, because it has too many names already. */
  flush(batch: MetricsBatch, signal: AbortSignal): Promise<readonly (readonly [string, number])[]>;
  read(signal: AbortSignal): Promise<RegionMetrics>;
}

// The port to a region's records of checks without a request: answers by idempotency key, and ids that have been
// refunded or settled.

export interface CheckRecords {
  /** Claims the name. Returns undefined on success, else the text that is there already. */
  claim(name: string, text: string, signal: AbortSignal): Promise<string | undefined>;
  /** Replaces the text. */
  write(name: string, text: string, signal: AbortSignal): Promise<void>;
  drop(name: string, signal: AbortSignal): Promise<void>;
}

/** An hour more than a service needs them, because the clocks of a region and an isolate can differ. */
export const CHECK_RECORD_MS = 25 * 3_600_000;
