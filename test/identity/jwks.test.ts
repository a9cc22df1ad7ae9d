// Where keys come from: they are fetched seldom, kept as values, and the last ones stay while they cannot be fetched.
import { SignJWT } from 'jose';
import { expect, test } from 'vitest';
import { goodClaims, type KeyServer, NOW, newPair, sign, toJwk, useIssuer } from './issuer.ts';

const MINUTE_MS = 60_000;
const { issuer, token, openIsolate } = useIssuer();
const lasting = { exp: NOW / 1000 + 100 * 3600 };
/** Every token is different. */
const another = (claims: object = {}) => token({ ...lasting, jti: crypto.randomUUID(), ...claims });

test('keys are fetched once, and again after ten minutes, after the response of a request', async () => {
  const isolate = openIsolate();
  expect(await isolate.userOf(await another())).toBe('alice');
  issuer.nowMs += 10 * MINUTE_MS - 1;
  expect(await isolate.userOf(await another())).toBe('alice');
  expect(issuer.server.requests).toEqual(['/keys']);

  issuer.nowMs += 1;
  issuer.server.delayMs = 50;
  const tokens = await Promise.all(Array.from({ length: 5 }, () => another()));
  expect(await Promise.all(tokens.map(isolate.userOf))).toEqual(Array(5).fill('alice'));
  await isolate.settle();
  expect(issuer.server.requests).toHaveLength(2);
});

test('keys that were not used for twenty minutes are not trusted before they are renewed', async () => {
  const isolate = openIsolate();
  await isolate.userOf(await another());
  issuer.server.keys = [];
  issuer.nowMs += 20 * MINUTE_MS;
  expect(await isolate.userOf(await another())).toBe('nobody');
});

test('a new key is looked for at most once a minute, no matter how many keys tokens make up', async () => {
  const isolate = openIsolate();
  await isolate.userOf(await another());
  const next = await newPair();
  const byNext = await token(lasting, next, 'rsa-2');
  issuer.nowMs += MINUTE_MS - 1;
  expect(await isolate.userOf(byNext)).toBe('nobody');
  expect(issuer.server.requests).toHaveLength(1);

  issuer.nowMs += 1;
  for (let i = 0; i < 20; i += 1) await isolate.userOf(await token(lasting, next, `made-up-${i}`));
  expect(issuer.server.requests).toHaveLength(2);

  issuer.server.keys.push(await toJwk(next, 'rsa-2', 'RS256'));
  issuer.nowMs += MINUTE_MS;
  expect(await isolate.userOf(byNext)).toBe('alice');
  expect(issuer.server.requests).toHaveLength(3);
  expect(isolate.errors).toEqual([]);
});

test('a token that came before its key was known is valid as soon as the key is known', async () => {
  const isolate = openIsolate();
  await isolate.userOf(await another());
  const next = await newPair();
  issuer.server.keys.push(await toJwk(next, 'rsa-2', 'RS256'));
  const early = await token(lasting, next, 'rsa-2');
  issuer.nowMs += MINUTE_MS - 1;
  expect(await isolate.userOf(early)).toBe('nobody');
  issuer.nowMs += 1;
  expect(await isolate.userOf(early)).toBe('alice');
});

/** An isolate that knows the first keys, a minute later. Since then there is a new key, and this token is signed by it. */
async function openBeforeNewKey(options?: Parameters<typeof openIsolate>[0]) {
  const isolate = openIsolate(options);
  await isolate.userOf(await another());
  const next = await newPair();
  issuer.server.keys.push(await toJwk(next, 'rsa-2', 'RS256'));
  issuer.nowMs += MINUTE_MS;
  return { isolate, byNext: await token(lasting, next, 'rsa-2') };
}

test.each<KeyServer['mode']>(['hang', 'error'])(
  'a token by a new key that cannot be fetched is not called invalid, and is valid soon after: %s',
  async (mode) => {
    const { isolate, byNext } = await openBeforeNewKey({ deadlineMs: 100 });
    issuer.server.mode = mode;
    expect(await isolate.verify(byNext)).toEqual({ kind: 'unavailable' });
    issuer.nowMs += 4_999;
    expect(await isolate.verify(byNext)).toEqual({ kind: 'unavailable' });
    expect(issuer.server.requests).toHaveLength(2);

    issuer.server.mode = 'good';
    issuer.nowMs += 1;
    expect(await isolate.userOf(byNext)).toBe('alice');
  },
);

