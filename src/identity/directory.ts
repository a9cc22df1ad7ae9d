// Looks up the tier and tenant of a key or a user: in memory, then KV, then Postgres. It never fails, and never waits
// longer than its deadline: a caller that is not found in time has the default tier. Only the hash of a key is used.

import { createBoundedCache } from '../core/bounded-cache.ts';
import { digest, toBase64Url } from '../core/digest.ts';
import {
  ABSENT,
  answerOf,
  type CallerDirectory,
  type CallerRecord,
  type CallerRevisions,
  type LookUp,
  type LookUpResult,
  NOT_ASKED,
  OVER_ALLOWANCE,
  type StoreAnswer,
  UNAVAILABLE,
  type Unavailable,
} from '../core/ports/callers.ts';
import {
  type FieldError,
  object,
  optional,
  type Shape,
  text,
  textOfErrors,
  wholeNumber,
} from '../core/shape.ts';
import { createFairBudget } from '../core/time.ts';
import { type Kv, withDeadline } from '../rules/edge/published.ts';
import { canBeKey, hashApiKey, isWellFormedKey } from './api-key.ts';

type CallerKind = 'key' | 'user';

const MEMORY_ENTRIES = 10_000;
const MEMORY_MS = 60_000;
/** After a failure, the isolate does not ask Postgres for this long. */
const FAILURE_MS = 2_000;

export interface CallerDirectoryOptions {
  /** Callers in Postgres: by the hash of a key, by the id of a user. Undefined if there is no row, or none in force. */
  readonly rows: Readonly<Record<CallerKind, (id: string) => Promise<CallerRecord | undefined>>>;
  readonly kv: Kv;
  readonly now: () => number;
  /** For one look-up, KV and Postgres together. */
  readonly deadlineMs: number;
  /** A cached record counts only under the epoch and revision it was cached for. */
  readonly revisions: () => CallerRevisions;
  readonly onError: (error: unknown) => void;
}

/** The results that memory keeps. */
type Remembered = StoreAnswer<CallerRecord> | Unavailable;

/** The caller of a look-up. */
interface Sought {
  readonly kind: CallerKind;
  readonly id: string;
  /** Stays the same when the caller's record changes. */
  readonly who: string;
  /** The name in KV and in memory. It changes with every revision. */
  readonly name: string;
}

