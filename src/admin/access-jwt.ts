// Cloudflare Access in front of the admin route: its signed assertion names the person.
import type { JWTPayload, JWTVerifyOptions } from 'jose';
import { createKeyCache, verifyByKeys } from '../identity/jwks.ts';
import type { AccessOptions, Actor } from './services.ts';

const DEADLINE_MS = 2_000;

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
  const { now, audience, admins, deadlineMs = DEADLINE_MS } = options;
  const issuer = options.teamDomain.replace(/(?<!\/)\/+$/, '');
  const keys = createKeyCache({ url: `${issuer}/cdn-cgi/access/certs`, now, deadlineMs });
  const expected = (): JWTVerifyOptions => ({
    issuer,
    audience,
    algorithms: ['RS256', 'ES256'],
    requiredClaims: ['exp'],
    currentDate: new Date(now()),
  });

  return async (jwt: string): Promise<AccessVerdict> => {
    try {
      const payload = await verifyByKeys(keys, jwt, expected());
      return payload ? toAccessVerdict(payload, admins) : { kind: 'unavailable' };
    } catch {
      return { kind: 'refused' };
    }
  };
}

function toAccessVerdict({ email, common_name }: JWTPayload, admins: readonly string[]): AccessVerdict {
  const name = [email, common_name].find((claim) => typeof claim === 'string' && claim !== '');
  if (typeof name !== 'string') return { kind: 'refused' };
  const isAdmin = admins.some((admin) => admin.toLowerCase() === name.toLowerCase());
  return { kind: 'actor', actor: { name, role: isAdmin ? 'admin' : 'read' } };
}
