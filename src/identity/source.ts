// Asks the operator's own authentication (IDENTITY) whose credential a request shows, and remembers the answers. It
// never fails. What it has learned counts in four steps:
//
//  1. An answer is fresh for as long as it says itself, in memory, and in KV if that is a minute or more.
//  2. After that Weir asks again. If the source does not answer, the old answer goes on, up to ten minutes in all.
//  3. A change of the user's row, or a revocation, ends an answer at once: it is bound to what isolates knew of changes
//     when Weir asked.
//  4. Nobody is known otherwise: the request counts by its IP.
//
// Neither memory nor KV nor a log gets a credential, only a keyed digest of it.
import { createBoundedCache } from '../core/bounded-cache.ts';
import { createSigner, toBase64Url } from '../core/digest.ts';
import type { ServiceBinding } from '../core/matching/origin-routes.ts';
import {
  ABSENT,
  type CallerRecord,
  type CallerRevisions,
  type Found,
  type IdentitySource,
  type LookUp,
  type LookUpResult,
  NOT_ASKED,
  OVER_ALLOWANCE,
  type SentCredentials,
  type StoreAnswer,
  UNAVAILABLE,
  type Unavailable,
} from '../core/ports/callers.ts';
import { type Breaker, createBreaker, type Permit } from '../core/regions/breaker.ts';
import {
  type FieldError,
  number,
  object,
  optional,
  recordOf,
  type Shape,
  text,
  textOfErrors,
} from '../core/shape.ts';
import { readAtMost } from '../http/internal-requests.ts';
import { waitAtMost } from '../limiter/deadline.ts';
import { type Kv, withDeadline } from '../rules/edge/published.ts';
import { createLookUpAllowance, type LookUpPermit } from './directory.ts';
import { nameIn, namesIn } from './jwt.ts';

const MEMORY_ENTRIES = 5_000;
/** A cache of its own, so that made-up credentials do not displace valid ones. */
const UNKNOWN_ENTRIES = 5_000;
const UNKNOWN_MS = 10_000;
/** How long nobody asks again for a credential that the source had no good answer for. */
const FAILURE_MS = 2_000;

const DEFAULT_TTL_SECONDS = 60;
const LONGEST_TTL_SECONDS = 600;
/**
 * Also how long an answer stands in while the source is gone. It is shorter than the time for which the publisher
 * publishes a change (content.ts), so no answer outlives a revocation.
 */
const LONGEST_MS = LONGEST_TTL_SECONDS * 1_000;
/** KV itself keeps what it has read for as long. */
const IN_KV_FROM_MS = 60_000;

/** The source may take this long. A request waits less, and the next requests use a late answer. */
const ASK_MS = 2_000;
/** Less than the half for which the request waits, so that Weir still notices a late answer. */
const PART_OF_DEADLINE = 0.4;
const MAX_BYTES = 8_192;
/** Another Worker reads neither. */
const SERVICE_URL = 'https://identity.weir.internal/';

export interface SourceAddress {
  readonly url?: string | undefined;
  readonly service?: ServiceBinding | undefined;
}

export interface IdentitySourceOptions {
  readonly address: SourceAddress;
  /** Tells two sources apart in KV. */
  readonly name: string;
  /** The key of the digests. */
  readonly secret: string;
  /** Names this Weir, so that it finds out if the source is behind itself. */
  readonly hop: () => string | Promise<string>;
  readonly hopHeader: string;
  readonly kv: Kv;
  readonly now: () => number;
  readonly random: () => number;
  readonly deadlineMs: number;
  readonly revisions: () => CallerRevisions;
  readonly onError: (error: unknown) => void;
}

/** An answer that names a caller. */
interface Kept {
  readonly record: CallerRecord;
  /** What isolates knew of changes of this caller when Weir asked. */
  readonly stamp: string;
  readonly freshUntilMs: number;
  readonly endsAtMs: number;
}

/** A question to the source. */
interface Question {
  readonly sent: SentCredentials;
  readonly name: string;
  /** The changes that were known before Weir asked. */
  readonly known: CallerRevisions;
  readonly toSource: Permit;
  readonly permit: LookUpPermit | undefined;
  /** KV has an older answer. */
  readonly isInKv: boolean;
}

