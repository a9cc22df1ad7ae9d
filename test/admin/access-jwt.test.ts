// Cloudflare Access: real assertions, made with real keys, and a real server for the keys.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { OpenAPIHono } from '@hono/zod-openapi';
import {
  exportJWK,
  exportSPKI,
  generateKeyPair,
  type JWK,
  type JWTPayload,
  SignJWT,
  UnsecuredJWT,
} from 'jose';
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createAccessVerifier } from '../../src/admin/access-jwt.ts';
import { createAuth } from '../../src/admin/auth.ts';
import type { AdminEnv } from '../../src/admin/services.ts';
import { createDatabase } from '../../src/rules/database.ts';
import { TOKENS } from './harness.ts';

const AUDIENCE = 'a'.repeat(64);
const NOW = Date.UTC(2030, 0, 1);
type KeyPair = Awaited<ReturnType<typeof generateKeyPair>>;

let rsa: KeyPair;
let elliptic: KeyPair;
let certs: Certs;
let nowMs: number;

beforeAll(async () => {
  rsa = await generateKeyPair('RS256', { extractable: true });
  elliptic = await generateKeyPair('ES256', { extractable: true });
});
beforeEach(async () => {
  nowMs = NOW;
  certs = await startCerts();
  certs.keys = [await toJwk(rsa, 'rsa-1', 'RS256'), await toJwk(elliptic, 'ec-1', 'ES256')];
});
afterEach(() => certs.stop());

const createVerifier = (admins: string[] = []) =>
  createAccessVerifier({
    teamDomain: certs.url,
    audience: AUDIENCE,
    admins,
    now: () => nowMs,
    deadlineMs: 100,
  });

interface Assertion {
  readonly pair?: KeyPair;
  readonly alg?: string;
  readonly kid?: string;
  readonly claims?: Record<string, unknown>;
}

const assert = ({ pair = rsa, alg = 'RS256', kid = 'rsa-1', claims }: Assertion = {}) =>
  new SignJWT({ ...goodClaims(), ...claims }).setProtectedHeader({ alg, kid }).sign(pair.privateKey);

const goodClaims = (): JWTPayload => ({
  iss: certs.url,
  aud: [AUDIENCE],
  exp: NOW / 1000 + 60,
  email: 'alice@example.com',
});

test('whom Access lets in may read, under the e-mail address', async () => {
  expect(await createVerifier()(await assert())).toEqual({
    kind: 'actor',
    actor: { name: 'alice@example.com', role: 'read' },
  });
});

test('who is listed may change things, however the address is written', async () => {
  const verify = createVerifier(['Alice@Example.com']);
  expect(await verify(await assert())).toMatchObject({ actor: { role: 'admin' } });
});

test('a service token is known by its common name', async () => {
  const jwt = await assert({ claims: { email: '', common_name: 'deployer.access' } });
  expect(await createVerifier(['deployer.access'])(jwt)).toEqual({
    kind: 'actor',
    actor: { name: 'deployer.access', role: 'admin' },
  });
});

test('keys on an elliptic curve serve too', async () => {
  const jwt = await assert({ pair: elliptic, alg: 'ES256', kid: 'ec-1' });
  expect(await createVerifier()(jwt)).toMatchObject({ kind: 'actor' });
});

test.each<[string, Record<string, unknown>]>([
  ['for another audience', { aud: ['b'.repeat(64)] }],
  ['without an audience', { aud: undefined }],
  ['by another issuer', { iss: 'https://other.cloudflareaccess.com' }],
  ['that has expired', { exp: NOW / 1000 - 1 }],
  ['that expires now', { exp: NOW / 1000 }],
  ['that never expires', { exp: undefined }],
  ['that is not yet valid', { nbf: NOW / 1000 + 60 }],
  ['of nobody', { email: undefined }],
])('an assertion %s is refused', async (_, claims) => {
  expect(await createVerifier()(await assert({ claims }))).toEqual({ kind: 'refused' });
});

test('an assertion without a signature is refused', async () => {
  expect(await createVerifier()(new UnsecuredJWT(goodClaims()).encode())).toEqual({ kind: 'refused' });
});

test('an assertion signed with the public key as if it were a secret is refused', async () => {
  const secret = new TextEncoder().encode(await exportSPKI(rsa.publicKey));
  const jwt = await new SignJWT(goodClaims()).setProtectedHeader({ alg: 'HS256', kid: 'rsa-1' }).sign(secret);
  expect(await createVerifier()(jwt)).toEqual({ kind: 'refused' });
});

test('an assertion that was tampered with is refused', async () => {
  const [header, , signature] = (await assert()).split('.');
  const claims = Buffer.from(JSON.stringify({ ...goodClaims(), email: 'eve@example.com' })).toString(
    'base64url',
  );
  expect(await createVerifier()(`${header}.${claims}.${signature}`)).toEqual({ kind: 'refused' });
  expect(await createVerifier()('nonsense')).toEqual({ kind: 'refused' });
});

test('an assertion by a stranger who names a known key is refused', async () => {
  const stranger = await generateKeyPair('RS256');
  expect(await createVerifier()(await assert({ pair: stranger }))).toEqual({ kind: 'refused' });
});

test('keys are fetched once, and again after ten minutes', async () => {
  const verify = createVerifier();
  await verify(await assert());
  nowMs += 30_000;
  await verify(await assert());
  expect(certs.requests).toBe(1);
  nowMs += 570_000;
  await verify(await assert({ claims: { exp: nowMs / 1000 + 60 } }));
  expect(certs.requests).toBe(2);
});

