// Which user a token names, and how seldom its signature is checked.
import { inspect } from 'node:util';
import { SignJWT } from 'jose';
import { expect, test, vi } from 'vitest';
import type { VerifiedUser } from '../../src/core/ports/callers.ts';
import { createTokenVerifier } from '../../src/identity/jwt.ts';
import { goodClaims, IN_A_MINUTE, NOW, newPair, sign, toJwk, useIssuer } from './issuer.ts';

const { issuer, token, openIsolate } = useIssuer();
const MINUTE_MS = 60_000;
const SECRET = 'a secret of thirty-two characters';

/** How often a signature is checked meanwhile. */
async function checksDuring(work: () => Promise<unknown>): Promise<number> {
  const verify = vi.spyOn(crypto.subtle, 'verify');
  try {
    await work();
    return verify.mock.calls.length;
  } finally {
    verify.mockRestore();
  }
}

const verified = (record: VerifiedUser) => ({ kind: 'found', record });

test('a good token names its user, and when it expires', async () => {
  expect(await openIsolate().verify(await token())).toEqual(
    verified({ userId: 'alice', claims: { sub: 'alice' }, expiresAtMs: IN_A_MINUTE * 1000 }),
  );
});

test('tier and tenant are taken only from the configured claims', async () => {
  const others = { plan: 'gold', org: 'acme', 'https://a.test/id': 'bob' };
  const jwt = await token(others);
  const kept = { claims: { sub: 'alice', ...others }, expiresAtMs: IN_A_MINUTE * 1000 };
  expect(await openIsolate().verify(jwt)).toEqual(verified({ userId: 'alice', ...kept }));
  const claims = { userClaim: 'https://a.test/id', tierClaim: 'plan', tenantClaim: 'org' };
  expect(await openIsolate(claims).verify(jwt)).toEqual(
    verified({ userId: 'bob', tier: 'gold', tenantId: 'acme', ...kept }),
  );
});

test('no claim gives a tier or a tenant if no claim is configured for them', async () => {
  const user = await openIsolate().verify(await token({ undefined: 'gold' }));
  expect(user).toMatchObject({ kind: 'found', record: { tier: undefined, tenantId: undefined } });
});

test.each<unknown>([{}, [], ['gold'], '', true, null, 'x'.repeat(257), ' gold', 'a\nb'])(
  'a tier or tenant of %j is ignored, and the user is still known',
  async (claim) => {
    const isolate = openIsolate({ tierClaim: 'plan', tenantClaim: 'org' });
    expect(await isolate.verify(await token({ plan: claim, org: claim }))).toEqual(
      verified({ userId: 'alice', claims: { sub: 'alice' }, expiresAtMs: IN_A_MINUTE * 1000 }),
    );
  },
);

test('the id of a user or tenant may be a number', async () => {
  const isolate = openIsolate({ tenantClaim: 'org' });
  expect(await isolate.verify(await token({ sub: 42, org: 7 }))).toMatchObject({
    kind: 'found',
    record: { userId: '42', tenantId: '7' },
  });
});

test('issuer and audience are checked only if they are configured', async () => {
  const jwt = await token({ iss: undefined, aud: undefined });
  expect(await openIsolate({ issuer: undefined, audience: undefined }).userOf(jwt)).toBe('alice');
  expect(await openIsolate({ audience: undefined }).userOf(jwt)).toBe('nobody');
  expect(await openIsolate({ issuer: undefined }).userOf(jwt)).toBe('nobody');
});

test.each(['RS256', 'RS384', 'RS512', 'PS256', 'ES256', 'ES384', 'EdDSA'])(
  'tokens signed with %s are accepted',
  async (alg) => {
    const pair = await newPair(alg);
    issuer.server.keys = [await toJwk(pair, 'k', alg)];
    const jwt = await new SignJWT(goodClaims).setProtectedHeader({ alg, kid: 'k' }).sign(pair.privateKey);
    expect(await openIsolate({ algorithms: [alg] }).userOf(jwt)).toBe('alice');
    const others = alg === 'ES384' ? ['ES256'] : ['ES384'];
    expect(await openIsolate({ algorithms: others }).userOf(jwt)).toBe('nobody');
  },
);

test('one key may be used for two algorithms, if it names none', async () => {
  const { alg: _, ...key } = await toJwk(issuer.rsa, 'rsa-1', 'any');
  issuer.server.keys = [key];
  const isolate = openIsolate({ algorithms: ['RS256', 'PS256'] });
  const exported = await crypto.subtle.exportKey('pkcs8', issuer.rsa.privateKey);
  const algorithm = { name: 'RSA-PSS', hash: 'SHA-256' };
  const pss = await crypto.subtle.importKey('pkcs8', exported, algorithm, false, ['sign']);
  const jwt = await new SignJWT(goodClaims).setProtectedHeader({ alg: 'PS256', kid: 'rsa-1' }).sign(pss);
  expect(await isolate.userOf(await token())).toBe('alice');
  expect(await isolate.userOf(jwt)).toBe('alice');
  expect(await isolate.userOf(await token({ jti: '2' }))).toBe('alice');
});

