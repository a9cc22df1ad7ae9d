// What credentials and lists decide before any rule, and which look-ups a token needs.
import { describe, expect, it } from 'vitest';
import { readClientRequest } from '../../src/http/guard.ts';
import { type Identity, identify, planByIdentity } from '../../src/identity/identity.ts';

const caller = { ip: '192.0.2.1', address: '192.0.2.1' };
const ofToken = { ...caller, userId: 'ann' };
const overAllowance = { credential: 'token', retryAfterMs: 5 } as const;

describe('a caller', () => {
  const planFor = (identity: Partial<Identity>, denied: unknown) =>
    planByIdentity(
      { caller, ...identity },
      { listed: (one: unknown) => (one === denied ? 'deny' : undefined) } as never,
      {
        unverified: 'reject',
        nowMs: 0,
      },
    );

  it.each<[string, Partial<Identity>]>([
    ['whose key is not valid', { unverified: 'api-key' }],
    ['who may not be looked up now', { overAllowance }],
    ['who also shows a token', { ofToken }],
  ])('on a deny list %s is denied as one on the list', (_, identity) =>
    expect(planFor(identity, caller)).toEqual({ kind: 'listed', list: 'deny' }),
  );

  it('whose token names a denied user is denied, whatever the key says', () =>
    expect(planFor({ ofToken, overAllowance, unverified: 'api-key' }, ofToken)).toEqual({
      kind: 'listed',
      list: 'deny',
    }));

  it('who may not be looked up now is told when to come back, before the key is judged', () =>
    expect(planFor({ overAllowance, unverified: 'api-key' }, undefined)).toEqual({
      kind: 'over-allowance',
      ...overAllowance,
    }));
});

it('a user is looked up only if the token leaves something open', async () => {
  const unavailable = { kind: 'unavailable' } as const;
  const asked: string[] = [];
  const callers = {
    ofApiKey: async () => unavailable,
    ofUser: async (userId: string) => {
      asked.push(userId);
      return unavailable;
    },
  };
  const whose = (record: { readonly userId: string; readonly tier?: string; readonly tenantId?: string }) =>
    identify(
      readClientRequest(new Request('https://weir.test/', { headers: { Authorization: 'Bearer a.b.c' } })),
      {
        callers,
        tokens: {
          verify: async () => ({ kind: 'found', record: { expiresAtMs: 1, claims: {}, ...record } }),
        },
        ipv6Prefix: 64,
        afterResponse: () => {},
        deadline: { remainingMs: () => 20_000 },
      },
    );
  const whole = await whose({ userId: 'whole', tier: 'gold', tenantId: 'acme' });
  expect(whole.unknown).toBeUndefined();
  expect(await whose({ userId: 'no tier', tenantId: 'acme' })).toMatchObject({ unknown: 'token' });
  await whose({ userId: 'no tenant', tier: 'gold' });
  expect(asked).toEqual(['no tier', 'no tenant']);
});
