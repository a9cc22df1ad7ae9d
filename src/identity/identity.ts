// Finds out who sends a request: the address that Cloudflare names, and the API key or user token if it is valid. If the
// app around Weir names the caller, credentials play no part.
// A credential that is not valid identifies nobody: the request counts against the IP. A credential that Weir may not
// look up now is refused: otherwise anybody could turn a known caller into an unknown one.

import { type Caller, UNKNOWN_CALLER } from '../core/matching/caller.ts';
import { countedIp } from '../core/matching/ip.ts';
import type { Credential, Plan, RefusedCredential } from '../core/matching/plan.ts';
import type { Snapshot } from '../core/matching/snapshot.ts';
import {
  type CallerDirectory,
  type CallerRecord,
  type IdentitySource,
  type LookUpResult,
  type SentCredentials,
  type StoreAnswer,
  type TokenVerifier,
  UNAVAILABLE,
  type Unavailable,
} from '../core/ports/callers.ts';
import type { AfterResponse } from '../core/ports/telemetry.ts';
import {
  credentialsIn,
  DEFAULT_KEY_PLACES,
  type KeyPlaces,
  type ShownCredentials,
  sentToSource,
} from '../http/credentials.ts';
import type { ClientRequest } from '../http/guard.ts';
import { waitHalf } from '../limiter/deadline.ts';

export interface IdentityOptions {
  readonly callers: CallerDirectory;
  /** Undefined: Weir reads no tokens. */
  readonly tokens: TokenVerifier | undefined;
  /** Decides instead of keys and tokens, if there is one. */
  readonly source?: IdentitySource | undefined;
  /** Where API keys stand. Left out: where they do by default. */
  readonly keyPlaces?: KeyPlaces | undefined;
  readonly ipv6Prefix: number;
  readonly afterResponse: AfterResponse;
  /** The deadline of the decision. Finding the caller takes at most half of it. */
  readonly deadline: { remainingMs(): number };
}

/** The parts of a request that can identify its caller. */
type Sent = Pick<ClientRequest, 'headers' | 'connectingIp' | 'named'>;

export type Address = Pick<Caller, 'ip' | 'address'>;

export interface Identity {
  readonly caller: Caller;
  /** The caller of the token, if a valid API key identifies the request. The deny list holds for both. */
  readonly ofToken?: Caller | undefined;
  /** The credential that the caller has shown, if it is not valid. */
  readonly unverified?: Credential | undefined;
  /** The request shows different keys. It never passes: the origin could act for another one than Weir has counted. */
  readonly hasSeveralKeys?: boolean | undefined;
  /** The credential that the caller has shown, if Weir could not ask whether it is valid, or whom it belongs to. */
  readonly unknown?: Credential | undefined;
  /** The credential that the caller has shown, if Weir may not look it up now. Such a request never passes. */
  readonly overAllowance?: { readonly credential: Credential; readonly retryAfterMs: number } | undefined;
}

/** `shown` is read from the headers if it is left out. */
export async function identify(
  request: Sent,
  options: IdentityOptions,
  shown = credentialsShown(request, options),
): Promise<Identity> {
  const from = addressOf(request, options);
  return identityOf(from, await lookUpShown(shown, from, { ...options, named: request.named }), shown);
}

/** Asks neither KV nor Postgres. Undefined if memory does not know the caller. */
export async function identifyFromMemory(
  request: Sent,
  options: IdentityOptions,
  shown = credentialsShown(request, options),
): Promise<Identity | undefined> {
  const from = addressOf(request, options);
  const results = await lookUpShown(shown, from, { ...options, named: request.named, memoryOnly: true });
  const isKnown = [results.source, results.key, results.user].every((one) => one?.kind !== 'not-asked');
  return isKnown ? identityOf(from, results, shown) : undefined;
}

/** Undefined if the request shows none. What the app around Weir says counts as a verified token. */
export function credentialsShown(
  { headers, named }: Pick<Sent, 'headers' | 'named'>,
  { source, tokens, keyPlaces = DEFAULT_KEY_PLACES }: CredentialOptions,
): ShownCredentials | undefined {
  if (named) return { token: '' };
  if (!source) return credentialsIn(headers, keyPlaces, tokens !== undefined);
  const sent = sentToSource(headers, source.headers);
  return sent && { sent };
}