test('a shared secret is used for its own algorithms, and nothing is fetched', async () => {
  const isolate = openIsolate({ algorithms: ['HS256'], secret: SECRET });
  const by = (alg: string, secret: string) =>
    new SignJWT(goodClaims).setProtectedHeader({ alg }).sign(Buffer.from(secret));
  expect(await isolate.userOf(await by('HS256', SECRET))).toBe('alice');
  expect(await isolate.userOf(await by('HS512', SECRET))).toBe('nobody');
  expect(await isolate.userOf(await by('HS256', `${SECRET} `))).toBe('nobody');
  expect(await isolate.userOf(await token())).toBe('nobody');
  expect(issuer.server.requests).toEqual([]);
});

test('a secret is not tried if public keys are configured', async () => {
  const jwt = await new SignJWT(goodClaims).setProtectedHeader({ alg: 'HS256' }).sign(Buffer.from(SECRET));
  for (const algorithms of [['RS256'], ['RS256', 'HS256']])
    expect(await openIsolate({ algorithms, secret: SECRET }).userOf(jwt)).toBe('nobody');
});

test('a verifier without a secret or a URL cannot be created', () => {
  const rest = { userClaim: 'sub', now: () => NOW, deadlineMs: 1, onError: () => {} };
  expect(() => createTokenVerifier({ ...rest, algorithms: ['HS256'] })).toThrow('no secret');
  expect(() => createTokenVerifier({ ...rest, algorithms: ['RS256'], secret: SECRET })).toThrow('no URL');
});

test('the signature of a token is checked once in five minutes', async () => {
  const isolate = openIsolate();
  const jwt = await token({ exp: NOW / 1000 + 3600 });
  const useIt = async () => expect(await isolate.userOf(jwt)).toBe('alice');
  expect(
    await checksDuring(async () => {
      for (let i = 0; i < 100; i += 1) await useIt();
      issuer.nowMs += 5 * MINUTE_MS - 1;
      await useIt();
    }),
  ).toBe(1);
  issuer.nowMs += 1;
  expect(await checksDuring(useIt)).toBe(1);
});

test('a good token expires at its own time, even if it is remembered for longer', async () => {
  const isolate = openIsolate();
  const jwt = await token();
  expect(await isolate.userOf(jwt)).toBe('alice');
  issuer.nowMs = IN_A_MINUTE * 1000 - 1;
  expect(await isolate.userOf(jwt)).toBe('alice');
  issuer.nowMs += 1;
  expect(await isolate.userOf(jwt)).toBe('nobody');
});

test('a bad token costs one check a minute', async () => {
  const isolate = openIsolate();
  const jwt = await token({}, issuer.stranger);
  const useIt = async () => expect(await isolate.userOf(jwt)).toBe('nobody');
  expect(
    await checksDuring(async () => {
      for (let i = 0; i < 100; i += 1) await useIt();
      issuer.nowMs += MINUTE_MS - 1;
      await useIt();
    }),
  ).toBe(1);
  issuer.nowMs += 1;
  expect(await checksDuring(useIt)).toBe(1);
});

test('a token that came too early is valid from its start', async () => {
  const isolate = openIsolate();
  const jwt = await token({ nbf: NOW / 1000 + 10 });
  expect(await isolate.userOf(jwt)).toBe('nobody');
  issuer.nowMs += 9_999;
  expect(await isolate.userOf(jwt)).toBe('nobody');
  issuer.nowMs += 1;
  expect(await isolate.userOf(jwt)).toBe('alice');
});

test('a flood of bad tokens does not cause new checks of good ones', async () => {
  const isolate = openIsolate();
  const good = await token();
  await isolate.userOf(good);
  const [header, claims] = good.split('.');
  for (let i = 0; i < 1_500; i += 1) await isolate.userOf(`${header}.${claims}.${i}`);
  expect(await checksDuring(() => isolate.userOf(good))).toBe(0);
});

test('a text that is too long or has not three parts is refused before anything is computed', async () => {
  const isolate = openIsolate();
  const long = await token({ padding: 'x'.repeat(8_000) });
  const digest = vi.spyOn(crypto.subtle, 'digest');
  for (const text of ['', '.', '..', 'a.b', 'a.b.', '.b.c', 'a..c', 'a.b.c.d', 'a.b.c.d.e', 'ä.b.c', long])
    expect(await isolate.userOf(text)).toBe('nobody');
  expect(digest).not.toHaveBeenCalled();
  digest.mockRestore();
  expect(issuer.server.requests).toEqual([]);
});

test('a reported error contains no token', async () => {
  issuer.server.keys = [{ kty: 'RSA', kid: 'rsa-1', n: '!', e: 'AQAB' }];
  const isolate = openIsolate();
  const jwt = await sign(issuer.rsa, { alg: 'RS256', kid: 'rsa-1' }, goodClaims);
  expect(await isolate.userOf(jwt)).toBe('nobody');
  issuer.server.mode = 'error';
  issuer.nowMs += 24 * 3_600_000;
  expect(await isolate.userOf(await token({ jti: '2' }))).toBe('nobody');
  expect(isolate.errors).toHaveLength(2);
  const reported = inspect(isolate.errors, { depth: 10 });
  for (const part of jwt.split('.')) expect(reported).not.toContain(part);
});
