// Verifies users' JWTs: signature, issuer, audience and times. It caches results under the digest of the token, so that
// a busy client costs one signature check and not one for each request. The token itself is never kept or logged.
import {
  type CryptoKey,
  createLocalJWKSet,
  type JSONWebKeySet,
  type JWTPayload,
  type JWTVerifyGetKey,
  type JWTVerifyOptions,
  errors as joseErrors,
  jwtVerify,
} from 'jose';
import { createBoundedCache } from '../core/bounded-cache.ts';
import { digest, toBase64Url } from '../core/digest.ts';
import type { Claims } from '../core/matching/caller.ts';
import {
  ABSENT,
  type Absent,
  type Found,
  type TokenVerifier,
  UNAVAILABLE,
  type VerifiedUser,
} from '../core/ports/callers.ts';
import type { AfterResponse } from '../core/ports/telemetry.ts';
import { waitAtMost } from '../limiter/deadline.ts';

const MAX_TOKEN_LENGTH = 8_192;
const SHAPE = /^[\w-]+\.[\w-]+\.[\w-]+$/;
const MAX_NAME_LENGTH = 256;

const VERIFIED_ENTRIES = 5_000;
/** Also how long a token still works after the issuer has removed its key. */
const VERIFIED_MS = 5 * 60_000;
/** A cache of its own, so that made-up tokens do not displace valid ones. */
const REFUSED_ENTRIES = 1_000;
const REFUSED_MS = 60_000;

export interface TokenVerifierOptions {
  /** The only algorithms that Weir accepts, whatever a token names. Either all of them are HS…, or none. */
  readonly algorithms: readonly string[];
  readonly jwksUrl?: string | undefined;
  readonly issuer?: string | undefined;
  readonly audience?: string | undefined;
  readonly userClaim: string;
  readonly tierClaim?: string | undefined;
  readonly tenantClaim?: string | undefined;
  /** For HS… only. */
  readonly secret?: string | undefined;
  readonly now: () => number;
  /** How long a request waits for the issuer's keys. */
  readonly deadlineMs: number;
  readonly onError: (error: unknown) => void;
}

/**
 * The claims of a token, or undefined if there are no keys, or if its key may be a new one that could not be fetched.
 * Throws an error of jose if the token is invalid.
 */
export type VerifyClaims = (
  token: string,
  expected: JWTVerifyOptions,
  afterResponse?: AfterResponse,
) => Promise<JWTPayload | undefined>;

export function createTokenVerifier(options: TokenVerifierOptions): TokenVerifier {
  const { now, onError } = options;
  const verifyClaims = createVerifyClaims(options);
  const verified = createBoundedCache<Found<VerifiedUser>>(VERIFIED_ENTRIES);
  const refused = createBoundedCache<Absent>(REFUSED_ENTRIES);

  const refuse = (name: string, error: unknown) => {
    if (!(error instanceof joseErrors.JOSEError)) onError(error);
    // The key may be known a moment later.
    if (!isUnknownKey(error)) refused.set(name, ABSENT, Math.min(now() + REFUSED_MS, validFromMs(error)));
    return ABSENT;
  };

  async function check(name: string, token: string, afterResponse: AfterResponse) {
    try {
      const claims = await verifyClaims(token, expectationsOf(options, now()), afterResponse);
      if (!claims) return UNAVAILABLE;
      const user: Found<VerifiedUser> = { kind: 'found', record: toUser(claims, options) };
      verified.set(name, user, Math.min(now() + VERIFIED_MS, user.record.expiresAtMs));
      return user;
    } catch (error) {
      return refuse(name, error);
    }
  }

  return {
    async verify(token, afterResponse) {
      if (token.length > MAX_TOKEN_LENGTH || !SHAPE.test(token)) return ABSENT;
      const name = toBase64Url(await digest('SHA-256', token));
      return verified.get(name, now()) ?? refused.get(name, now()) ?? check(name, token, afterResponse);
    },
  };
}

/** Never uses a secret with the algorithms of public keys, or a public key as a secret. */
function createVerifyClaims(options: TokenVerifierOptions): VerifyClaims {
  const { algorithms, secret, jwksUrl } = options;
  if (algorithms.every((algorithm) => algorithm.startsWith('HS'))) {
    if (!secret) throw new Error('there is no secret to verify tokens with');
    const key = new TextEncoder().encode(secret);
    return async (token, expected) => (await jwtVerify(token, key, expected)).payload;
  }
  if (!jwksUrl) throw new Error('there is no URL of the keys to verify tokens with');
  return createKeyVerifier({ ...options, url: jwksUrl });
}

