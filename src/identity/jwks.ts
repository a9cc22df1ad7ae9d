// Fetches and caches the public keys of a token issuer. It keeps values, never promises: on Workers, a
// request that awaits a promise of another request hangs. So jose's own fetching is not used.
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
import type { AfterResponse } from '../core/ports/telemetry.ts';

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

export interface KeyCacheOptions {
  readonly url: string;
  readonly now: () => number;
  /** How long a request waits for keys. */
  readonly deadlineMs: number;
  readonly onError?: ((error: unknown) => void) | undefined;
}

export interface KeyCache {
  /** Undefined if none are known and none can be fetched. */
  current(afterResponse?: AfterResponse): Promise<JWTVerifyGetKey | undefined>;
  /** Fetches the keys again, for an unknown key id; undefined if it is not known whether there are new ones. */
  refetched(afterResponse?: AfterResponse): Promise<JWTVerifyGetKey | typeof UNCHANGED | undefined>;
}

/** The keys were fetched a moment ago, so an unknown key id is made up. */
const UNCHANGED = 'unchanged';

/**
 * The claims of a token, or undefined if there are no keys, or if its key may be a new one that could not be fetched.
 * Throws an error of jose if the token is invalid.
 */
export async function verifyByKeys(
  keys: KeyCache,
  token: string,
  expected: JWTVerifyOptions,
  afterResponse?: AfterResponse,
): Promise<JWTPayload | undefined> {
  const known = await keys.current(afterResponse);
  if (!known) return undefined;
  try {
    return await verifyBySet(known, token, expected);
  } catch (error) {
    if (!isUnknownKey(error)) throw error;
    const newer = await keys.refetched(afterResponse);
    if (newer === UNCHANGED) throw error;
    return newer && verifyBySet(newer, token, expected);
  }
}

export const isUnknownKey = (error: unknown) => error instanceof joseErrors.JWKSNoMatchingKey;

export function createKeyCache({ url, now, deadlineMs, onError }: KeyCacheOptions): KeyCache {
  let known: { readonly keys: JWTVerifyGetKey; readonly fetchedAtMs: number } | undefined;
  let triedAtMs = Number.NEGATIVE_INFINITY;
  let failedAtMs = Number.NEGATIVE_INFINITY;

  const ageMs = () => (known ? now() - known.fetchedAtMs : Number.POSITIVE_INFINITY);
  /** False while a fetch is under way, and after one has failed. */
  const isOfLastTry = () => known !== undefined && known.fetchedAtMs >= triedAtMs;
  const usable = () => (ageMs() < USABLE_MS ? known?.keys : undefined);
  const fail = (error: unknown) => {
    failedAtMs = now();
    onError?.(error);
  };

  const download = async (limitMs: number): Promise<JWTVerifyGetKey | undefined> => {
    try {
      const keys = createKeySet(await fetchJson(url, limitMs));
      known = { keys, fetchedAtMs: now() };
      return keys;
    } catch (error) {
      return void fail(error);
    }
  };

  /** Keys that come too late for this request are kept for the next ones. */
  const start = (afterResponse: AfterResponse) => {
    triedAtMs = now();
    const work = download(Math.max(LATE_MS, deadlineMs));
    afterResponse(work);
    return work;
  };

  const fetchKeys = (afterResponse?: AfterResponse): Promise<JWTVerifyGetKey | undefined> => {
    triedAtMs = now();
    if (!afterResponse) return download(deadlineMs);
    const onLate = () => fail(new DOMException(`no keys within ${deadlineMs} ms`, 'TimeoutError'));
    return inTime(start(afterResponse), deadlineMs, onLate);
  };

  return {
    async current(afterResponse) {
      if (ageMs() < FRESH_MS || now() - failedAtMs < PAUSE_AFTER_FAILURE_MS) return usable();
      if (!afterResponse || ageMs() >= SERVED_MS) return (await fetchKeys(afterResponse)) ?? usable();
      if (now() - triedAtMs >= PAUSE_AFTER_FAILURE_MS) start(afterResponse);
      return usable();
    },
    async refetched(afterResponse) {
      const pausedMs = now() - triedAtMs;
      if (pausedMs < PAUSE_MS && isOfLastTry()) return UNCHANGED;
      return pausedMs < PAUSE_AFTER_FAILURE_MS ? undefined : fetchKeys(afterResponse);
    },
  };
}

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

/** Waits at most this long. The work goes on after that. */
async function inTime<T>(work: Promise<T>, deadlineMs: number, onLate: () => void): Promise<T | undefined> {
  const late = Promise.withResolvers<undefined>();
  const timer = setTimeout(() => {
    onLate();
    late.resolve(undefined);
  }, deadlineMs);
  try {
    return await Promise.race([work, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