test('a token by a new key is not called invalid while another request fetches the key', async () => {
  const { isolate, byNext } = await openBeforeNewKey({ deadlineMs: 60_000 });
  const { promise, resolve: release } = Promise.withResolvers<void>();
  issuer.server.released = promise;
  const madeUp = isolate.verify(await token(lasting, issuer.stranger, 'made-up'));
  // By now the other request fetches the keys.
  await expect.poll(() => issuer.server.requests).toHaveLength(2);
  expect(await isolate.verify(byNext)).toEqual({ kind: 'unavailable' });
  release();
  expect(await madeUp).toEqual({ kind: 'absent' });
  expect(await isolate.userOf(byNext)).toBe('alice');
  expect(issuer.server.requests).toHaveLength(2);
});

test.each<[string, KeyServer['mode']]>([
  ['answers with an error', 'error'],
  ['hangs', 'hang'],
  ['answers with something else', 'garbage'],
  ['sends elsewhere', 'redirect'],
])(
  'while the key server %s, tokens name no user, and the server is not asked for a while',
  async (_, mode) => {
    issuer.server.mode = mode;
    const isolate = openIsolate();
    const jwt = await another();
    expect(await isolate.userOf(jwt)).toBe('nobody');
    expect(await isolate.userOf(jwt)).toBe('nobody');
    expect(issuer.server.requests).toEqual(['/keys']);
    expect(isolate.errors).toHaveLength(1);

    issuer.server.mode = 'good';
    issuer.nowMs += 5_000;
    expect(await isolate.userOf(jwt)).toBe('alice');
  },
);

test('keys that come too late for a request are there for the next', async () => {
  issuer.server.delayMs = 120;
  const isolate = openIsolate({ deadlineMs: 40 });
  const jwt = await another();
  expect(await isolate.userOf(jwt)).toBe('nobody');
  expect(isolate.errors).toMatchObject([{ name: 'TimeoutError' }]);
  await isolate.settle();
  expect(await isolate.userOf(jwt)).toBe('alice');
  expect(issuer.server.requests).toHaveLength(1);
});

test.each<KeyServer['mode']>(['hang', 'error'])(
  'known keys stay valid for a day while the key server fails: %s',
  async (mode) => {
    const isolate = openIsolate();
    await isolate.userOf(await another());
    issuer.server.mode = mode;
    issuer.nowMs += 23 * 3_600_000;
    expect(await isolate.userOf(await another())).toBe('alice');
    expect(isolate.errors).toHaveLength(1);
    issuer.nowMs += 3_600_000;
    expect(await isolate.userOf(await another())).toBe('nobody');
  },
);

test('requests that come at the same time to an isolate without keys are all verified', async () => {
  const isolate = openIsolate();
  const tokens = await Promise.all(Array.from({ length: 5 }, () => another()));
  expect(await Promise.all(tokens.map(isolate.userOf))).toEqual(Array(5).fill('alice'));
});

test('a token that names no key may be signed with any key that fits', async () => {
  const next = await newPair();
  issuer.server.keys.push(await toJwk(next, 'rsa-2', 'RS256'));
  const isolate = openIsolate();
  const by = (pair = next) => sign(pair, { alg: 'RS256' }, goodClaims);
  expect(await isolate.userOf(await by(issuer.rsa))).toBe('alice');
  expect(await isolate.userOf(await by())).toBe('alice');
  expect(await isolate.userOf(await by(issuer.stranger))).toBe('nobody');
});

test('an unusable key does not affect the others', async () => {
  const encrypting = { ...(await toJwk(issuer.stranger, 'enc', 'RS256')), use: 'enc' };
  issuer.server.keys.unshift(encrypting, { kty: 'RSA', kid: 'broken', n: '!', e: 'AQAB' }, { kty: 'new' });
  const isolate = openIsolate();
  expect(await isolate.userOf(await another())).toBe('alice');
  expect(await isolate.userOf(await token({}, issuer.stranger, 'enc'))).toBe('nobody');
  expect(await isolate.userOf(await token({}, issuer.stranger, 'broken'))).toBe('nobody');
});

test('a secret among the published keys verifies nothing', async () => {
  issuer.server.keys.push({ kty: 'oct', kid: 'oct', k: 'c2VjcmV0', alg: 'HS256' });
  const isolate = openIsolate({ algorithms: ['RS256', 'HS256'] });
  const signer = new SignJWT(goodClaims).setProtectedHeader({ alg: 'HS256', kid: 'oct' });
  expect(await isolate.userOf(await signer.sign(Buffer.from('secret')))).toBe('nobody');
});
