// Finds out who sends a request: the address that Cloudflare names, and the API key or user token if it is valid.
// A credential that cannot be verified identifies nobody: the request counts against the IP.
import { parseAuthorization } from '../core/authorization.ts';
import type { Caller } from '../core/matching/caller.ts';
import { countedIp } from '../core/matching/ip.ts';
import type { Credential } from '../core/matching/plan.ts';
import type { AfterResponse } from '../core/ports/after-response.ts';
import type { CallerDirectory, CallerRecord, Known, LookUp, TokenVerifier } from '../core/ports/callers.ts';
import { waitHalf } from '../limiter/deadline.ts';
import type { ClientRequest } from './client-request.ts';

/** Callers without an address share one bucket. Otherwise they would escape the limits. */
const UNKNOWN = { ip: 'unknown', address: 'unknown' };

export interface IdentityOptions {
  readonly callers: CallerDirectory;
  /** Undefined: Weir reads no tokens. */
  readonly tokens: TokenVerifier | undefined;
  readonly ipv6Prefix: number;
  readonly afterResponse: AfterResponse;
  /** The deadline of the decision. Finding the caller takes at most half of it. */
  readonly deadline: { remainingMs(): number };
  /** Asks neither KV nor Postgres. A caller that memory does not know is `unknown`. */
  readonly memoryOnly?: boolean | undefined;
}

/** The parts of a request that can identify its caller. */
type Sent = Pick<ClientRequest, 'headers' | 'connectingIp'>;

export type Address = Pick<Caller, 'ip' | 'address'>;

export interface Identity {
  readonly caller: Caller;
  /** The credential that the caller has shown, if it is not valid. */
  readonly unverified?: Credential | undefined;
  /** The credential that the caller has shown, if Weir cannot tell now whether it is valid. */
  readonly unknown?: Credential | undefined;
}

/** Trims the key: workerd leaves blanks at the end of a header. */
export async function identify(request: Sent, options: IdentityOptions): Promise<Identity> {
  const { headers } = request;
  const from = addressOf(request, options);
  const key = headers.get('X-API-Key')?.trim();
  const token = options.tokens && bearerTokenIn(headers);
  if (key === undefined && token === undefined) return { caller: from };
  const unknown = { caller: from, unknown: key === undefined ? 'token' : 'api-key' } as const;
  const { afterResponse, memoryOnly } = options;
  const verifying = verify({ from, key, token, lookUp: { ip: from.ip, afterResponse, memoryOnly } }, options);
  return waitHalf<Identity>(options.deadline, verifying, unknown);
}

/** Whether the client shows any credential. */
export const hasCredential = (
  { headers }: Pick<Sent, 'headers'>,
  { tokens }: Pick<IdentityOptions, 'tokens'>,
): boolean => headers.has('X-API-Key') || (tokens !== undefined && bearerTokenIn(headers) !== undefined);

/** The address of the client, as Cloudflare reports it. */
export const addressOf = (
  { connectingIp }: Pick<Sent, 'connectingIp'>,
  { ipv6Prefix }: Pick<IdentityOptions, 'ipv6Prefix'>,
): Address => countedIp(connectingIp ?? '', ipv6Prefix) ?? UNKNOWN;

interface Shown {
  readonly from: Address;
  readonly key: string | undefined;
  readonly token: string | undefined;
  readonly lookUp: LookUp;
}

/** The API key comes first. If it is valid, the token is not read. No other header identifies a caller. */
async function verify({ from, key, token, lookUp }: Shown, options: IdentityOptions): Promise<Identity> {
  const ofKey = key === undefined ? undefined : await options.callers.ofApiKey(key, lookUp);
  if (ofKey) return { caller: toCaller(from, ofKey) };
  // Memory does not know the key, but KV or Postgres may.
  if (ofKey === null && lookUp.memoryOnly) return { caller: from, unknown: 'api-key' };
  const ofToken = token === undefined ? undefined : await bearerOf(token, lookUp, options);
  if (ofToken) return { caller: toCaller(from, ofToken) };
  if (ofKey === null || ofToken === null)
    return { caller: from, unknown: ofKey === null ? 'api-key' : 'token' };
  return { caller: from, unverified: key === undefined ? 'token' : 'api-key' };
}

const toCaller = (from: Address, { userId, apiKeyId, tenantId, tier, claims }: CallerRecord): Caller => ({
  ...from,
  userId,
  apiKeyId,
  tenantId,
  tier,
  ...(claims && { claims }),
});

/** The directory adds the tier and the tenant of the user, if the token does not name them. */
async function bearerOf(
  token: string,
  lookUp: LookUp,
  { tokens, callers }: IdentityOptions,
): Promise<Known<CallerRecord>> {
  const user = await tokens?.verify(token, lookUp.afterResponse);
  if (!user || (user.tier !== undefined && user.tenantId !== undefined)) return user;
  const known = await callers.ofUser(user.userId, lookUp);
  return {
    userId: user.userId,
    tenantId: user.tenantId ?? known?.tenantId,
    tier: user.tier ?? known?.tier,
    claims: user.claims,
  };
}

/** Undefined if there is none. Several headers arrive as one value with commas, which is never a valid token. */
function bearerTokenIn(headers: Headers): string | undefined {
  const { scheme, credentials } = parseAuthorization(headers.get('Authorization') ?? '');
  return scheme === 'bearer' ? credentials : undefined;
}