export function createIdentitySource(options: IdentitySourceOptions): Pick<IdentitySource, 'ask'> {
  const { kv, now, deadlineMs, revisions, onError } = options;
  const memory = createBoundedCache<Kept>(MEMORY_ENTRIES);
  const unknown = createBoundedCache<StoreAnswer<CallerRecord> | Unavailable>(UNKNOWN_ENTRIES);
  const allowance = createLookUpAllowance(now);
  const breaker: Breaker = createBreaker({ random: options.random });
  const sign = createSigner(options.secret);
  const send = createCall(options);
  const waitMs = Math.ceil(deadlineMs * PART_OF_DEADLINE);
  /** The last answer came too late, or not at all. */
  let isTroubled = false;

  const nameOf = async (sent: SentCredentials) =>
    `identity:${toBase64Url(await sign(JSON.stringify([options.name, sent])))}`;

  async function ask(sent: SentCredentials, lookUp: LookUp): Promise<LookUpResult<CallerRecord>> {
    // Too long to be credentials.
    if (sent.length === 0) return ABSENT;
    // Read before anything is asked, so an answer may be newer than its stamp says, but never older.
    const known = revisions();
    const name = await nameOf(sent);
    const inMemory = usable(memory.get(name, now()), known);
    if (inMemory && inMemory.freshUntilMs > now()) return foundIn(inMemory);
    const failed = unknown.get(name, now());
    if (failed && failed.kind !== 'unavailable') return failed;
    if (lookUp.memoryOnly && !failed) return NOT_ASKED;
    const older = inMemory ?? (await inMemoryWithout(sent, known));
    if (failed) return older ? foundIn(older) : failed;
    const inKv = usable(await readKept(name), known);
    const kept = newerOf(inMemory, inKv);
    if (kept) memory.set(name, kept, kept.endsAtMs);
    if (kept && kept.freshUntilMs > now()) return foundIn(kept);
    const standIn = kept ?? older;
    if (standIn) lookUp.meanwhile?.(foundIn(standIn));
    const answer = await askSource({ sent, name, known, isInKv: inKv !== undefined }, lookUp, kept);
    return standIn && answer.kind === 'unavailable' ? foundIn(standIn) : answer;
  }

  /**
   * What memory knows of one of the credentials alone. Otherwise a caller could add another one, for which the source
   * has no answer, and be nobody.
   */
  async function inMemoryWithout(sent: SentCredentials, known: CallerRevisions): Promise<Kept | undefined> {
    if (sent.length < 2) return undefined;
    for (const one of sent) {
      const kept = usable(memory.get(await nameOf([one]), now()), known);
      if (kept) return kept;
    }
    return undefined;
  }

  async function askSource(
    asked: Pick<Question, 'sent' | 'name' | 'known' | 'isInKv'>,
    { ip, afterResponse }: LookUp,
    kept: Kept | undefined,
  ): Promise<LookUpResult<CallerRecord>> {
    const toSource = breaker.enter();
    if (toSource === undefined) {
      const probe = breaker.probe(now());
      if (probe !== undefined) afterResponse(learn({ ...asked, toSource: probe, permit: undefined }));
      return UNAVAILABLE;
    }
    const permit = allowance.permit({ kind: 'key', who: asked.name, ip });
    // While the source is slow or gone, its callers cannot be told apart from others, and no request is refused for it.
    if (!permit) return isTroubled || kept ? UNAVAILABLE : OVER_ALLOWANCE;
    const learning = learn({ ...asked, toSource, permit });
    afterResponse(learning);
    const answer = await waitAtMost<Awaited<typeof learning> | typeof LATE>(waitMs, learning, LATE);
    if (answer !== LATE) return answer;
    isTroubled = true;
    unknown.set(asked.name, UNAVAILABLE, now() + FAILURE_MS);
    return UNAVAILABLE;
  }

  /** Never rejects. */
  async function learn(question: Question): Promise<StoreAnswer<CallerRecord> | Unavailable> {
    const { sent, name, toSource, permit } = question;
    const startedAtMs = now();
    try {
      const answer = await send(sent);
      breaker.succeed(toSource, now());
      isTroubled = now() - startedAtMs >= waitMs;
      permit?.(answer !== undefined);
      await (answer ? keep(question, answer) : forget(question));
      return answer ? { kind: 'found', record: answer.record } : ABSENT;
    } catch (error) {
      // A source that answers is there. What it says of one credential must not keep Weir from asking for others.
      const isThere = error instanceof BadAnswer && !error.isOutage;
      if (isThere) breaker.succeed(toSource, now());
      else breaker.fail(toSource, now());
      isTroubled = !isThere;
      unknown.set(name, UNAVAILABLE, now() + FAILURE_MS);
      onError(error);
      return UNAVAILABLE;
    }
  }

  async function keep({ name, known }: Question, { record, ttlMs }: Answer): Promise<void> {
    const nowMs = now();
    const kept: Kept = {
      record,
      stamp: stampOf(record, known),
      freshUntilMs: nowMs + ttlMs,
      endsAtMs: nowMs + LONGEST_MS,
    };
    memory.set(name, kept, kept.endsAtMs);
    unknown.delete(name);
    allowance.found(name);
    if (ttlMs >= IN_KV_FROM_MS) await writeKept(name, kept);
  }

  /** A made-up credential writes nothing to KV. */
  async function forget({ name, isInKv }: Question): Promise<void> {
    memory.delete(name);
    unknown.set(name, ABSENT, now() + UNKNOWN_MS);
    if (isInKv) await writeKept(name, null);
  }

  /** Gives KV a quarter of the time, so that the source has as much before the request goes on. */
  async function readKept(name: string): Promise<Kept | undefined> {
    try {
      const signal = AbortSignal.timeout(Math.ceil(deadlineMs / 4));
      const kept = parseKept(await withDeadline(signal, kv.get(name)));
      // The clock of the isolate that has asked may be ahead.
      const endsAtMs = Math.min(kept?.endsAtMs ?? 0, now() + LONGEST_MS);
      return kept && endsAtMs > now() ? { ...kept, endsAtMs } : undefined;
    } catch (error) {
      onError(error);
      return undefined;
    }
  }

  const writeKept = (name: string, kept: Kept | null) =>
    kv.put(name, JSON.stringify(kept), { expirationTtl: LONGEST_TTL_SECONDS }).catch(onError);

  return { ask };
}

