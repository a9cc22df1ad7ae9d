// The ports through which the gateway finds out who calls: the directory of keys and users, and the verifier of tokens.

import type { Claims } from '../matching/caller.ts';
import { versionOf } from '../matching/stored-snapshot.ts';
import { flag, object, optional, recordOf, type Shape, text } from '../shape.ts';
import type { CounterStore } from './region.ts';
import type { AfterResponse } from './telemetry.ts';

/** The stored data of an API key or a user. */
export interface CallerRecord {
  readonly userId?: string | undefined;
  readonly apiKeyId?: string | undefined;
  readonly tenantId?: string | undefined;
  readonly tier?: string | undefined;
  readonly claims?: Claims | undefined;
  readonly expiresAtMs?: number | undefined;
}

/** A caller that the app around Weir has named. */
export interface NamedCaller extends CallerRecord {
  /** The row of the user may have a tier or tenant that the app has left out. */
  readonly needsRow: boolean;
}

/**
 * The answer to the question whose credential it is. "There is none", "could not ask", "was not asked" and "may not ask
 * now" lead to different decisions, so each has its own kind, and none of them is `null` or `undefined`.
 */
export type LookUpResult<T> = StoreAnswer<T> | Unavailable | NotAsked | OverAllowance;

/** The answer of a part that was asked and knows. */
export type StoreAnswer<T> = Found<T> | Absent;
export type Found<T> = { readonly kind: 'found'; readonly record: T };
/** Asked, and there is none: the credential is not valid, or the user has no row. */
export type Absent = { readonly kind: 'absent' };
/** Could not ask: a store or the issuer is down or slow. */
export type Unavailable = { readonly kind: 'unavailable' };
/** Memory does not know, and only memory was allowed to answer. */
export type NotAsked = { readonly kind: 'not-asked' };
/** May not ask now: too many unknown callers are being looked up. The request must not pass as somebody else. */
export type OverAllowance = { readonly kind: 'over-allowance'; readonly retryAfterMs: number };

export const ABSENT: Absent = { kind: 'absent' };
export const UNAVAILABLE: Unavailable = { kind: 'unavailable' };
export const NOT_ASKED: NotAsked = { kind: 'not-asked' };
/** The allowance is per second. */
export const OVER_ALLOWANCE: OverAllowance = { kind: 'over-allowance', retryAfterMs: 1_000 };

/** The answer of a store that has a record, or none. */
export const answerOf = <T>(record: T | undefined): StoreAnswer<T> =>
  record === undefined ? ABSENT : { kind: 'found', record };

/** The circumstances of a look-up. */
export interface LookUp {
  /** The IP as rules count it. Weir limits the look-ups of unknown callers by IP. */
  readonly ip: string;
  readonly afterResponse: AfterResponse;
  /** Asks neither KV nor Postgres. The result is `not-asked` for a caller that memory does not know. */
  readonly memoryOnly?: boolean | undefined;
  /** Gets an older answer, which counts if no newer one comes in time. */
  readonly meanwhile?: ((answer: Found<CallerRecord>) => void) | undefined;
}

/** The port through which the gateway looks up callers. It never fails. */
export interface CallerDirectory {
  ofApiKey(key: string, lookUp: LookUp): Promise<LookUpResult<CallerRecord>>;
  ofUser(userId: string, lookUp: LookUp): Promise<LookUpResult<CallerRecord>>;
}

/** Headers of a request, as they go to the source; empty if they are too long for credentials. */
export type SentCredentials = readonly (readonly [name: string, value: string])[];

/** Which headers the source gets. */
export interface SourceHeader {
  /** In lower case. */
  readonly header: string;
  /** Of `Cookie`, only the one with this name. */
  readonly cookie?: string | undefined;
}

/** The port to an authentication of the operator's own, which decides instead of Weir's keys and tokens. */
export interface IdentitySource {
  readonly headers: readonly SourceHeader[];
  /** It never fails. */
  ask(sent: SentCredentials, lookUp: LookUp): Promise<LookUpResult<CallerRecord>>;
}

/** The user of a token that is verified in full. */
export interface VerifiedUser extends CallerRecord {
  readonly userId: string;
  readonly expiresAtMs: number;
}

/** The port through which the gateway verifies tokens. It never fails. */
export interface TokenVerifier {
  verify(token: string, afterResponse: AfterResponse): Promise<StoreAnswer<VerifiedUser> | Unavailable>;
}

// Callers whose tier, tenant or key has changed lately, as isolates read them. Isolates and KV may still hold the old
// record, but never under the new revision.

export interface CallerRevisions {
  /** A new epoch means: forget all callers. */
  readonly epoch: string;
  /** By `key:HASH` or `user:ID`; and by `user:ID`, `apiKey:ID` or `tenant:ID` if somebody has revoked these. */
  readonly revisions: Readonly<Record<string, string>>;
  /**
   * Weir has made all keys that there are, so a text of another form is no key, and needs no look-up. Undefined: not
   * known, so such a text may be a key.
   */
  readonly onlyWeirKeys?: boolean | undefined;
}

export const NO_REVISIONS: CallerRevisions = { epoch: '0', revisions: {} };

const callerRevisions: Shape<CallerRevisions> = object({
  epoch: text,
  revisions: recordOf(text),
  onlyWeirKeys: optional(flag),
});

export async function decodeRevisions(version: string, text: string): Promise<CallerRevisions | undefined> {
  if ((await versionOf(text)) !== version) return undefined;
  return callerRevisions(JSON.parse(text), 'callers', []);
}

// The port to what slows down guessing of tokens.

export interface Attempt<Verdict> {
  readonly address: string | null;
  /** Looks at the token. */
  readonly look: () => Promise<Verdict>;
  /** Counts failures for all isolates. Left out: the first region. */
  readonly store?: CounterStore | undefined;
}

/** The address has failed too often. */
export interface Waiting {
  readonly kind: 'waiting';
  readonly waitMs: number;
}

/**
 * Looks at a token, and counts a verdict `refused` as a failed attempt. While the address must wait, the answer is the
 * same whatever the token is.
 */
export type AttemptGuard = <Verdict extends { readonly kind: string }>(
  attempt: Attempt<Verdict>,
) => Promise<Verdict | Waiting>;
