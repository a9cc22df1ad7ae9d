// Who a key or a user is in the rules' terms: from memory, then KV, then Postgres. It never fails, and never waits
// longer than its deadline: whoever is not known in time has the default tier. A key is known by its hash alone.
import { hashApiKey, isWellFormedKey } from '../core/api-key.ts';
import { createBoundedCache } from '../core/bounded-cache.ts';
import type { AfterResponse, CallerDirectory, CallerRecord, Known } from '../core/caller.ts';
import { digest, toBase64Url } from '../core/digest.ts';
import { findApiKey, findUser, readRecord, writeRecord } from './caller-records.ts';
import type { Database } from './database.ts';
import type { Kv } from './kv.ts';
import { withDeadline } from './with-deadline.ts';

const MEMORY_ENTRIES = 10_000;
const MEMORY_MS = 60_000;
/** After a failure Postgres is left alone for so long. */
const FAILURE_MS = 2_000;
/** Of each kind, so that made-up keys take nothing away from users. */
const QUESTIONS_PER_SECOND = 20;

/** Callers that have changed lately. What is kept of anybody counts only for the epoch and revision it was kept under. */
export interface KnownRevisions {
  readonly epoch: string;
  /** Of `key:HASH` or `user:ID`. Told of for as long as KV may have what was before it. */
  of(id: string): string | undefined;
}

export interface CallerDirectoryOptions {
  readonly database: Database;
  readonly kv: Kv;
  readonly now: () => number;
  /** For one look-up, KV and Postgres together. */
  readonly deadlineMs: number;
  readonly revisions: () => KnownRevisions;
  readonly onError: (error: unknown) => void;
}

type Kind = 'key' | 'user';

const FIND = { key: findApiKey, user: findUser };

export function createCallerDirectory(options: CallerDirectoryOptions): CallerDirectory {
  const { database, kv, now, deadlineMs, revisions, onError } = options;
  const memory = createBoundedCache<{ readonly record: Known<CallerRecord> }>(MEMORY_ENTRIES);
  const mayAsk = { key: createQuota(QUESTIONS_PER_SECOND), user: createQuota(QUESTIONS_PER_SECOND) };
  let askAgainAtMs = Number.NEGATIVE_INFINITY;

  const remember = (name: string, record: Known<CallerRecord>, ms: number) =>
    memory.set(name, { record }, now() + ms);

  async function lookUp(kind: Kind, id: string, afterResponse: AfterResponse) {
    // Taken before anything is read: what is read may be newer than its name says, never older.
    const name = await nameOf(kind, id, revisions());
    const remembered = memory.get(name, now());
    if (remembered !== undefined) return stillValid(remembered.record);
    const deadline = AbortSignal.timeout(deadlineMs);
    const kept = await fromKv(kind, name);
    if (kept !== undefined) return stillValid(kept);
    if (now() < askAgainAtMs || !mayAsk[kind](now())) return null;
    return stillValid(await fromPostgres(kind, id, { name, deadline, afterResponse }));
  }

  /** A KV that hangs leaves half of the time for Postgres. */
  async function fromKv(kind: Kind, name: string): Promise<CallerRecord | undefined> {
    try {
      const half = AbortSignal.timeout(Math.ceil(deadlineMs / 2));
      const record = await withDeadline(half, readRecord(kv, kind, name));
      if (record !== undefined) remember(name, record, MEMORY_MS);
      return record;
    } catch (error) {
      onError(error);
      return undefined;
    }
  }

  async function fromPostgres(kind: Kind, id: string, { name, deadline, afterResponse }: Question) {
    const answer = FIND[kind](database, id);
    // An answer that comes too late for this request is kept for the next ones. A failure is reported below.
    afterResponse(answer.then((record) => keep(name, record)).catch(() => {}));
    try {
      return await withDeadline(deadline, answer);
    } catch (error) {
      askAgainAtMs = now() + FAILURE_MS;
      // Another request may have had an answer meanwhile.
      if (memory.get(name, now()) === undefined) remember(name, null, FAILURE_MS);
      onError(error);
      return null;
    }
  }

  /** That somebody is unknown stays in memory: made-up callers write nothing to KV. */
  async function keep(name: string, record: CallerRecord | undefined): Promise<void> {
    askAgainAtMs = Number.NEGATIVE_INFINITY;
    remember(name, record, MEMORY_MS);
    if (record !== undefined) await writeRecord(kv, name, record).catch(onError);
  }

  const stillValid = (record: Known<CallerRecord>) =>
    record?.expiresAtMs === undefined || record.expiresAtMs > now() ? record : undefined;

  return {
    async ofApiKey(key, afterResponse) {
      if (!(await isWellFormedKey(key))) return undefined;
      return lookUp('key', await hashApiKey(key), afterResponse);
    },
    async ofUser(userId, afterResponse) {
      return isStorable(userId) ? lookUp('user', userId, afterResponse) : undefined;
    },
  };
}

interface Question {
  readonly name: string;
  readonly deadline: AbortSignal;
  readonly afterResponse: AfterResponse;
}

/** Without a colon: an id never ends in what reads as a revision. */
const PLAIN = /^[A-Za-z0-9._@-]{1,128}$/;

/** In KV and in memory. KV takes names of at most 512 bytes: what is long or unusual is replaced by its digest. */
async function nameOf(kind: Kind, id: string, revisions: KnownRevisions): Promise<string> {
  const revision = revisions.of(`${kind}:${id}`);
  const short = PLAIN.test(id) ? id : `#${toBase64Url(await digest('SHA-256', id))}`;
  const name = `caller:${revisions.epoch}:${kind}:${short}`;
  return revision === undefined ? name : `${name}:${revision}`;
}

/** Ids that no row can have are not asked for: Postgres would refuse some of them, as if it were broken. */
const isStorable = (userId: string) =>
  userId !== '' && userId.length <= 512 && !userId.includes('\0') && userId.isWellFormed();

/** Counts by whole seconds. */
function createQuota(perSecond: number): (nowMs: number) => boolean {
  let second = Number.NaN;
  let used = 0;
  return (nowMs) => {
    const current = Math.floor(nowMs / 1_000);
    if (current !== second) [second, used] = [current, 0];
    used += 1;
    return used <= perSecond;
  };
}
