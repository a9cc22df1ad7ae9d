// Verifies users' JWTs: signature, issuer, audience and times. It caches results under the digest of the token, so that
// a busy client costs one signature check and not one for each request. The token itself is never kept or logged.
import { type JWTPayload, type JWTVerifyOptions, errors as joseErrors, jwtVerify } from 'jose';
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
import { createKeyCache, isUnknownKey, verifyByKeys } from './jwks.ts';

const MAX_TOKEN_LENGTH = 8_192;
const SHAPE = /^[\w-]+\.[\w-]+\.[\w-]+$/;
const MAX_NAME_LENGTH = 256;

const VERIFIED_ENTRIES = 5_000;
/** Also how long a token still works after the issuer has removed its key. */
const VERIFIED_MS = 5 * 60_000;
/** A cache of its own, so that made-up tokens do not displace valid ones. */
const REFUSED_ENTRIES = 1_000;
const REFUSED_MS = 60_000;

export interface TokenOptions {
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
}

export interface TokenVerifierOptions extends TokenOptions {
  readonly now: () => number;
  /** How long a request waits for the issuer's keys. */
  readonly deadlineMs: number;
  readonly onError: (error: unknown) => void;
}

/** Undefined if there are no keys to check with; throws if the token is invalid. */
type ClaimsOf = (
  token: string,
  expected: JWTVerifyOptions,
  afterResponse: AfterResponse,
) => Promise<JWTPayload | undefined>;

export function createTokenVerifier(options: TokenVerifierOptions): TokenVerifier {
  const { now, onError } = options;
  const claimsOf = createClaimsOf(options);
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
      const claims = await claimsOf(token, expectationsOf(options, now()), afterResponse);
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
function createClaimsOf({ algorithms, secret, jwksUrl, ...options }: TokenVerifierOptions): ClaimsOf {
  if (algorithms.every((algorithm) => algorithm.startsWith('HS'))) {
    if (!secret) throw new Error('there is no secret to verify tokens with');
    const key = new TextEncoder().encode(secret);
    return async (token, expected) => (await jwtVerify(token, key, expected)).payload;
  }
  if (!jwksUrl) throw new Error('there is no URL of the keys to verify tokens with');
  const keys = createKeyCache({ ...options, url: jwksUrl });
  return (token, expected, afterResponse) => verifyByKeys(keys, token, expected, afterResponse);
}

function expectationsOf({ algorithms, issuer, audience }: TokenOptions, nowMs: number): JWTVerifyOptions {
  return {
    algorithms: [...algorithms],
    ...(issuer !== undefined && { issuer }),
    ...(audience !== undefined && { audience }),
    requiredClaims: ['exp'],
    currentDate: new Date(nowMs),
  };
}

function toUser(claims: JWTPayload, { userClaim, tierClaim, tenantClaim }: TokenOptions): VerifiedUser {
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

function namesIn(claims: JWTPayload): Claims {
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
function nameIn(claims: JWTPayload, claim: string | undefined): string | undefined {
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
