// Forged tokens. Each is made with what an attacker has: the public keys, a valid token of another time, the attacker's
// own keys and servers; or an issuer could sign it by mistake.
import { createHmac } from 'node:crypto';
import { exportJWK, exportSPKI } from 'jose';
import { AUDIENCE, goodClaims, IN_A_MINUTE, ISSUER, type Issuer, NOW, sign, toJwk } from './issuer.ts';

export type Trick = readonly [name: string, make: (issuer: Issuer) => Promise<string>];

const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
const HEADER = { alg: 'RS256', kid: 'rsa-1' };

const good = ({ rsa }: Issuer) => sign(rsa, HEADER, goodClaims);
const withClaims = (claims: object) => (issuer: Issuer) =>
  sign(issuer.rsa, HEADER, { ...goodClaims, ...claims });
const withHeader = (header: object) => (issuer: Issuer) =>
  sign(issuer.rsa, { ...HEADER, ...header }, goodClaims);
const byStranger = (header: object) => (issuer: Issuer) =>
  sign(issuer.stranger, { ...HEADER, ...header }, goodClaims);
const unsigned =
  (alg: unknown, signature = '') =>
  async () =>
    `${encode({ ...HEADER, alg })}.${encode(goodClaims)}.${signature}`;
const editedParts = (edit: (parts: string[]) => string[]) => async (issuer: Issuer) =>
  edit((await good(issuer)).split('.')).join('.');
const edited = (edit: (token: string) => string) => async (issuer: Issuer) => edit(await good(issuer));

/** HS256, with a public text as the secret. */
const bySecret = (secretOf: (issuer: Issuer) => Promise<string | Buffer>) => async (issuer: Issuer) => {
  const text = `${encode({ ...HEADER, alg: 'HS256' })}.${encode(goodClaims)}`;
  return `${text}.${createHmac('sha256', await secretOf(issuer))
    .update(text)
    .digest('base64url')}`;
};
const spkiOf = ({ rsa }: Issuer) => exportSPKI(rsa.publicKey);
const derOf = async ({ rsa }: Issuer) => Buffer.from(await crypto.subtle.exportKey('spki', rsa.publicKey));

/** A URL of the attacker, watched by the test, that serves the key which has signed the token. */
const pointingElsewhere = (name: string) => (issuer: Issuer) =>
  byStranger({ [name]: `${issuer.server.url}/attacker`, kid: 'mine' })(issuer);

