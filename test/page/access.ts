// Cloudflare Access in front of the page: it signs who a person is, into a header of every request.
import { generateKeyPair, SignJWT } from 'jose';
import { AUDIENCE, startCerts, toJwk } from '../admin/access-jwt-harness.ts';

export const ADMIN = 'alice@example.com';

export interface AccessTest extends AsyncDisposable {
  /** The value of `ADMIN_ACCESS` for the Worker. */
  readonly variable: string;
  /** The headers that Access adds to the requests of a person. */
  headersOf(email: string): Promise<Record<string, string>>;
}

export async function startAccess(): Promise<AccessTest> {
  const certs = await startCerts();
  const pair = await generateKeyPair('RS256', { extractable: true });
  certs.keys = [await toJwk(pair, 'rsa-1', 'RS256')];
  return {
    variable: JSON.stringify({ teamDomain: certs.url, audience: AUDIENCE, admins: [ADMIN] }),
    async headersOf(email) {
      const assertion = await new SignJWT({ email })
        .setProtectedHeader({ alg: 'RS256', kid: 'rsa-1' })
        .setIssuer(certs.url)
        .setAudience(AUDIENCE)
        .setExpirationTime('1h')
        .sign(pair.privateKey);
      return { 'Cf-Access-Jwt-Assertion': assertion };
    },
    [Symbol.asyncDispose]: () => certs.stop(),
  };
}
