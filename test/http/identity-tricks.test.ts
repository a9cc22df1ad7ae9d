// Changing credentials that cannot be verified yields no fresh quota: Weir counts in the same Redis keys.

import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { createRule } from '../../local/rules.ts';
import { subjectKey } from '../../src/core/counting/keys.ts';
import { type Caller, subjectOf } from '../../src/core/matching/caller.ts';
import { NO_FACTS } from '../../src/core/matching/counted-by.ts';
import { planRequest } from '../../src/core/matching/plan.ts';
import { SCOPES } from '../../src/core/matching/rule.ts';
import { compileSnapshot, withCounterIds } from '../../src/core/matching/snapshot.ts';
import { readClientRequest } from '../../src/http/guard.ts';
import { identify } from '../../src/identity/identity.ts';
import { type Issuer, useIssuer } from '../identity/issuer.ts';
import { rounds } from '../rounds.ts';
import { madeUpKey, useCallers } from '../rules/callers-harness.ts';
import {
  ADDRESSES_OF_A_PREFIX,
  alicesTricks,
  type HeaderList,
  NO_ADDRESSES,
  nobodysTricks,
  type Props,
  SPELLINGS_OF_IPV4,
} from './identity-tricks.ts';

const { issueKey, openIsolate: openDirectory } = useCallers();
const { issuer, token, openIsolate: openVerifier } = useIssuer();
const IPV4 = SPELLINGS_OF_IPV4[0];

let goodKey: string;
beforeAll(async () => {
  goodKey = (await issueKey({ tenantId: 'SILVER' })).key;
});

const propsOf = async ({ stranger }: Issuer): Promise<Props> => ({
  goodKey,
  madeUpKeys: [await madeUpKey(), await madeUpKey()],
  forgedTokens: [await token({}, stranger), await token({ sub: 'bob' }, stranger, 'other')],
  goodToken: await token(),
});

function openIsolate() {
  const [callers, tokens] = [openDirectory(), openVerifier()];
  return async (headers: HeaderList): Promise<Caller> => {
    const request = new Request('https://weir.test/', { headers: headers.map(([...pair]) => pair) });
    const deadline = { remainingMs: () => 20_000 };
    const options = { callers, tokens, ipv6Prefix: 64, afterResponse: () => {}, deadline };
    return (await identify(readClientRequest(request), options)).caller;
  };
}

/** The keys in which rules of each scope count a caller. */
const keysOf = (caller: Caller) =>
  Promise.all(
    SCOPES.map((scope) => {
      const subject = subjectOf(scope, caller);
      return subjectKey(subject.scope, subject.id);
    }),
  );
/** A rule whose bucket depends on a header, and one that depends on a claim of a valid token. */
async function checksBy(caller: Caller, model: string) {
  const rules = await withCounterIds([
    { ...RULE, id: '1', name: 'by user and model', by: ['user', 'header:X-Model'] },
    { ...RULE, id: '2', name: 'by user and claim', by: ['user', 'claim:org'] },
  ]);
  const snapshot = compileSnapshot('v', { rules, tiers: [], lists: [] });
  const facts = { ...NO_FACTS, header: () => model };
  const request = { matchPath: '/', method: 'GET', caller, facts, nowMs: 0, seatId: () => '' };
  const plan = await planRequest(snapshot, request);
  return plan.kind === 'checks' ? plan.checks : [];
}

const RULE = createRule({ scope: 'user', ordinal: 0 });

const keysOfNobody = (ip: string) => keysOf({ ip, address: ip });
const from = (ip: string, headers: HeaderList = []): HeaderList => [['CF-Connecting-IP', ip], ...headers];

describe('the IP is counted, in every scope,', () => {
  it('for a caller without a valid credential', async () => {
    const call = openIsolate();
    const expected = await keysOfNobody(IPV4);
    for (const [name, headers] of nobodysTricks(await propsOf(issuer)))
      expect([name, await keysOf(await call(from(IPV4, headers)))]).toEqual([name, expected]);
  });

  it('by the bound of a rule, no matter what values the client chooses', async () => {
    const call = openIsolate();
    const keys = new Set<string>();
    for (const [, headers] of nobodysTricks(await propsOf(issuer)))
      for (const model of ['a', 'b', '', 'x'.repeat(500), '@192.0.2.1', 'a/b'])
        for (const check of await checksBy(await call(from(IPV4, headers)), model))
          if (check.rule.isBound) keys.add(`${check.key} ${check.id} ${check.limit}`);
    const [only = '', ...others] = keys;
    expect(only).toMatch(/ \S+_bound 100$/);
    expect(only.split(' ')[0]).toBe(await subjectKey('ip', IPV4));
    expect(others).toEqual([]);
  });

  it('for a caller without a valid user and claim, if a rule counts by both', async () => {
    const call = openIsolate();
    const keys = new Set<string>();
    for (const [, headers] of nobodysTricks(await propsOf(issuer)))
      for (const check of await checksBy(await call(from(IPV4, headers)), 'a'))
        if (check.rule.name === 'by user and claim') keys.add(check.key);
    expect([...keys]).toEqual([await subjectKey('by', `@${IPV4}/@${IPV4}`)]);
  });

  it('as one IPv4 address in every spelling', async () => {
    const call = openIsolate();
    for (const text of SPELLINGS_OF_IPV4)
      expect(await keysOf(await call(from(text)))).toEqual(await keysOfNobody(IPV4));
  });

  it('as a whole prefix of IPv6', async () => {
    const call = openIsolate();
    for (const text of ADDRESSES_OF_A_PREFIX)
      expect(await keysOf(await call(from(text)))).toEqual(await keysOfNobody('2001:db8:1:2::/64'));
  });

  it('as one address for all callers without an address', async () => {
    const call = openIsolate();
    for (const headers of NO_ADDRESSES)
      expect([headers, await keysOf(await call(headers))]).toEqual([headers, await keysOfNobody('unknown')]);
  });
});

