// Who calls, in the terms of the rules.
import type { Scope } from './rule.ts';

export interface Caller {
  /** As rules count it: IPv6 by its prefix. */
  readonly ip: string;
  /** The whole address, for the lists. */
  readonly address: string;
  readonly userId?: string | undefined;
  readonly apiKeyId?: string | undefined;
  readonly tenantId?: string | undefined;
  /** Undefined: the default tier. */
  readonly tier?: string | undefined;
  /** Claims of a verified token. */
  readonly claims?: Claims | undefined;
}

/** Claims of a token: names and short texts. */
export type Claims = Readonly<Record<string, string>>;

/** The stored data of an API key or a user. */
export interface CallerRecord {
  readonly userId?: string | undefined;
  readonly apiKeyId?: string | undefined;
  readonly tenantId?: string | undefined;
  readonly tier?: string | undefined;
  readonly claims?: Claims | undefined;
  readonly expiresAtMs?: number | undefined;
}

/** Takes work that may end after the response (`waitUntil`). */
export type AfterResponse = (work: Promise<unknown>) => void;

/** Null: not known now, because a store is down or slow. Undefined: there is none. */
export type Known<T> = T | undefined | null;

/** The circumstances of a look-up. */
export interface LookUp {
  /** As rules count it. For one address, only so many unknown keys a second are looked up. */
  readonly ip: string;
  readonly afterResponse: AfterResponse;
  /** Asks neither KV nor Postgres. Gives null for a caller that memory does not know. */
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
  /** Undefined: the token does not say. */
  readonly tenantId?: string | undefined;
  readonly tier?: string | undefined;
  readonly claims?: Claims | undefined;
  readonly expiresAtMs: number;
}

/** The port through which the gateway verifies tokens. It never fails. */
export interface TokenVerifier {
  verify(token: string, afterResponse: AfterResponse): Promise<Known<VerifiedUser>>;
}

/** The id that a scope counts by, or undefined if the caller has none of that kind. */
export function idInScope(scope: Scope, caller: Caller): string | undefined {
  switch (scope) {
    case 'global':
      return 'all';
    case 'tenant':
      return caller.tenantId;
    case 'user':
      return caller.userId;
    case 'apiKey':
      return caller.apiKeyId;
    case 'ip':
      return caller.ip;
  }
}

/** Who is counted. A caller without an id in the rule's scope is counted by IP, so nobody goes uncounted. */
export function subjectOf(scope: Scope, caller: Caller): { scope: Scope; id: string } {
  const id = idInScope(scope, caller);
  return id === undefined ? { scope: 'ip', id: caller.ip } : { scope, id };
}