const LATE = 'late';

const keptShape: Shape<Kept> = object({
  record: object({
    userId: optional(text),
    apiKeyId: optional(text),
    tenantId: optional(text),
    tier: optional(text),
    claims: optional(recordOf(text)),
  }),
  stamp: text,
  freshUntilMs: number,
  endsAtMs: number,
});

/** Undefined if KV has no answer; throws if the value is not one. */
function parseKept(stored: string | null): Kept | undefined {
  const parsed: unknown = stored === null ? null : JSON.parse(stored);
  if (parsed === null) return undefined;
  const errors: FieldError[] = [];
  const kept = keptShape(parsed, 'answer', errors);
  if (!kept) throw new Error(`KV has no answer about a caller: ${textOfErrors(errors)}`);
  return kept;
}

const foundIn = ({ record }: Kept): Found<CallerRecord> => ({ kind: 'found', record });

const newerOf = (a: Kept | undefined, b: Kept | undefined) =>
  a && b ? (a.freshUntilMs >= b.freshUntilMs ? a : b) : (a ?? b);

/** Undefined if the caller has changed, or was revoked, since Weir asked. */
const usable = (kept: Kept | undefined, known: CallerRevisions): Kept | undefined =>
  kept && kept.stamp === stampOf(kept.record, known) ? kept : undefined;

const stampOf = (
  { userId, apiKeyId, tenantId }: CallerRecord,
  { epoch, revisions }: CallerRevisions,
): string =>
  JSON.stringify([
    epoch,
    revisions[`user:${userId}`],
    revisions[`apiKey:${apiKeyId}`],
    revisions[`tenant:${tenantId}`],
  ]);