export const NOBODYS: readonly Trick[] = [
  ['alg none', unsigned('none')],
  ['alg none with some signature', unsigned('none', 'AAAA')],
  ['alg nOnE', unsigned('nOnE', 'AAAA')],
  ['no alg', unsigned(undefined, 'AAAA')],
  ['alg as a list', unsigned(['RS256'], 'AAAA')],
  ['alg that is empty', unsigned('', 'AAAA')],
  ['an inherited name as alg', unsigned('constructor', 'AAAA')],
  ['HS256 with the public key as PEM', bySecret(spkiOf)],
  ['HS256 with the public key as PEM, trimmed', bySecret(async (issuer) => (await spkiOf(issuer)).trim())],
  ['HS256 with the public key as DER', bySecret(derOf)],
  ['HS256 with the modulus', bySecret(async ({ rsa }) => (await exportJWK(rsa.publicKey)).n ?? '')],
  [
    'HS256 with the published key',
    bySecret(async ({ rsa }) => JSON.stringify(await toJwk(rsa, 'rsa-1', 'RS256'))),
  ],
  ['HS256 with an empty secret', bySecret(async () => '')],
  ['another algorithm of the same key', withHeader({ alg: 'RS512' })],
  ['the algorithm of another key', withHeader({ alg: 'ES256', kid: 'ec-1' })],
  ['the key of another algorithm', withHeader({ kid: 'ec-1' })],
  ['an elliptic signature of zeros', unsigned('ES256', Buffer.alloc(64).toString('base64url'))],
  [
    'an elliptic signature of zeros for its key',
    async () =>
      `${encode({ alg: 'ES256', kid: 'ec-1' })}.${encode(goodClaims)}.${Buffer.alloc(64).toString('base64url')}`,
  ],
  ['a key id that is not known', byStranger({ kid: 'other' })],
  ['a key id that is known, with another key', byStranger({})],
  ['no key id, with another key', byStranger({ kid: undefined })],
  ['a key id that is a path', byStranger({ kid: '../../../../dev/null' })],
  ['a key id that is a query', byStranger({ kid: "' union select 'x" })],
  ['a key id that is empty', byStranger({ kid: '' })],
  ['a key id that is an object', withHeader({ kid: { a: 1 } })],
  ['a key id that is a number', withHeader({ kid: 1 })],
  ['jku', pointingElsewhere('jku')],
  ['x5u', pointingElsewhere('x5u')],
  [
    'jwk',
    async (issuer) =>
      byStranger({ jwk: await toJwk(issuer.stranger, 'rsa-1', 'RS256'), kid: 'mine' })(issuer),
  ],
  [
    'jwk with a key id that is known',
    async (issuer) => byStranger({ jwk: await toJwk(issuer.stranger, 'rsa-1', 'RS256') })(issuer),
  ],
  ['x5c', byStranger({ x5c: ['MIIB'], kid: 'mine' })],
  ['crit with something unknown', withHeader({ crit: ['x-mine'], 'x-mine': true })],
  ['crit that is empty', withHeader({ crit: [] })],
  ['crit that is no list', withHeader({ crit: 'b64' })],
  ['b64 false', withHeader({ b64: false, crit: ['b64'] })],
  ['expired', withClaims({ exp: NOW / 1000 - 1 })],
  ['expired just now', withClaims({ exp: NOW / 1000 })],
  ['never expires', withClaims({ exp: undefined })],
  ['expires as text', withClaims({ exp: String(IN_A_MINUTE) })],
  ['expires null', withClaims({ exp: null })],
  ['expires in milliseconds before 1970', withClaims({ exp: -1 })],
  ['expires beyond all numbers', ({ rsa }) => sign(rsa, HEADER, claimsText('"exp":1e999'))],
  ['not yet valid', withClaims({ nbf: NOW / 1000 + 1 })],
  ['not yet valid, as text', withClaims({ nbf: String(NOW / 1000 + 1) })],
  ['another issuer', withClaims({ iss: 'https://issuer.test' })],
  ['the issuer among others', withClaims({ iss: [ISSUER, 'https://evil.test/'] })],
  ['no issuer', withClaims({ iss: undefined })],
  ['another audience', withClaims({ aud: 'apis' })],
  ['an audience in other letters', withClaims({ aud: AUDIENCE.toUpperCase() })],
  ['no audience', withClaims({ aud: [] })],
  ['an audience that is an object', withClaims({ aud: { [AUDIENCE]: true } })],
  ['no user', withClaims({ sub: undefined })],
  ['a user that is null', withClaims({ sub: null })],
  ['a user that is an object', withClaims({ sub: { toString: 'alice' } })],
  ['a user that is a list', withClaims({ sub: ['alice'] })],
  ['a user that is true', withClaims({ sub: true })],
  ['a user that is empty', withClaims({ sub: '' })],
  ['a user that is blank', withClaims({ sub: ' ' })],
  ['a user with blanks around', withClaims({ sub: ' alice' })],
  ['a user with a line break', withClaims({ sub: 'alice\r\nX-Weir-Tier: gold' })],
  ['a user with a NUL', withClaims({ sub: 'alice\0' })],
  ['a user with half a character', ({ rsa }) => sign(rsa, HEADER, claimsText('"sub":"\\ud800"'))],
  ['a user that is a fraction', withClaims({ sub: 1.5 })],
  ['a user that is too large a number', withClaims({ sub: 2 ** 53 })],
  ['a user that is too long', withClaims({ sub: 'a'.repeat(257) })],
  ['a user that is inherited', ({ rsa }) => sign(rsa, HEADER, claimsText('"__proto__":{"sub":"alice"}', {}))],
  ['claims that are a list', ({ rsa }) => sign(rsa, HEADER, [goodClaims])],
  ['claims that are text', ({ rsa }) => sign(rsa, HEADER, '"alice"')],
  ['claims that are not JSON', ({ rsa }) => sign(rsa, HEADER, '{sub:alice}')],
  ['a token within a token', async (issuer) => sign(issuer.rsa, HEADER, await good(issuer))],
  ['a header that is not JSON', ({ rsa }) => sign(rsa, '{alg:RS256}', goodClaims)],
  ['a header that is a list', ({ rsa }) => sign(rsa, [HEADER], goodClaims)],
  ['other claims', editedParts(([h = '', , s = '']) => [h, encode({ ...goodClaims, sub: 'bob' }), s])],
  ['no signature', editedParts(([h = '', c = '']) => [h, c, ''])],
  ['two parts', editedParts((parts) => parts.slice(0, 2))],
  ['four parts', editedParts((parts) => [...parts, 'AAAA'])],
  ['five parts', editedParts((parts) => [...parts, 'AAAA', 'AAAA'])],
  ['half a signature', editedParts(([h = '', c = '', s = '']) => [h, c, s.slice(0, s.length / 2)])],
  ['more than a signature', editedParts(([h = '', c = '', s = '']) => [h, c, `${s}AAAA`])],
  ['padding', edited((token) => `${token}==`)],
  ['a blank within', edited((token) => token.replace('.', '. '))],
  ['a line break within', edited((token) => token.replace('.', '.\n'))],
  ['a blank before', edited((token) => ` ${token}`)],
  ['quotes around', edited((token) => `"${token}"`)],
  ['a scheme before', edited((token) => `Bearer ${token}`)],
  ['two tokens', edited((token) => `${token}, ${token}`)],
  ['non-ASCII after', edited((token) => `${token}é`)],
  ['letters that look alike', edited((token) => token.replaceAll('a', 'а'))],
  ['percent encoding', edited((token) => token.replace('.', '%2E'))],
  ['more than 8 KB', withClaims({ padding: 'x'.repeat(8_192) })],
  ['a token as an object', edited((token) => JSON.stringify({ token }))],
];

