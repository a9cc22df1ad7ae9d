// Who sends a request, with callers in a real Postgres and keys from a real server.

import { describe, expect, it } from 'vitest';
import { readClientRequest } from '../../src/http/guard.ts';
import { identify } from '../../src/identity/identity.ts';
import { useIssuer } from '../identity/issuer.ts';
import { madeUpKey, useCallers } from '../rules/callers-harness.ts';

const { issueKey, addUser, wire, openIsolate: openDirectory } = useCallers();
const { issuer, token, openIsolate: openVerifier } = useIssuer();
const FROM = { ip: '192.0.2.1', address: '192.0.2.1' };

interface Situation {
  /** If undefined, no tokens are read. */
  readonly tokens?: ReturnType<typeof openVerifier> | undefined;
  readonly ipv6Prefix?: number;
}

const requestWith = (headers: Record<string, string>) =>
  readClientRequest(new Request('https://weir.test/', { headers }));

const who = (headers: Record<string, string>, { tokens, ipv6Prefix = 64 }: Situation = {}) =>
  identify(requestWith({ 'CF-Connecting-IP': '192.0.2.1', ...headers }), {
    callers: openDirectory(),
    tokens,
    ipv6Prefix,
    afterResponse: () => {},
    deadline: { remainingMs: () => 20_000 },
  });
const whoByToken = (jwt: string, headers: Record<string, string> = {}) =>
  who({ Authorization: `Bearer ${jwt}`, ...headers }, { tokens: openVerifier() });

describe('an API key', () => {
  it('names key, user, tenant and tier', async () => {
    const userId = await addUser({ tenantId: 'SILVER', tier: 'gold' });
    const { key, id } = await issueKey({ userId });
    expect(await who({ 'X-API-Key': key })).toEqual({
      caller: { ...FROM, apiKeyId: id, userId, tenantId: 'SILVER', tier: 'gold' },
    });
  });

  it('that is made up, disabled or expired identifies no caller, and is marked as unverified', async () => {
    const disabled = await issueKey({ disabled: true });
    const expired = await issueKey({ expiresAt: new Date(1_600_000_000_000) });
    for (const key of [await madeUpKey(), disabled.key, expired.key, 'nonsense', ''])
      expect(await who({ 'X-API-Key': key })).toEqual({ caller: FROM, unverified: 'api-key' });
  });

  it('that is not valid leaves the identity to a valid token, and is marked as unverified', async () => {
    const both = await whoByToken(await token(), { 'X-API-Key': await madeUpKey() });
    expect(both).toEqual({
      caller: { ...FROM, userId: 'alice', claims: { sub: 'alice' } },
      unverified: 'api-key',
    });
    const neither = await whoByToken('a.b.c', { 'X-API-Key': await madeUpKey() });
    expect(neither).toEqual({ caller: FROM, unverified: 'api-key' });
  });
});

describe('the places of an API key', () => {
  it('are X-API-Key, and for a key of Weir a bearer token, whether or not tokens are read', async () => {
    const { key, id } = await issueKey();
    for (const tokens of [undefined, openVerifier()])
      expect(await who({ Authorization: `Bearer ${key}` }, { tokens })).toEqual({
        caller: { ...FROM, apiKeyId: id },
      });
    const madeUp = { Authorization: `Bearer ${await madeUpKey()}` };
    expect(await who(madeUp)).toEqual({ caller: FROM, unverified: 'api-key' });
    const [other] = ['Bearer sk_live_51NbXold-api-key'];
    expect(await who({ Authorization: other })).toEqual({ caller: FROM });
    expect(await who({ Authorization: other }, { tokens: openVerifier() })).toEqual({
      caller: FROM,
      unverified: 'token',
    });
  });

  it('that cannot be read show an invalid key, if they name one of Weir', async () => {
    const { key } = await issueKey();
    for (const header of [`Bearer ${key} x`, `Basic YTpi, Bearer ${key}`, `Bearer ${key}, Bearer ${key}`])
      expect(await who({ Authorization: header })).toEqual({ caller: FROM, unverified: 'api-key' });
    for (const header of ['Bearer', 'Basic YTpi', 'Digest a=b, Bearer c'])
      expect(await who({ Authorization: header })).toEqual({ caller: FROM });
  });

  it('with different keys identify nobody, and nobody is looked up', async () => {
    const both = { 'X-API-Key': (await issueKey()).key, Authorization: `Bearer ${(await issueKey()).key}` };
    wire.bodies = [];
    expect(await who(both)).toEqual({ caller: FROM, hasSeveralKeys: true });
    expect(wire.bodies).toEqual([]);
  });
});

