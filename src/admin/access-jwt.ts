// Cloudflare Access in front of the admin route: its signed assertion says who is asking. The keys are kept as
// plain values for a while; jose's own fetching would share promises between requests, which Workers forbid.
import {
  createLocalJWKSet,
  type JSONWebKeySet,
  type JWTPayload,
  type JWTVerifyOptions,
  errors as joseErrors,
  jwtVerify,
} from 'jose';
import * as z from 'zod';
import type { AccessOptions, Actor } from './services.ts';

const DEADLINE_MS = 2_000;
/** Access changes its keys every few weeks, and announces the next one long before. */
const FRESH_MS = 10 * 60_000;
/** While the keys cannot be fetched, the last ones known serve for so long. */
const USABLE_MS = 24 * 3_600_000;
/** Between two fetches that unknown keys or failures ask for. */
const PAUSE_MS = 60_000;
const PAUSE_AFTER_FAILURE_MS = 5_000;

export type AccessVerdict =
  | { readonly kind: 'actor'; readonly actor: Actor }
  | { readonly kind: 'refused' }
  /** The keys are not known and cannot be fetched. */
  | { readonly kind: 'unavailable' };

export interface AccessVerifierOptions extends AccessOptions {
  readonly now: () => number;
  readonly deadlineMs?: number;
}

export function createAccessVerifier(options: AccessVerifierOptions) {
  const { now, audience, admins } = options;
  const issuer = options.teamDomain.replace(/\/+$/, '');
  const keys = createKeys({ url: `${issuer}/cdn-cgi/access/certs`, now, deadlineMs: options.deadlineMs });

  const payloadOf = async (jwt: string, jwks: JSONWebKeySet): Promise<JWTPayload> => {
    const expected: JWTVerifyOptions = {
      issuer,
      audience,
      algorithms: ['RS256', 'ES256'],
      requiredClaims: ['exp'],
      currentDate: new Date(now()),
    };
    // A new set for each: jose keeps promises of imported keys in it.
    return (await jwtVerify(jwt, createLocalJWKSet(jwks), expected)).payload;
  };

  return async (jwt: string): Promise<AccessVerdict> => {
    const known = await keys.current();
    if (!known) return { kind: 'unavailable' };
    try {
      return toVerdict(await payloadOf(jwt, known), admins);
    } catch (error) {
      if (!(error instanceof joseErrors.JWKSNoMatchingKey)) return { kind: 'refused' };
    }
    try {
      const newer = await keys.refetched();
      return newer ? toVerdict(await payloadOf(jwt, newer), admins) : { kind: 'refused' };
    } catch {
      return { kind: 'refused' };
    }
  };
}

function toVerdict({ email, common_name }: JWTPayload, admins: readonly string[]): AccessVerdict {
  const name = [email, common_name].find((claim) => typeof claim === 'string' && claim !== '');
  if (typeof name !== 'string') return { kind: 'refused' };
  const isAdmin = admins.some((admin) => admin.toLowerCase() === name.toLowerCase());
  return { kind: 'actor', actor: { name, role: isAdmin ? 'admin' : 'read' } };
}

interface KeyOptions {
  readonly url: string;
  readonly now: () => number;
  readonly deadlineMs?: number | undefined;
}

function createKeys({ url, now, deadlineMs = DEADLINE_MS }: KeyOptions) {
  let known: { readonly jwks: JSONWebKeySet; readonly fetchedAtMs: number } | undefined;
  let triedAtMs = Number.NEGATIVE_INFINITY;
  let failedAtMs = Number.NEGATIVE_INFINITY;

  const usable = () => (known && now() - known.fetchedAtMs < USABLE_MS ? known.jwks : undefined);
  const fetchKeys = async (): Promise<JSONWebKeySet | undefined> => {
    triedAtMs = now();
    const jwks = await download(url, deadlineMs);
    if (jwks) known = { jwks, fetchedAtMs: now() };
    else failedAtMs = now();
    return jwks;
  };

  return {
    async current(): Promise<JSONWebKeySet | undefined> {
      const isFresh = known && now() - known.fetchedAtMs < FRESH_MS;
      if (isFresh || now() - failedAtMs < PAUSE_AFTER_FAILURE_MS) return usable();
      return (await fetchKeys()) ?? usable();
    },

    /** For a key that is not among those known; undefined if it is too early to ask again. */
    async refetched(): Promise<JSONWebKeySet | undefined> {
      return now() - triedAtMs < PAUSE_MS ? undefined : fetchKeys();
    },
  };
}

const keySet = z.object({ keys: z.array(z.looseObject({ kty: z.string() })) });

async function download(url: string, deadlineMs: number): Promise<JSONWebKeySet | undefined> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(deadlineMs), redirect: 'manual' });
    return response.ok ? keySet.parse(await response.json()) : undefined;
  } catch {
    return undefined;
  }
}
