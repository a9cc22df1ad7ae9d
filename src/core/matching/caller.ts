// Who calls, in the terms of the rules.
import type { RuleScope, Scope } from './rule.ts';

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

/** Callers without an address share one bucket. Otherwise they would escape the limits. */
export const UNKNOWN_CALLER: Caller = { ip: 'unknown', address: 'unknown' };

/** Under which a caller's records are kept. An id that the caller does not have is ''. */
export interface CallerIds {
  readonly tenantId: string;
  readonly userId: string;
  readonly apiKeyId: string;
}

export const idsOf = ({ tenantId = '', userId = '', apiKeyId = '' }: Caller): CallerIds => ({
  tenantId,
  userId,
  apiKeyId,
});

/**
 * Whom an app names as its caller, because it has authenticated the caller itself. Null: there is none. Left out: the
 * row of the user may have it.
 */
export interface AppCaller {
  readonly userId?: string | number | null | undefined;
  /** The id of a key, not the key. Capitals count as small letters. */
  readonly apiKeyId?: string | null | undefined;
  readonly tenantId?: string | number | null | undefined;
  readonly tier?: string | null | undefined;
  /** Rules can count by these, as by the claims of a token. */
  readonly claims?: Readonly<Record<string, unknown>> | null | undefined;
}

/** Null and undefined: the app does not know. */
export type CallerAnswer = AppCaller | null | undefined | Promise<AppCaller | null | undefined>;

/** An app names a caller that rules cannot count. The message quotes nothing that the app has said. */
export class CallerError extends Error {
  override readonly name = 'CallerError';
}

/** Claims of a token: names and short texts. */
export type Claims = Readonly<Record<string, string>>;

export const claimIn = (claims: Claims | undefined, name: string): string | undefined =>
  claims && Object.hasOwn(claims, name) ? claims[name] : undefined;

/** The id that a scope counts by, or undefined if the caller has none of that kind. */
export function idInScope(scope: RuleScope, caller: Caller): string | undefined {
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
    case 'all':
      return undefined;
  }
}

/** Who is counted. A caller without an id in the rule's scope is counted by IP, so nobody goes uncounted. */
export function subjectOf(scope: RuleScope, caller: Caller): { scope: Scope; id: string } {
  const id = idInScope(scope, caller);
  return id === undefined || scope === 'all' ? { scope: 'ip', id: caller.ip } : { scope, id };
}