it('a caller with a valid token is one user, with any other headers and from any address', async () => {
  const call = openIsolate();
  const userKey = await subjectKey('user', 'alice');
  for (const [name, headers] of alicesTricks(await propsOf(issuer)))
    for (const ip of [IPV4, '203.0.113.1', '2001:db8::1']) {
      const caller = await call(from(ip, headers));
      expect([name, (await keysOf(caller))[SCOPES.indexOf('user')]]).toEqual([name, userKey]);
      expect(caller.tenantId).toBeUndefined();
    }
});

it('only a claim of a valid token gives a limit, as a number or as digits', async () => {
  const call = openIsolate();
  const rules = [createRule({ scope: 'user', limit: 10, limitClaim: 'quota', limitMax: 1_000 })];
  const snapshot = compileSnapshot('v', { rules, tiers: [], lists: [] });
  const limitWith = async (headers: HeaderList) => {
    const caller = await call(from(IPV4, headers));
    return snapshot.match({ matchPath: '/', method: 'GET', caller, nowMs: 0 }).map(({ limit }) => limit);
  };
  const bearer = async (...made: Parameters<typeof token>): Promise<HeaderList> => [
    ['Authorization', `Bearer ${await token(...made)}`],
  ];
  expect(await limitWith(await bearer({ quota: 700 }))).toEqual([700]);
  expect(await limitWith(await bearer({ quota: '800' }))).toEqual([800]);
  for (const quota of [0, -1, 1.5, 1e300, true, [900], { max: 900 }, null])
    expect([quota, await limitWith(await bearer({ quota }))]).toEqual([quota, [10]]);
  expect(await limitWith(await bearer({ quota: 900 }, issuer.stranger))).toEqual([10]);
  expect(
    await limitWith([
      ['quota', '900'],
      ['X-API-Key', goodKey],
    ]),
  ).toEqual([10]);
});

describe('with random input,', () => {
  const value = fc.oneof(fc.string({ unit: 'grapheme-ascii' }), fc.base64String(), fc.ipV4(), fc.uuid());
  const name = fc.oneof(
    fc.constantFrom('X-API-Key', 'Authorization', 'X-Forwarded-For', 'Forwarded', 'X-Weir-User', 'Cookie'),
    fc.stringMatching(/^x-[a-z]{1,12}$/),
  );
  const credential = fc.oneof(
    value,
    value.map((text) => `Bearer ${text}`),
    fc.tuple(value, value, value).map((parts) => `bearer ${parts.join('.')}`),
    value.map((text) => `weir_${text}`),
  );

  it('made-up headers change nothing', async () => {
    const call = openIsolate();
    const expected = await keysOfNobody(IPV4);
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(name, credential), { maxLength: 6 }), async (headers) => {
        expect(await keysOf(await call(from(IPV4, headers)))).toEqual(expected);
      }),
      { numRuns: rounds(500) },
    );
  });

  it('all addresses of a prefix are counted together', async () => {
    const call = openIsolate();
    const group = fc.nat(0xffff).map((bits) => bits.toString(16));
    // An address that begins with zeros may contain an IPv4 address, and counts as that.
    const first = fc.integer({ min: 1, max: 0xffff }).map((bits) => bits.toString(16));
    const [prefix, rest] = [fc.tuple(first, group, group, group), fc.tuple(group, group, group, group)];
    await fc.assert(
      fc.asyncProperty(prefix, rest, rest, async (four, one, other) => {
        const keysAt = async (last: string[]) => keysOf(await call(from([...four, ...last].join(':'))));
        expect(await keysAt(one)).toEqual(await keysAt(other));
      }),
      { numRuns: rounds(300) },
    );
  });

  it('a text that is not an address never gets its own counter', async () => {
    const call = openIsolate();
    await fc.assert(
      fc.asyncProperty(
        fc.tuple(fc.ipV4(), fc.constantFrom(' x', ',', ';', '%', '/', ':80', 'x'), value),
        async (parts) => {
          expect(await keysOf(await call(from(parts.join(''))))).toEqual(await keysOfNobody('unknown'));
        },
      ),
      { numRuns: rounds(300) },
    );
  });
});