function expectationsOf(
  { algorithms, issuer, audience }: TokenVerifierOptions,
  nowMs: number,
): JWTVerifyOptions {
  return {
    algorithms: [...algorithms],
    ...(issuer !== undefined && { issuer }),
    ...(audience !== undefined && { audience }),
    requiredClaims: ['exp'],
    currentDate: new Date(nowMs),
  };
}

function toUser(
  claims: JWTPayload,
  { userClaim, tierClaim, tenantClaim }: TokenVerifierOptions,
): VerifiedUser {
  const userId = nameIn(claims, userClaim);
  const expiresAtMs = Number(claims.exp) * 1_000;
  if (userId === undefined) throw new joseErrors.JWTInvalid('the token names no user');
  if (!Number.isFinite(expiresAtMs)) throw new joseErrors.JWTInvalid('the token never ends');
  return {
    userId,
    tenantId: nameIn(claims, tenantClaim),
    tier: nameIn(claims, tierClaim),
    claims: namesIn(claims),
    expiresAtMs,
  };
}

/** Claims about the token itself. Rules do not count by them. */
const OF_THE_TOKEN: readonly string[] = ['exp', 'iat', 'nbf', 'jti', 'aud', 'iss'];
/** Results are kept in memory, so only the first claims are kept. */
const MAX_CLAIMS = 32;

export function namesIn(claims: Readonly<Record<string, unknown>>): Claims {
  const kept = Object.keys(claims)
    .filter((claim) => !OF_THE_TOKEN.includes(claim))
    .flatMap((claim) => {
      const name = nameIn(claims, claim);
      return name === undefined ? [] : [[claim, name] as const];
    });
  return Object.fromEntries(kept.slice(0, MAX_CLAIMS));
}

/**
 * A name that counters and headers can hold without loss. A header loses blanks around a name and control characters.
 * A digest loses halves of surrogate pairs and digits beyond a number's precision. A loss could make one user pass for
 * another.
 */
export function nameIn(
  claims: Readonly<Record<string, unknown>>,
  claim: string | undefined,
): string | undefined {
  if (claim === undefined || !Object.hasOwn(claims, claim)) return undefined;
  const value = claims[claim];
  const name = Number.isSafeInteger(value) ? String(value) : value;
  if (typeof name !== 'string' || name === '' || name.length > MAX_NAME_LENGTH) return undefined;
  return name === name.trim() && name.isWellFormed() && !/\p{Cc}/u.test(name) ? name : undefined;
}

/** When a token that came too early becomes valid; infinite for every other error. */
function validFromMs(error: unknown): number {
  const isEarly = error instanceof joseErrors.JWTClaimValidationFailed && error.claim === 'nbf';
  const { nbf } = isEarly ? error.payload : {};
  return nbf === undefined ? Number.POSITIVE_INFINITY : nbf * 1_000;
}

// The public keys of an issuer are fetched and cached. Weir keeps values, never promises: on Workers, a request that
// awaits a promise of another request hangs. So jose's own fetching is not used.

const FRESH_MS = 10 * 60_000;
/** Up to this age, keys still serve the current request and are renewed after its response. */
const SERVED_MS = 2 * FRESH_MS;
/** While the keys cannot be fetched, the last known ones are used for this long. */
const USABLE_MS = 24 * 3_600_000;
/** The pause between two fetches for unknown key ids, because made-up ids must not flood the issuer. */
const PAUSE_MS = 60_000;
const PAUSE_AFTER_FAILURE_MS = 5_000;
/** How long a fetch may go on after its request has given up. The next requests use its keys. */
const LATE_MS = 10_000;

export interface KeyOptions {
  readonly url: string;
  readonly now: () => number;
  /** How long a request waits for keys. */
  readonly deadlineMs: number;
  readonly onError?: ((error: unknown) => void) | undefined;
}