/** Unusual, but signed by the issuer, and readable in one way only. */
export const ALICES: readonly Trick[] = [
  ['as it should be', good],
  [
    'a claim twice: the last one counts',
    ({ rsa }) => sign(rsa, HEADER, claimsText('"sub":"alice"', { sub: 'bob' })),
  ],
  ['alg twice', ({ rsa }) => sign(rsa, '{"alg":"none","alg":"RS256","kid":"rsa-1"}', goodClaims)],
  ['jku that nobody follows', (issuer) => withHeader({ jku: `${issuer.server.url}/attacker` })(issuer)],
  [
    'jwk that nobody uses',
    async (issuer) => withHeader({ jwk: await toJwk(issuer.stranger, 'x', 'RS256') })(issuer),
  ],
  ['another type', withHeader({ typ: 'at+jwt', cty: 'JWT' })],
  ['no key id', withHeader({ kid: undefined })],
  ['a single audience', withClaims({ aud: AUDIENCE })],
  ['valid from now on', withClaims({ nbf: NOW / 1000, iat: NOW / 1000 + 60 })],
  ['by the other key', ({ elliptic }) => sign(elliptic, { alg: 'ES256', kid: 'ec-1' }, goodClaims, 'ES256')],
];

/** The valid claims with changes, and one more claim. A text, because an object cannot have one name twice. */
function claimsText(last: string, changed?: object): string {
  const { sub: _, ...rest } = goodClaims;
  return `${JSON.stringify({ ...(last.includes('sub') ? rest : goodClaims), ...changed }).slice(0, -1)},${last}}`;
}
