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
  /** Of a verified token. */
  readonly claims?: Claims | undefined;
}

/** What a token says beside its user: names and short texts. */
export type Claims = Readonly<Record<string, string>>;

/** What is known of an API key or a user, from wherever it is kept. */
export interface CallerRecord {
  readonly userId?: string | undefined;
  readonly apiKeyId?: string | undefined;
  readonly tenantId?: string | undefined;
  readonly tier?: string | undefined;
  readonly claims?: Claims | undefined;
  readonly expiresAtMs?: number | undefined;
}

/** Takes over work that may end after the response. */
export type AfterResponse = (work: Promise<unknown>) => void;

/** Null: it cannot be told now, because a part that knows is down or slow. Undefined: nobody. */
export type Known<T> = T | undefined | null;

/** Who wants to know who somebody is, and why. */
export interface LookUp {
  /** As rules count it: of unknown keys, only so many a second are looked up for one address. */
  readonly ip: string;
  readonly afterResponse: AfterResponse;
  /** Asks neither KV nor Postgres: null for a caller that memory does not know. */
  readonly memoryOnly?: boolean | undefined;
}

/** The port between the gateway and wherever callers are known. It never fails. */
export interface CallerDirectory {
  ofApiKey(key: string, lookUp: LookUp): Promise<Known<CallerRecord>>;
  ofUser(userId: string, lookUp: LookUp): Promise<Known<CallerRecord>>;
}

/** Whom a token names, once all of it has been found good. */
export interface VerifiedUser {
  readonly userId: string;
  /** Undefined: the token does not say. */
  readonly tenantId?: string | undefined;
  readonly tier?: string | undefined;
  readonly claims?: Claims | undefined;
  readonly expiresAtMs: number;
}

/** The port between the gateway and whatever verifies tokens. It never fails. */
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

/** Who is counted. A caller without an id of the kind that a rule counts by is counted by IP: nobody goes uncounted. */
export function subjectOf(scope: Scope, caller: Caller): { scope: Scope; id: string } {
  const id = idInScope(scope, caller);
  return id === undefined ? { scope: 'ip', id: caller.ip } : { scope, id };
}