type CredentialOptions = Pick<IdentityOptions, 'source' | 'tokens' | 'keyPlaces'>;

/** The address of the client, as Cloudflare reports it. */
export const addressOf = (
  { connectingIp }: Pick<Sent, 'connectingIp'>,
  { ipv6Prefix }: Pick<IdentityOptions, 'ipv6Prefix'>,
): Address => countedIp(connectingIp ?? '', ipv6Prefix) ?? UNKNOWN_CALLER;

/** A decision that credentials and the deny list make before any rule; undefined if lists and rules decide. */
export function planByIdentity(
  identity: Identity,
  { listed }: Pick<Snapshot, 'listed'>,
  { unverified, nowMs }: { readonly unverified: 'count' | 'reject'; readonly nowMs: number },
): Plan | RefusedCredential | undefined {
  const { caller, ofToken, overAllowance, hasSeveralKeys } = identity;
  const rejected = hasSeveralKeys
    ? 'several-keys'
    : unverified === 'reject'
      ? identity.unverified
      : undefined;
  if (!ofToken && !overAllowance && rejected === undefined) return undefined;
  const isDenied = listed(caller, nowMs) === 'deny' || (ofToken && listed(ofToken, nowMs) === 'deny');
  if (isDenied) return { kind: 'listed', list: 'deny' };
  if (overAllowance) return { kind: 'over-allowance', ...overAllowance };
  return rejected === undefined ? undefined : { kind: 'unverified', credential: rejected };
}

/** What Weir knows about the credentials of a request. Undefined: the client has not shown it, or need not be asked. */
interface Results {
  /** The answer of the operator's own authentication. It stands alone. */
  source?: LookUpResult<CallerRecord> | undefined;
  key?: LookUpResult<CallerRecord> | undefined;
  token?: StoreAnswer<CallerRecord> | Unavailable | undefined;
  /** The row of the user, for what the token or the source does not say. */
  user?: LookUpResult<CallerRecord> | undefined;
}

/** Until a part has answered, it counts as one that could not be asked. So a late answer leaves the rest as it is. */
async function lookUpShown(
  shown: ShownCredentials | undefined,
  { ip }: Address,
  options: IdentityOptions & { readonly memoryOnly?: boolean; readonly named: Sent['named'] },
): Promise<Results> {
  const results: Results = {};
  if (!shown || shown.hasSeveralKeys) return results;
  if (options.source && shown.sent) return askSource(options.source, { sent: shown.sent, ip, options });
  const { key, token } = shown;
  if (key !== undefined) results.key = UNAVAILABLE;
  if (token !== undefined) results.token = UNAVAILABLE;
  const { callers, tokens, afterResponse, memoryOnly, named } = options;
  const how = { ip, afterResponse, memoryOnly };
  const askKey = async () => {
    if (key !== undefined) results.key = await callers.ofApiKey(key, how);
  };
  const askToken = async () => {
    if (named) results.token = { kind: 'found', record: named };
    else if (token !== undefined) results.token = await tokens?.verify(token, afterResponse);
    if (results.token?.kind !== 'found' || named?.needsRow === false) return;
    if (!needsRow(results.token.record)) return;
    results.user = UNAVAILABLE;
    results.user = await callers.ofUser(results.token.record.userId, how);
  };
  // Both at once: the look-up of a made-up key must not use up the time for the token, and so hide a denied user.
  const asking = async () => {
    if (!memoryOnly) return Promise.all([askKey(), askToken()]);
    await askKey();
    // A key that memory does not know is looked up in a moment, and the token with it.
    return results.key?.kind === 'not-asked' ? undefined : askToken();
  };
  await waitHalf(options.deadline, asking(), undefined);
  return results;
}

/** The row of the user says what the token or the source does not. */
const needsRow = (record: CallerRecord): record is CallerRecord & { readonly userId: string } =>
  record.userId !== undefined && (record.tier === undefined || record.tenantId === undefined);