export function createCallerDirectory(options: CallerDirectoryOptions): CallerDirectory {
  const { rows, kv, now, deadlineMs, revisions, onError } = options;
  const memory = createBoundedCache<Remembered>(MEMORY_ENTRIES);
  const allowance = createLookUpAllowance(now);
  let askAgainAtMs = Number.NEGATIVE_INFINITY;

  const remember = ({ name, who }: Sought, answer: Remembered, ms: number) => {
    memory.set(name, answer, now() + ms);
    if (answer.kind === 'found') allowance.found(who);
  };

  async function lookUp(
    kind: CallerKind,
    id: string,
    { ip, afterResponse, memoryOnly }: LookUp,
  ): Promise<LookUpResult<CallerRecord>> {
    // The name is made before anything is read, so a record may be newer than its name says, but never older.
    const sought = await soughtOf(kind, id, revisions());
    const remembered = memory.get(sought.name, now());
    if (remembered) return stillValid(remembered);
    if (memoryOnly) return NOT_ASKED;
    const deadline = AbortSignal.timeout(deadlineMs);
    const kept = await fromKv(sought);
    if (kept) return stillValid(kept);
    if (!mayAskPostgres()) return UNAVAILABLE;
    const permit = allowance.permit({ kind, who: sought.who, ip });
    if (!permit) return OVER_ALLOWANCE;
    const answer = rows[kind](id);
    // An answer that is too late for this request is cached for the next ones. A failure is reported below.
    afterResponse(answer.then((record) => keep(sought, record, permit)).catch(() => {}));
    return stillValid(await inTime(sought, answer, deadline));
  }

  /** After a failure one look-up tries again, and the others wait for its result. */
  const mayAskPostgres = (): boolean => {
    if (now() < askAgainAtMs) return false;
    if (askAgainAtMs !== Number.NEGATIVE_INFINITY) askAgainAtMs = now() + FAILURE_MS;
    return true;
  };

  /** Gives KV half of the time, so that Postgres has the rest if KV hangs. */
  async function fromKv(sought: Sought): Promise<StoreAnswer<CallerRecord> | undefined> {
    try {
      const half = AbortSignal.timeout(Math.ceil(deadlineMs / 2));
      const kept = await withDeadline(half, readRecord(kv, sought.kind, sought.name));
      if (kept) remember(sought, kept, MEMORY_MS);
      return kept;
    } catch (error) {
      onError(error);
      return undefined;
    }
  }

  async function inTime(
    sought: Sought,
    answer: Promise<CallerRecord | undefined>,
    deadline: AbortSignal,
  ): Promise<Remembered> {
    try {
      return answerOf(await withDeadline(deadline, answer));
    } catch (error) {
      askAgainAtMs = now() + FAILURE_MS;
      // Another request may have had an answer meanwhile.
      if (memory.get(sought.name, now()) === undefined) remember(sought, UNAVAILABLE, FAILURE_MS);
      onError(error);
      return UNAVAILABLE;
    }
  }

  /** KV also records that a user has no row, because most have none. A made-up key writes nothing to KV. */
  async function keep(sought: Sought, record: CallerRecord | undefined, permit: LookUpPermit): Promise<void> {
    askAgainAtMs = Number.NEGATIVE_INFINITY;
    permit(record !== undefined);
    remember(sought, answerOf(record), MEMORY_MS);
    if (record === undefined && sought.kind === 'key') return;
    await writeRecord(kv, sought.name, record).catch(onError);
  }

  const stillValid = (answer: Remembered): Remembered => {
    if (answer.kind !== 'found') return answer;
    const { expiresAtMs } = answer.record;
    return expiresAtMs === undefined || expiresAtMs > now() ? answer : ABSENT;
  };

  return {
    async ofApiKey(key, how) {
      const canBeStored =
        (await isWellFormedKey(key)) || (canBeKey(key) && revisions().onlyWeirKeys !== true);
      if (!canBeStored) return ABSENT;
      return lookUp('key', await hashApiKey(key), how);
    },
    async ofUser(userId, how) {
      return isStorable(userId) ? lookUp('user', userId, how) : ABSENT;
    },
  };
}

/** No colon, so that no id ends like a revision. */
const PLAIN = /^[A-Za-z0-9._@-]{1,128}$/;

/** KV takes names of at most 512 bytes, so a digest replaces a long or unusual id. */
async function soughtOf(
  kind: CallerKind,
  id: string,
  { epoch, revisions }: CallerRevisions,
): Promise<Sought> {
  const { [`${kind}:${id}`]: revision } = revisions;
  const who = `${kind}:${PLAIN.test(id) ? id : `#${toBase64Url(await digest('SHA-256', id))}`}`;
  const name = `caller:${epoch}:${who}`;
  return { kind, id, who, name: revision === undefined ? name : `${name}:${revision}` };
}

/** Whether a row can have this id. Postgres refuses some texts with an error that looks like an outage. */
const isStorable = (userId: string) =>
  userId !== '' && userId.length <= 512 && !userId.includes('\0') && userId.isWellFormed();

// The records of callers in KV.

/**
 * This time plus the caching time of isolates and KV is shorter than the time for which the publisher publishes a
 * change (content.ts).
 */
const RECORD_TTL_SECONDS = 600;

const fields = { tenantId: optional(text), tier: optional(text), expiresAtMs: optional(wholeNumber) };
const apiKeyRecord: Shape<CallerRecord> = object({ ...fields, apiKeyId: text, userId: optional(text) });
const userRecord: Shape<CallerRecord> = object({ ...fields, userId: text });

const NOBODY = { nobody: true };