describe('an API key beside a token', () => {
  it('of another user identifies the caller; both are named, for the deny list', async () => {
    const bob = await addUser({ tenantId: 'SILVER' });
    const { key, id } = await issueKey({ tier: 'bronze', userId: bob });
    expect(await whoByToken(await token(), { 'X-API-Key': key })).toEqual({
      caller: { ...FROM, apiKeyId: id, userId: bob, tenantId: 'SILVER', tier: 'bronze' },
      ofToken: { ...FROM, userId: 'alice', claims: { sub: 'alice' } },
    });
  });

  it('takes from the token what the key does not name: the user, the tenant, the tier', async () => {
    const userId = await addUser({ tenantId: 'SILVER', tier: 'gold' });
    const jwt = await token({ sub: userId });
    const claims = { sub: userId };
    const plain = await issueKey();
    expect((await whoByToken(jwt, { 'X-API-Key': plain.key })).caller).toEqual({
      ...{ ...FROM, apiKeyId: plain.id, userId, tenantId: 'SILVER', tier: 'gold', claims },
    });
    const own = await issueKey({ tier: 'bronze', tenantId: 'PLAIN' });
    expect((await whoByToken(jwt, { 'X-API-Key': own.key })).caller).toEqual({
      ...{ ...FROM, apiKeyId: own.id, userId, tenantId: 'PLAIN', tier: 'bronze', claims },
    });
  });

  it('that is not valid identifies the caller, and the token is marked as unverified', async () => {
    const { key, id } = await issueKey();
    expect(await whoByToken('forged', { 'X-API-Key': key })).toEqual({
      caller: { ...FROM, apiKeyId: id },
      unverified: 'token',
    });
  });

  it('that cannot be verified now identifies the caller, and the token is marked as unknown', async () => {
    const { key, id } = await issueKey();
    issuer.server.mode = 'error';
    expect(await whoByToken(await token(), { 'X-API-Key': key })).toEqual({
      caller: { ...FROM, apiKeyId: id },
      unknown: 'token',
    });
  });
});

describe('a token', () => {
  it('names a user, whose tier and tenant are looked up', async () => {
    const userId = await addUser({ tenantId: 'SILVER' });
    expect(await whoByToken(await token({ sub: userId }))).toEqual({
      caller: { ...FROM, userId, tenantId: 'SILVER', tier: 'silver', claims: { sub: userId } },
    });
  });

  it('names a user even if the user has no row', async () => {
    expect(await whoByToken(await token())).toEqual({
      caller: { ...FROM, userId: 'alice', claims: { sub: 'alice' } },
    });
  });

  it.each([
    [
      { org: 'ACME', plan: 'free' },
      { tenantId: 'ACME', tier: 'free' },
    ],
    [{ org: 'ACME' }, { tenantId: 'ACME', tier: 'gold' }],
    [{ plan: 'free' }, { tenantId: 'SILVER', tier: 'free' }],
    [{}, { tenantId: 'SILVER', tier: 'gold' }],
  ])('that claims %j gives %j', async (claims, expected) => {
    const userId = await addUser({ tenantId: 'SILVER', tier: 'gold' });
    const tokens = openVerifier({ tenantClaim: 'org', tierClaim: 'plan' });
    const jwt = await token({ sub: userId, ...claims });
    expect(await who({ Authorization: `Bearer ${jwt}` }, { tokens })).toEqual({
      caller: { ...FROM, userId, ...expected, claims: { sub: userId, ...claims } },
    });
  });

  it('that is invalid identifies no caller, and is marked as unverified', async () => {
    for (const jwt of ['nonsense', '', await token({ exp: 1 }), await token({}, issuer.stranger)])
      expect(await whoByToken(jwt)).toEqual({ caller: FROM, unverified: 'token' });
  });

  it('whose keys cannot be fetched identifies no caller for now, but may be valid', async () => {
    issuer.server.mode = 'error';
    expect(await whoByToken(await token())).toEqual({ caller: FROM, unknown: 'token' });
  });

  it('is ignored if no tokens are read, and so is a header that is not a bearer token', async () => {
    expect(await who({ Authorization: `Bearer ${await token()}` })).toEqual({ caller: FROM });
    const basic = { Authorization: `Basic ${btoa('a:b')}` };
    expect(await who(basic, { tokens: openVerifier() })).toEqual({ caller: FROM });
  });
});

describe('an address', () => {
  it('of IPv6 counts by the prefix that is configured', async () => {
    const at = async (ipv6Prefix: number) =>
      (await who({ 'CF-Connecting-IP': '2001:db8:1:2ff::1' }, { ipv6Prefix })).caller;
    expect(await at(64)).toEqual({ ip: '2001:db8:1:2ff::/64', address: '2001:db8:1:2ff::1' });
    expect(await at(56)).toEqual({ ip: '2001:db8:1:200::/56', address: '2001:db8:1:2ff::1' });
  });

  it('that is not valid counts as the address that all callers without an address share', async () => {
    expect(await who({ 'CF-Connecting-IP': '192.0.2.1, 192.0.2.2' })).toEqual({
      caller: { ip: 'unknown', address: 'unknown' },
    });
  });
});