test('a key that is not known yet is looked for at most once a minute', async () => {
  const verify = createVerifier();
  await verify(await assert());
  const next = await generateKeyPair('RS256', { extractable: true });
  const jwt = await assert({ pair: next, kid: 'rsa-2', claims: { exp: NOW / 1000 + 3600 } });
  nowMs += 59_999;
  expect(await verify(jwt)).toEqual({ kind: 'refused' });
  expect(certs.requests).toBe(1);

  nowMs += 1;
  expect(await verify(jwt)).toEqual({ kind: 'refused' });
  expect(await verify(jwt)).toEqual({ kind: 'refused' });
  expect(certs.requests).toBe(2);

  certs.keys.push(await toJwk(next, 'rsa-2', 'RS256'));
  nowMs += 60_000;
  expect(await verify(jwt)).toMatchObject({ kind: 'actor' });
  expect(certs.requests).toBe(3);
});

test.each<[string, Certs['mode']]>([
  ['answers with an error', 'error'],
  ['hangs', 'hang'],
  ['answers with something else', 'garbage'],
  ['sends elsewhere', 'redirect'],
])('nobody can be verified while the server of the keys %s', async (_, mode) => {
  certs.mode = mode;
  const verify = createVerifier();
  expect(await verify(await assert())).toEqual({ kind: 'unavailable' });
  // It is left alone for a while.
  expect(await verify(await assert())).toEqual({ kind: 'unavailable' });
  expect(certs.requests).toBe(1);
  certs.mode = 'good';
  nowMs += 5_000;
  expect(await verify(await assert())).toMatchObject({ kind: 'actor' });
});

test('known keys go on serving for a day while they cannot be fetched', async () => {
  const verify = createVerifier();
  await verify(await assert());
  certs.mode = 'hang';
  nowMs += 23 * 3_600_000;
  const jwt = await assert({ claims: { exp: nowMs / 1000 + 86_400 } });
  expect(await verify(jwt)).toMatchObject({ kind: 'actor' });
  nowMs += 3_600_000;
  expect(await verify(jwt)).toEqual({ kind: 'unavailable' });
});

test('requests that come at the same time are all verified', async () => {
  const verify = createVerifier();
  const jwt = await assert();
  const verdicts = await Promise.all(Array.from({ length: 5 }, () => verify(jwt)));
  expect(verdicts.map(({ kind }) => kind)).toEqual(Array(5).fill('actor'));
});

describe('in front of the admin route', () => {
  const createGate = (admins: string[] = []) => {
    const app = new OpenAPIHono<AdminEnv>().basePath('/_weir/admin');
    app.use(
      createAuth({
        database: createDatabase({ url: 'postgres://nobody:none@localhost/none' }),
        publish: () => Promise.reject(new Error('not here')),
        regions: [],
        auth: {
          tokens: Object.values(TOKENS),
          access: { teamDomain: `${certs.url}/`, audience: AUDIENCE, admins },
        },
        deadlineMs: 1_000,
        now: () => nowMs,
        log: { error: () => {} },
      }),
    );
    app.all('/*', (c) => c.json(c.get('actor')));
    return async (jwt: string | undefined, { method = 'GET', ...headers }: Record<string, string> = {}) =>
      app.fetch(
        new Request('https://weir.test/_weir/admin/rules', {
          method,
          headers: { ...(jwt && { 'Cf-Access-Jwt-Assertion': jwt }), ...headers },
        }),
      );
  };

  test('an assertion is as good as a token', async () => {
    const response = await createGate(['alice@example.com'])(await assert(), { method: 'DELETE' });
    expect(await response.json()).toEqual({ name: 'alice@example.com', role: 'admin' });
  });

  test('whoever is not listed may only read', async () => {
    const call = createGate();
    expect((await call(await assert())).status).toBe(200);
    expect((await call(await assert(), { method: 'DELETE' })).status).toBe(403);
  });

  test('a wrong assertion is a failed attempt', async () => {
    const call = createGate();
    for (let i = 0; i < 10; i += 1) expect((await call('nonsense')).status).toBe(401);
    expect((await call(await assert())).status).toBe(429);
  });

  test('a token comes before it', async () => {
    const call = createGate();
    const response = await call(await assert(), { Authorization: `Bearer ${TOKENS.admin.token}` });
    expect(await response.json()).toMatchObject({ name: TOKENS.admin.name });
    expect((await call(await assert(), { Authorization: 'Bearer wrong' })).status).toBe(401);
  });

  test('while the keys cannot be fetched, no attempt is counted and tokens work', async () => {
    certs.mode = 'error';
    const call = createGate();
    for (let i = 0; i < 11; i += 1) {
      const response = await call(await assert());
      expect(response.status).toBe(503);
      expect(await response.json()).toMatchObject({ code: 'access-unavailable' });
    }
    expect((await call(undefined, { Authorization: `Bearer ${TOKENS.admin.token}` })).status).toBe(200);
  });

  test('another site cannot make a browser change anything', async () => {
    const call = createGate(['alice@example.com']);
    const from = async (Origin: string, method = 'POST') =>
      (await call(await assert(), { method, Origin })).status;
    expect(await from('https://evil.test')).toBe(403);
    expect(await from('null')).toBe(403);
    expect(await from('https://weir.test')).toBe(200);
    expect(await from('https://evil.test', 'GET')).toBe(200);
  });
});

interface Certs {
  readonly url: string;
  keys: JWK[];
  mode: 'good' | 'error' | 'hang' | 'garbage' | 'redirect';
  requests: number;
  stop(): Promise<void>;
}

async function startCerts(): Promise<Certs> {
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
  return { url: `http://127.0.0.1:${port}`, keys: [], mode: 'good', requests: 0, stop };
}

const toJwk = async ({ publicKey }: KeyPair, kid: string, alg: string): Promise<JWK> => ({
  ...(await exportJWK(publicKey)),
  kid,
  alg,
  use: 'sig',
});
