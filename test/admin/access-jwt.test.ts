// Cloudflare Access: which assertions it accepts, and where its keys come from.
import { exportSPKI, generateKeyPair, SignJWT, UnsecuredJWT } from 'jose';
import { expect, test } from 'vitest';
import { createAccessVerifier } from '../../src/admin/auth.ts';
import { AUDIENCE, type Certs, NOW, toJwk, useAccess } from './access-jwt-harness.ts';

const { access, assert, goodClaims } = useAccess();

const createVerifier = (admins: string[] = []) =>
  createAccessVerifier({
    teamDomain: access.certs.url,
    audience: AUDIENCE,
    admins,
    now: () => access.nowMs,
    // Only a server that hangs takes this long, however busy the machine is.
    deadlineMs: 2_000,
  });

test('a person whom Access lets in may read, and is named by e-mail address', async () => {
  expect(await createVerifier()(await assert())).toEqual({
    kind: 'actor',
    actor: { name: 'alice@example.com', role: 'read' },
  });
});

test('a listed admin may change things, and the case of the address does not matter', async () => {
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

test('keys on an elliptic curve work too', async () => {
  const jwt = await assert({ pair: access.elliptic, alg: 'ES256', kid: 'ec-1' });
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

test('an assertion signed with the public key used as a secret is refused', async () => {
  const secret = new TextEncoder().encode(await exportSPKI(access.rsa.publicKey));
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
  access.nowMs += 30_000;
  await verify(await assert());
  expect(access.certs.requests).toBe(1);
  access.nowMs += 570_000;
  await verify(await assert({ claims: { exp: access.nowMs / 1000 + 60 } }));
  expect(access.certs.requests).toBe(2);
});

test('an unknown key is looked for at most once a minute', async () => {
  const verify = createVerifier();
  await verify(await assert());
  const next = await generateKeyPair('RS256', { extractable: true });
  const jwt = await assert({ pair: next, kid: 'rsa-2', claims: { exp: NOW / 1000 + 3600 } });
  access.nowMs += 59_999;
  expect(await verify(jwt)).toEqual({ kind: 'refused' });
  expect(access.certs.requests).toBe(1);

  access.nowMs += 1;
  expect(await verify(jwt)).toEqual({ kind: 'refused' });
  expect(await verify(jwt)).toEqual({ kind: 'refused' });
  expect(access.certs.requests).toBe(2);

  access.certs.keys.push(await toJwk(next, 'rsa-2', 'RS256'));
  access.nowMs += 60_000;
  expect(await verify(jwt)).toMatchObject({ kind: 'actor' });
  expect(access.certs.requests).toBe(3);
});

test.each<[string, Certs['mode']]>([
  ['answers with an error', 'error'],
  ['hangs', 'hang'],
  ['answers with something else', 'garbage'],
  ['sends elsewhere', 'redirect'],
])('no assertion can be verified while the key server %s', async (_, mode) => {
  access.certs.mode = mode;
  const verify = createVerifier();
  expect(await verify(await assert())).toEqual({ kind: 'unavailable' });
  // The verifier leaves the server alone for a while.
  expect(await verify(await assert())).toEqual({ kind: 'unavailable' });
  expect(access.certs.requests).toBe(1);
  access.certs.mode = 'good';
  access.nowMs += 5_000;
  expect(await verify(await assert())).toMatchObject({ kind: 'actor' });
});

test('known keys stay valid for a day while they cannot be fetched again', async () => {
  const verify = createVerifier();
  await verify(await assert());
  access.certs.mode = 'hang';
  access.nowMs += 23 * 3_600_000;
  const jwt = await assert({ claims: { exp: access.nowMs / 1000 + 86_400 } });
  expect(await verify(jwt)).toMatchObject({ kind: 'actor' });
  access.nowMs += 3_600_000;
  expect(await verify(jwt)).toEqual({ kind: 'unavailable' });
});

test('requests that come at the same time are all verified', async () => {
  const verify = createVerifier();
  const jwt = await assert();
  const verdicts = await Promise.all(Array.from({ length: 5 }, () => verify(jwt)));
  expect(verdicts.map(({ kind }) => kind)).toEqual(Array(5).fill('actor'));
});
