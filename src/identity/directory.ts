// Looks up the tier and tenant of a key or a user: in memory, then KV, then Postgres. It never fails, and never waits
// longer than its deadline: a caller that is not found in time has the default tier. Only the hash of a key is used.

import { createBoundedCache } from '../core/bounded-cache.ts';
import { digest, toBase64Url } from '../core/digest.ts';
import {
  ABSENT,
  answerOf,
  type CallerDirectory,
  type CallerRecord,
  type LookUp,
  type LookUpResult,
  NOT_ASKED,
  type OverAllowance,
  type StoreAnswer,
  UNAVAILABLE,
  type Unavailable,
} from '../core/ports/callers.ts';
import type { AfterResponse } from '../core/ports/telemetry.ts';
import {
  type FieldError,
  object,
  optional,
  type Shape,
  text,
  textOfErrors,
  wholeNumber,
} from '../core/shape.ts';
import { type Kv, withDeadline } from '../rules/edge/published.ts';
import { type CallerKind, createLookUpAllowance, type LookUpPermit } from './allowance.ts';
import { hashApiKey, isWellFormedKey } from './api-key.ts';

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
export async function readRecord(
  kv: Kv,
  kind: 'key' | 'user',
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

export async function writeRecord(kv: Kv, name: string, record: CallerRecord | undefined): Promise<void> {
  await kv.put(name, JSON.stringify(record ?? NOBODY), { expirationTtl: RECORD_TTL_SECONDS });
}

const MEMORY_ENTRIES = 10_000;
const MEMORY_MS = 60_000;
/** After a failure, the isolate does not ask Postgres for this long. */
const FAILURE_MS = 2_000;
/** The allowance is per second. */
const OVER_ALLOWANCE: OverAllowance = { kind: 'over-allowance', retryAfterMs: 1_000 };

/** Callers that have changed lately. A cached record counts only under the epoch and revision it was cached for. */
export interface KnownRevisions {
  readonly epoch: string;
  /** The revision of `key:HASH` or `user:ID`. It is published for as long as KV may have the old record. */
  of(id: string): string | undefined;
}

/** Callers in Postgres: by the hash of a key, by the id of a user. Undefined if there is no row, or none in force. */
export type CallerRows = Readonly<Record<CallerKind, (id: string) => Promise<CallerRecord | undefined>>>;

export interface CallerDirectoryOptions {
  readonly rows: CallerRows;
  readonly kv: Kv;
  readonly now: () => number;
  /** For one look-up, KV and Postgres together. */
  readonly deadlineMs: number;
  readonly revisions: () => KnownRevisions;
  readonly onError: (error: unknown) => void;
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
    return permit
      ? stillValid(await fromPostgres(sought, { deadline, afterResponse, permit }))
      : OVER_ALLOWANCE;
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

  async function fromPostgres(
    sought: Sought,
    { deadline, afterResponse, permit }: Question,
  ): Promise<Remembered> {
    const answer = rows[sought.kind](sought.id);
    // An answer that is too late for this request is cached for the next ones. A failure is reported below.
    afterResponse(answer.then((record) => keep(sought, record, permit)).catch(() => {}));
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
      if (!(await isWellFormedKey(key))) return ABSENT;
      return lookUp('key', await hashApiKey(key), how);
    },
    async ofUser(userId, how) {
      return isStorable(userId) ? lookUp('user', userId, how) : ABSENT;
    },
  };
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

interface Question {
  readonly deadline: AbortSignal;
  readonly afterResponse: AfterResponse;
  readonly permit: LookUpPermit;
}

/** No colon, so that no id ends like a revision. */
const PLAIN = /^[A-Za-z0-9._@-]{1,128}$/;

/** KV takes names of at most 512 bytes, so a digest replaces a long or unusual id. */
async function soughtOf(kind: CallerKind, id: string, revisions: KnownRevisions): Promise<Sought> {
  const revision = revisions.of(`${kind}:${id}`);
  const who = `${kind}:${PLAIN.test(id) ? id : `#${toBase64Url(await digest('SHA-256', id))}`}`;
  const name = `caller:${revisions.epoch}:${who}`;
  return { kind, id, who, name: revision === undefined ? name : `${name}:${revision}` };
}

/** Whether a row can have this id. Postgres refuses some texts with an error that looks like an outage. */
const isStorable = (userId: string) =>
  userId !== '' && userId.length <= 512 && !userId.includes('\0') && userId.isWellFormed();
