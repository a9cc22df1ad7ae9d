// The ports through which the gateway finds out who calls: the directory of keys and users, and the verifier of tokens.
import type { Claims } from '../matching/caller.ts';
import type { AfterResponse } from './after-response.ts';

/** The stored data of an API key or a user. */
export interface CallerRecord {
  readonly userId?: string | undefined;
  readonly apiKeyId?: string | undefined;
  readonly tenantId?: string | undefined;
  readonly tier?: string | undefined;
  readonly claims?: Claims | undefined;
  readonly expiresAtMs?: number | undefined;
}

/** Null: not known now, because a store is down or slow. Undefined: there is none. */
export type Known<T> = T | undefined | null;

/** The circumstances of a look-up. */
export interface LookUp {
  /** The IP as rules count it. Weir limits how many unknown keys of one IP it looks up per second. */
  readonly ip: string;
  readonly afterResponse: AfterResponse;
  /** Asks neither KV nor Postgres. Returns null for a caller that memory does not know. */
  readonly memoryOnly?: boolean | undefined;
}

/** The port through which the gateway looks up callers. It never fails. */
export interface CallerDirectory {
  ofApiKey(key: string, lookUp: LookUp): Promise<Known<CallerRecord>>;
  ofUser(userId: string, lookUp: LookUp): Promise<Known<CallerRecord>>;
}

/** The user of a token that is verified in full. */
export interface VerifiedUser {
  readonly userId: string;
  /** Undefined: the token names no tenant. */
  readonly tenantId?: string | undefined;
  readonly tier?: string | undefined;
  readonly claims?: Claims | undefined;
  readonly expiresAtMs: number;
}

/** The port through which the gateway verifies tokens. It never fails. */
export interface TokenVerifier {
  verify(token: string, afterResponse: AfterResponse): Promise<Known<VerifiedUser>>;
}
