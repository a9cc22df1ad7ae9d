// A token identifies a user only if the issuer has signed all of it.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { rounds } from '../rounds.ts';
import { goodClaims, sign, useIssuer } from './issuer.ts';
import { ALICES, NOBODYS } from './token-tricks.ts';

const { issuer, token, openIsolate } = useIssuer();

describe('a token', () => {
  it.each(NOBODYS)('names no user: %s', async (_, make) => {
    const isolate = openIsolate();
    const jwt = await make(issuer);
    // The second answer comes from memory.
    expect([await isolate.userOf(jwt), await isolate.userOf(jwt)]).toEqual(['nobody', 'nobody']);
    expect(issuer.server.requests.filter((path) => path !== '/keys')).toEqual([]);
    expect(isolate.errors).toEqual([]);
  });

  it.each(ALICES)('names Alice: %s', async (_, make) => {
    const isolate = openIsolate();
    const jwt = await make(issuer);
    expect([await isolate.userOf(jwt), await isolate.userOf(jwt)]).toEqual(['alice', 'alice']);
    expect(issuer.server.requests).toEqual(['/keys']);
  });
});

describe('a token with random changes', () => {
  it('names its user or no user', async () => {
    const isolate = openIsolate();
    const good = await token();
    const edit = fc.record({
      at: fc.nat(good.length),
      drop: fc.nat(3),
      text: fc.oneof(fc.string({ maxLength: 3 }), fc.base64String({ maxLength: 4 }), fc.constant('.')),
    });
    await fc.assert(
      fc.asyncProperty(edit, async ({ at, drop, text }) => {
        const user = await isolate.userOf(good.slice(0, at) + text + good.slice(at + drop));
        expect(['alice', 'nobody']).toContain(user);
      }),
      { numRuns: rounds(250) },
    );
    expect(isolate.errors).toEqual([]);
  });

  it('names no user if it is signed by a stranger, with any header', async () => {
    const isolate = openIsolate();
    const known = fc.record(
      {
        alg: fc.constantFrom('RS256', 'ES256', 'HS256', 'none', 'RS1', 'EdDSA'),
        kid: fc.constantFrom('rsa-1', 'ec-1', 'other', '', '__proto__'),
        jku: fc.webUrl(),
        crit: fc.array(fc.constantFrom('b64', 'exp', 'kid')),
        b64: fc.boolean(),
        typ: fc.string(),
      },
      { requiredKeys: [] },
    );
    const header = fc
      .tuple(known, fc.dictionary(fc.string(), fc.jsonValue()))
      .map(([a, b]) => ({ ...b, ...a }));
    const claims = fc.dictionary(fc.string(), fc.jsonValue()).map((some) => ({ ...some, ...goodClaims }));
    await fc.assert(
      fc.asyncProperty(header, claims, async (someHeader, someClaims) => {
        expect(await isolate.userOf(await sign(issuer.stranger, someHeader, someClaims))).toBe('nobody');
      }),
      { numRuns: rounds(80) },
    );
    expect(isolate.errors).toEqual([]);
    expect(issuer.server.requests).toEqual(['/keys']);
  });

  it('names no user if it is random text', async () => {
    const isolate = openIsolate();
    const part = fc.oneof(
      fc.base64String(),
      fc.json().map((text) => Buffer.from(text).toString('base64url')),
    );
    const text = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.tuple(part, part, part).map((parts) => parts.join('.')),
    );
    await fc.assert(
      fc.asyncProperty(text, async (some) => {
        expect(await isolate.userOf(some)).toBe('nobody');
      }),
      { numRuns: rounds(250) },
    );
    expect(isolate.errors).toEqual([]);
  });
});