export function createKeyVerifier({ url, now, deadlineMs, onError }: KeyOptions): VerifyClaims {
  let known: { readonly keys: JWTVerifyGetKey; readonly fetchedAtMs: number } | undefined;
  let triedAtMs = Number.NEGATIVE_INFINITY;
  let failedAtMs = Number.NEGATIVE_INFINITY;

  const ageMs = () => (known ? now() - known.fetchedAtMs : Number.POSITIVE_INFINITY);
  /** False while a fetch is under way, and after one has failed. */
  const isOfLastTry = () => known !== undefined && known.fetchedAtMs >= triedAtMs;
  const usable = () => (ageMs() < USABLE_MS ? known?.keys : undefined);
  const fail = (error: unknown): undefined => {
    failedAtMs = now();
    onError?.(error);
  };

  const download = async (limitMs: number): Promise<JWTVerifyGetKey | undefined> => {
    triedAtMs = now();
    try {
      const keys = createKeySet(await fetchJson(url, limitMs));
      known = { keys, fetchedAtMs: now() };
      return keys;
    } catch (error) {
      return fail(error);
    }
  };

  /** Keys that come too late for this request are kept for the next ones. */
  const downloadAfter = (afterResponse: AfterResponse) => {
    const work = download(Math.max(LATE_MS, deadlineMs));
    afterResponse(work);
    return work;
  };

  const fetchKeys = async (afterResponse?: AfterResponse): Promise<JWTVerifyGetKey | undefined> => {
    if (!afterResponse) return download(deadlineMs);
    const work: Promise<JWTVerifyGetKey | undefined | typeof LATE> = downloadAfter(afterResponse);
    const keys = await waitAtMost(deadlineMs, work, LATE);
    return keys === LATE ? fail(new DOMException(`no keys within ${deadlineMs} ms`, 'TimeoutError')) : keys;
  };

  const currentKeys = async (afterResponse?: AfterResponse): Promise<JWTVerifyGetKey | undefined> => {
    if (ageMs() < FRESH_MS || now() - failedAtMs < PAUSE_AFTER_FAILURE_MS) return usable();
    if (!afterResponse || ageMs() >= SERVED_MS) return (await fetchKeys(afterResponse)) ?? usable();
    if (now() - triedAtMs >= PAUSE_AFTER_FAILURE_MS) downloadAfter(afterResponse);
    return usable();
  };

  return async (token, expected, afterResponse) => {
    const keys = await currentKeys(afterResponse);
    if (!keys) return undefined;
    try {
      return await verifyBySet(keys, token, expected);
    } catch (error) {
      const pausedMs = now() - triedAtMs;
      // If the keys were fetched a moment ago, an unknown key id is made up.
      if (!isUnknownKey(error) || (pausedMs < PAUSE_MS && isOfLastTry())) throw error;
      const newer = pausedMs < PAUSE_AFTER_FAILURE_MS ? undefined : await fetchKeys(afterResponse);
      return newer && verifyBySet(newer, token, expected);
    }
  };
}

const LATE = 'late';

const isUnknownKey = (error: unknown) => error instanceof joseErrors.JWKSNoMatchingKey;

/** jose chooses the key by algorithm, key id and use. The isolate keeps keys that jose has imported once. */
function createKeySet(jwks: JSONWebKeySet): JWTVerifyGetKey {
  // Throws unless it is a set of keys.
  createLocalJWKSet(jwks);
  // The map stays small: jose finds no key for a made-up algorithm or key id, so nothing is kept for it.
  const imported = new Map<string, CryptoKey>();
  return async (header) => {
    const name = JSON.stringify([header.alg, header.kid]);
    const known = imported.get(name);
    if (known) return known;
    // Uses a new set each time, because jose keeps promises of imported keys in a set.
    const key = await createLocalJWKSet(jwks)(header);
    imported.set(name, key);
    return key;
  };
}

/** A token that names no key may be signed with any key that fits. During a key rotation there are two. */
async function verifyBySet(keys: JWTVerifyGetKey, token: string, expected: JWTVerifyOptions) {
  try {
    return (await jwtVerify(token, keys, expected)).payload;
  } catch (error) {
    if (!(error instanceof joseErrors.JWKSMultipleMatchingKeys)) throw error;
    return verifyByAny(error, token, expected);
  }
}

async function verifyByAny(keys: AsyncIterable<CryptoKey>, token: string, expected: JWTVerifyOptions) {
  for await (const key of keys) {
    try {
      return (await jwtVerify(token, key, expected)).payload;
    } catch (error) {
      if (!(error instanceof joseErrors.JWSSignatureVerificationFailed)) throw error;
    }
  }
  throw new joseErrors.JWSSignatureVerificationFailed();
}

async function fetchJson(url: string, limitMs: number): Promise<JSONWebKeySet> {
  const response = await fetch(url, { signal: AbortSignal.timeout(limitMs), redirect: 'manual' });
  if (response.ok) return response.json() as Promise<JSONWebKeySet>;
  await response.body?.cancel();
  throw new Error(`the server of the keys answered ${response.status}`);
}
