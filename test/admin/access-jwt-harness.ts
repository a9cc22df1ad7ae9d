// Cloudflare Access for tests: real assertions, made with real keys, and a real server for the keys.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { exportJWK, generateKeyPair, type JWK, type JWTPayload, SignJWT } from 'jose';
import { afterEach, beforeAll, beforeEach } from 'vitest';

export const AUDIENCE = 'a'.repeat(64);
export const NOW = Date.UTC(2030, 0, 1);
type KeyPair = Awaited<ReturnType<typeof generateKeyPair>>;

interface Assertion {
  readonly pair?: KeyPair;
  readonly alg?: string;
  readonly kid?: string;
  readonly claims?: Record<string, unknown>;
}

interface Access {
  rsa: KeyPair;
  elliptic: KeyPair;
  /** Each test has its own. */
  certs: Certs;
  nowMs: number;
}

/** Call it once in a test file. */
export function useAccess() {
  const access = { nowMs: NOW } as Access;
  beforeAll(async () => {
    access.rsa = await generateKeyPair('RS256', { extractable: true });
    access.elliptic = await generateKeyPair('ES256', { extractable: true });
  });
  beforeEach(async () => {
    access.nowMs = NOW;
    access.certs = await startCerts();
    access.certs.keys = [
      await toJwk(access.rsa, 'rsa-1', 'RS256'),
      await toJwk(access.elliptic, 'ec-1', 'ES256'),
    ];
  });
  afterEach(() => access.certs.stop());

  const goodClaims = (): JWTPayload => ({
    iss: access.certs.url,
    aud: [AUDIENCE],
    exp: NOW / 1000 + 60,
    email: 'alice@example.com',
  });
  const assert = ({ pair = access.rsa, alg = 'RS256', kid = 'rsa-1', claims }: Assertion = {}) =>
    new SignJWT({ ...goodClaims(), ...claims }).setProtectedHeader({ alg, kid }).sign(pair.privateKey);
  return { access, assert, goodClaims };
}

export interface Certs {
  readonly url: string;
  keys: JWK[];
  mode: 'good' | 'error' | 'hang' | 'garbage' | 'redirect';
  requests: number;
  stop(): Promise<void>;
}

export async function startCerts(): Promise<Certs> {
  const certs: Omit<Certs, 'url' | 'stop'> = { keys: [], mode: 'good', requests: 0 };
  const server = createServer((request, response) => {
    certs.requests += 1;
    if (request.url !== '/cdn-cgi/access/certs') return response.writeHead(404).end();
    if (certs.mode === 'hang') return undefined;
    if (certs.mode === 'error') return response.writeHead(500).end();
    if (certs.mode === 'garbage') return response.end('{"keys": "none"}');
    if (certs.mode === 'redirect') return response.writeHead(302, { location: '/elsewhere' }).end();
    return response.end(JSON.stringify({ keys: certs.keys, public_cert: {} }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const stop = () =>
    new Promise<void>((resolve) => {
      server.closeAllConnections();
      server.close(() => resolve());
    });
  const { port } = server.address() as AddressInfo;
  return Object.assign(certs, { url: `http://127.0.0.1:${port}`, stop });
}

export const toJwk = async ({ publicKey }: KeyPair, kid: string, alg: string): Promise<JWK> => ({
  ...(await exportJWK(publicKey)),
  kid,
  alg,
  use: 'sig',
});