interface AskedSource {
  readonly sent: SentCredentials;
  readonly ip: string;
  readonly options: IdentityOptions & { readonly memoryOnly?: boolean };
}

/** An older answer counts until there is a newer one. */
async function askSource(
  source: IdentitySource,
  { sent, ip, options: { callers, deadline, afterResponse, memoryOnly } }: AskedSource,
): Promise<Results> {
  const results: Results = { source: UNAVAILABLE };
  const how = { ip, afterResponse, memoryOnly };
  const learn = async (answer: LookUpResult<CallerRecord>) => {
    results.source = answer;
    results.user = undefined;
    if (answer.kind !== 'found' || !needsRow(answer.record)) return;
    results.user = UNAVAILABLE;
    const user = await callers.ofUser(answer.record.userId, how);
    if (results.source === answer) results.user = user;
  };
  const asking = source.ask(sent, { ...how, meanwhile: (answer) => void learn(answer) }).then(learn);
  await waitHalf(deadline, asking, undefined);
  return results;
}

function identityOf(
  from: Address,
  { source, key, token, user }: Results,
  shown: ShownCredentials | undefined,
): Identity {
  if (source) return identityOfSource(from, source, user);
  const ofToken = token?.kind === 'found' ? userOf(token.record, user) : undefined;
  const ofKey = key?.kind === 'found' ? key.record : undefined;
  const record = ofKey && ofToken ? completed(ofKey, ofToken) : (ofKey ?? ofToken);
  const isUserUnknown = token?.kind === 'unavailable' || user?.kind === 'unavailable';
  return {
    caller: record ? toCaller(from, record) : from,
    ofToken: ofKey && ofToken && toCaller(from, ofToken),
    unverified: key?.kind === 'absent' ? 'api-key' : token?.kind === 'absent' ? 'token' : undefined,
    unknown: key?.kind === 'unavailable' ? 'api-key' : isUserUnknown ? 'token' : undefined,
    overAllowance: refusedFor('api-key', key) ?? refusedFor('token', user),
    ...(shown?.hasSeveralKeys && { hasSeveralKeys: true }),
  };
}

/** A credential of the operator's own has no kind that Weir knows. To the client it is a key. */
function identityOfSource(
  from: Address,
  source: LookUpResult<CallerRecord>,
  user: Results['user'],
): Identity {
  const isUnknown = source.kind === 'unavailable' || user?.kind === 'unavailable';
  return {
    caller: source.kind === 'found' ? toCaller(from, userOf(source.record, user)) : from,
    unverified: source.kind === 'absent' ? 'api-key' : undefined,
    unknown: isUnknown ? 'api-key' : undefined,
    overAllowance: refusedFor('api-key', source) ?? refusedFor('api-key', user),
  };
}

const refusedFor = (credential: Credential, result: Results['key']) =>
  result?.kind === 'over-allowance' ? { credential, retryAfterMs: result.retryAfterMs } : undefined;

/** The user's row has the tier and the tenant that the token or the source does not name. */
function userOf(user: CallerRecord, row: Results['user']): CallerRecord {
  const record = row?.kind === 'found' ? row.record : undefined;
  return {
    ...user,
    tenantId: user.tenantId ?? record?.tenantId,
    tier: user.tier ?? record?.tier,
  };
}

/**
 * The key comes first. The token adds what the key does not name, so that a key without a user is no way around the
 * limits of a user. If both name a user and they differ, the token adds nothing.
 */
function completed(key: CallerRecord, token: CallerRecord): CallerRecord {
  if (key.userId !== undefined && key.userId !== token.userId) return key;
  return {
    apiKeyId: key.apiKeyId,
    userId: token.userId,
    tenantId: key.tenantId ?? token.tenantId,
    tier: key.tier ?? token.tier,
    claims: token.claims,
  };
}

const toCaller = (from: Address, { userId, apiKeyId, tenantId, tier, claims }: CallerRecord): Caller => ({
  ...from,
  userId,
  apiKeyId,
  tenantId,
  tier,
  ...(claims && { claims }),
});