// One call to the source, and what its answer means.

interface Answer {
  readonly record: CallerRecord;
  readonly ttlMs: number;
}

/** The name is what the log shows. It quotes nothing of the answer. */
class BadAnswer extends Error {
  readonly isOutage: boolean;

  constructor(problem: string, isOutage = false) {
    super(problem);
    this.name = `IdentityAnswer: ${problem}`;
    this.isOutage = isOutage;
  }
}

/** Resolves to undefined if the source knows nobody with these credentials. */
function createCall({ address, hop, hopHeader }: IdentitySourceOptions) {
  return async (sent: SentCredentials): Promise<Answer | undefined> => {
    const headers = new Headers(sent.map(([name, value]): [string, string] => [name, value]));
    headers.set('Accept', 'application/json');
    headers.set(hopHeader, await hop());
    const signal = AbortSignal.timeout(ASK_MS);
    // A POST, because a cache on the way could give the answer to a GET to somebody else.
    const init: RequestInit = { method: 'POST', headers, redirect: 'manual', signal };
    const { url = SERVICE_URL, service } = address;
    const response = await withDeadline(signal, service ? service.fetch(url, init) : fetch(url, init));
    if (response.status === 200) return parseAnswer(await readText(response, signal));
    void response.body?.cancel().catch(() => {});
    return withoutBody(response.status);
  };
}

/** What a credential alone can cause. Any other status says that something is wrong with the source. */
const NOBODY: readonly number[] = [204, 400, 401, 403, 404, 413, 431];

function withoutBody(status: number): undefined {
  if (NOBODY.includes(status)) return undefined;
  throw new BadAnswer(`status ${status}`, status >= 500 || status === 429);
}

async function readText(response: Response, signal: AbortSignal): Promise<string> {
  const reading = readAtMost(response, MAX_BYTES).catch(() => {
    throw new BadAnswer(`a body that ends early, or of more than ${MAX_BYTES} bytes`);
  });
  return new TextDecoder().decode(await withDeadline(signal, reading));
}

function parseAnswer(body: string): Answer | undefined {
  let parsed: unknown;
  try {
    parsed = JSON.parse(body);
  } catch {
    throw new BadAnswer('no JSON');
  }
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed))
    throw new BadAnswer('no object');
  const answer = parsed as Readonly<Record<string, unknown>>;
  const [userId, keyId, tenantId, tier] = ['userId', 'apiKeyId', 'tenantId', 'tier'].map((field) =>
    nameOrNothing(answer, field),
  );
  // Lists and rules name keys in lower case.
  const apiKeyId = keyId?.toLowerCase();
  const claims = claimsIn(answer);
  const ttlMs = ttlIn(answer);
  if (userId === undefined && apiKeyId === undefined && tenantId === undefined) return undefined;
  return { record: { userId, apiKeyId, tenantId, tier, ...(claims && { claims }) }, ttlMs };
}

/** An answer with one bad field is bad as a whole: half of a caller could escape the limits of the other half. */
function nameOrNothing(answer: Readonly<Record<string, unknown>>, field: string): string | undefined {
  if (!Object.hasOwn(answer, field) || answer[field] === null) return undefined;
  const name = nameIn(answer, field);
  if (name === undefined) throw new BadAnswer(`bad ${field}`);
  return name;
}

function claimsIn({ claims }: Readonly<Record<string, unknown>>) {
  if (claims === undefined || claims === null) return undefined;
  if (typeof claims !== 'object' || Array.isArray(claims)) throw new BadAnswer('bad claims');
  return namesIn({ ...claims });
}

function ttlIn({ ttlSeconds }: Readonly<Record<string, unknown>>): number {
  if (ttlSeconds === undefined || ttlSeconds === null) return DEFAULT_TTL_SECONDS * 1_000;
  if (typeof ttlSeconds !== 'number') throw new BadAnswer('bad ttlSeconds');
  return Math.min(Math.max(ttlSeconds, 1), LONGEST_TTL_SECONDS) * 1_000;
}