/** A record can also say that Postgres has no row. Undefined if KV has no record; throws if the value is not one. */
async function readRecord(
  kv: Kv,
  kind: CallerKind,
  name: string,
): Promise<StoreAnswer<CallerRecord> | undefined> {
  const stored = await kv.get(name);
  if (stored === null) return undefined;
  const kept = JSON.parse(stored) as Partial<typeof NOBODY> | null;
  if (kind === 'user' && kept?.nobody === true) return ABSENT;
  const errors: FieldError[] = [];
  const record = (kind === 'key' ? apiKeyRecord : userRecord)(kept, 'record', errors);
  if (!record) throw new Error(`KV has no record of a ${kind}: ${textOfErrors(errors)}`);
  return { kind: 'found', record };
}

async function writeRecord(kv: Kv, name: string, record: CallerRecord | undefined): Promise<void> {
  await kv.put(name, JSON.stringify(record ?? NOBODY), { expirationTtl: RECORD_TTL_SECONDS });
}

// The allowance for look-ups of callers in Postgres. Anybody can make up keys, but made-up keys must not use up the
// look-ups of real callers. docs/operations.md states what an attacker with many addresses can still do.

/** Look-ups per second and isolate, for each kind of caller: those that this isolate does not know, and those it does. */
const PER_SECOND = 100;
/** Per second and isolate, for all addresses together that have shown an invalid key lately. */
const SUSPECTS_PER_SECOND = 20;
/** How many invalid keys of one address Weir looks up in a second. */
const INVALID_OF_AN_ADDRESS = 5;
/** How long an address counts as one that has shown an invalid key. */
const SUSPECT_MS = 60_000;
const MAX_SUSPECTS = 10_000;
/** Longer than memory and KV keep a record. */
const FOUND_MS = 3_600_000;
const MAX_FOUND = 10_000;

interface LookUpRequest {
  readonly kind: CallerKind;
  /** The caller of the look-up. */
  readonly who: string;
  readonly ip: string;
}

/** To be called with the answer. A failed look-up has none, and uses up its permit. */
export type LookUpPermit = (isFound: boolean) => void;

export type LookUpAllowance = ReturnType<typeof createLookUpAllowance>;

export function createLookUpAllowance(now: () => number) {
  const lately = createBoundedCache<true>(MAX_FOUND);
  const known = { key: createFairBudget(PER_SECOND), user: createFairBudget(PER_SECOND) };
  const unknown = { key: createFairBudget(PER_SECOND), user: createFairBudget(PER_SECOND) };
  const ofSuspects = createFairBudget(SUSPECTS_PER_SECOND);
  const suspects = createBoundedCache<{ readonly second: number; readonly invalid: number }>(MAX_SUSPECTS);
  const currentSecond = () => Math.floor(now() / 1_000);

  /** How many invalid keys the address has shown in this second; undefined if it is no suspect. */
  const invalidOf = (ip: string): number | undefined => {
    const suspect = suspects.get(ip, now());
    return suspect && (suspect.second === currentSecond() ? suspect.invalid : 0);
  };

  const take = ({ kind, who, ip }: LookUpRequest) => {
    // A caller that was found before is not made up, whatever its address does.
    if (lately.get(who, now())) return known[kind].take(who, now());
    const invalid = kind === 'key' ? invalidOf(ip) : undefined;
    if (invalid === undefined) return unknown[kind].take(ip, now());
    return invalid < INVALID_OF_AN_ADDRESS ? ofSuspects.take(ip, now()) : undefined;
  };

  const suspect = (ip: string) => {
    const invalid = (invalidOf(ip) ?? 0) + 1;
    suspects.set(ip, { second: currentSecond(), invalid }, now() + SUSPECT_MS);
  };

  return {
    /** A permit for one look-up; undefined if there is none until the next second. */
    permit({ kind, who, ip }: LookUpRequest): LookUpPermit | undefined {
      const giveBack = take({ kind, who, ip });
      // A made-up key uses up its permit. Real keys cannot be made up, and neither can users: their token is verified.
      return giveBack && ((isFound) => (isFound || kind === 'user' ? giveBack() : suspect(ip)));
    },
    /** Marks the caller as known. Its look-ups then use the budget of known callers. */
    found: (who: string) => lately.set(who, true, now() + FOUND_MS),
  };
}
