import { describe, expect, it } from 'vitest';
import type { Decision, DegradedDecision } from '../../src/core/decision.ts';
import { describeRefusal, refusal, unknownRegion } from '../../src/gateway/refusals.ts';
import { parseKeyPlaces } from '../../src/http/credentials.ts';
import { readClientRequest } from '../../src/http/guard.ts';
import {
  createDecision,
  createResult,
  headersOf,
  NOW_MS,
  policiesIn,
  type Result,
} from './headers-harness.ts';

const TYPES = 'https://iana.org/assignments/http-problem-types';
const bodyOf = async (response: Response) => (await response.json()) as Record<string, unknown>;
const denied = (...results: Result[]) => refusal(createDecision(results));
const by = { rulesVersion: 'v1', isStale: false };
const uncounted = (fallback: DegradedDecision['fallback']) =>
  ({ kind: 'degraded', allowed: false, reason: 'timeout', fallback }) as const;

describe('a denial', () => {
  it('names the rule and how long to wait, and has the message of the rule', async () => {
    const answer = denied(
      createResult({ name: 'login', message: 'Slow down, please.', status: 420 }, { retryAfterMs: 1_001 }),
    );
    expect(answer.status).toBe(420);
    expect(answer.headers.get('Content-Type')).toBe('application/problem+json');
    expect(answer.headers.get('Cache-Control')).toBe('no-store');
    expect(await bodyOf(answer)).toEqual({
      type: `${TYPES}#quota-exceeded`,
      status: 420,
      code: 'rate-limited',
      title: 'Too many requests',
      detail: 'Slow down, please.',
      policy: 'login',
      'retry-after': 2,
      'violated-policies': ['login'],
    });
  });

  it('has a default message if the rule has none', async () => {
    const answer = denied(createResult({}, { retryAfterMs: 60_000 }));
    expect(answer.status).toBe(429);
    expect(await bodyOf(answer)).toMatchObject({ detail: 'Try again in 60 s.', 'retry-after': 60 });
  });

  it('names the rule with the longest wait, and all violated rules as the headers do', async () => {
    const results = [
      createResult({ name: 'fine' }),
      createResult({ name: 'short', status: 418 }, { retryAfterMs: 1 }),
      createResult({ name: 'longer', status: 403 }, { retryAfterMs: 2 }),
      createResult({ name: 'shadow', action: 'log' }, { retryAfterMs: 3 }),
    ];
    const answer = denied(...results);
    const body = await bodyOf(answer);
    expect(answer.status).toBe(403);
    expect(body).toMatchObject({
      policy: 'longer',
      'violated-policies': ['short', 'longer'],
    });
    const names = policiesIn(headersOf(results), 'RateLimit-Policy').map(({ name }) => name);
    expect(names).toEqual(['fine', 'short', 'longer']);
  });

  it('that no wait can help says so, without a Retry-After', async () => {
    const body = await bodyOf(denied(createResult({ cost: 50 }, { retryAfterMs: undefined })));
    expect(body).toMatchObject({
      code: 'cost-above-limit',
      title: 'This request can never pass',
      detail: 'The request costs 50, which is more than the limit can ever hold.',
    });
    expect(body).not.toHaveProperty('retry-after');
  });

  it('that no wait can help has the message of the rule, too', async () => {
    const never = createResult({ cost: 50, message: 'Send smaller batches.' }, { retryAfterMs: undefined });
    expect(await bodyOf(denied(never))).toMatchObject({
      detail: 'Send smaller batches. The request costs 50, which is more than the limit can ever hold.',
    });
  });
});

const REFUSED: [string, Decision, number, string][] = [
  ['a denied request', createDecision([createResult({}, { retryAfterMs: 1 })]), 429, 'rate-limited'],
  ['a caller on the deny list', { kind: 'listed', allowed: false, list: 'deny', ...by }, 403, 'denied'],
  [
    'a caller with a bad token',
    { kind: 'unverified', allowed: false, credential: 'token', ...by },
    401,
    'unverified-credentials',
  ],
  ['a request that cannot be counted', uncounted('closed'), 503, 'temporary-reduced-capacity'],
];

describe.each(REFUSED)('the answer to %s', (_, decision, status, code) => {
  it(`is ${status} ${code}`, async () => {
    const answer = refusal(decision, { method: 'POST' });
    expect(answer.status).toBe(status);
    expect(await bodyOf(answer)).toMatchObject({ status, code });
  });

  it('has the same headers and no body for HEAD', async () => {
    const answer = refusal(decision, { method: 'HEAD' });
    expect(answer.status).toBe(status);
    expect(await answer.text()).toBe('');
    expect([...answer.headers]).toEqual([...refusal(decision, { method: 'GET' }).headers]);
  });
});

describe('the id of a denied request', () => {
  const refuse = (headers: Record<string, string>) => {
    const raw = new Request('https://api.example.com/login?token=secret', { headers });
    const decision = createDecision([createResult({ name: 'login' }, { retryAfterMs: 1_000 })]);
    const described = describeRefusal(decision, readClientRequest(raw));
    return { described, answer: refusal(decision, described) };
  };

  it.each(['8f2a5c3d1e4b6a70', '8f2a5c3d1e4b6a70-FRA'])('is the Ray ID of Cloudflare: %s', async (ray) => {
    const { answer, described } = refuse({ 'CF-Ray': ray });
    expect(described).toMatchObject({ requestId: '8f2a5c3d1e4b6a70', method: 'GET' });
    expect(answer.headers.get('X-Weir-Request')).toBe('8f2a5c3d1e4b6a70');
    expect(await bodyOf(answer)).toMatchObject({ 'request-id': '8f2a5c3d1e4b6a70', policy: 'login' });
  });

  it.each(['', 'x', '8f2a5c3d1e4b6a70-fra', '8F2A5C3D1E4B6A70', '8f2a5c3d1e4b6a70, x', '<img>'])(
    'is one of ours without a Ray ID, or with something else in its place: %j',
    async (ray) => {
      const ids = [refuse({ 'CF-Ray': ray }), refuse({})].map(({ answer }) =>
        answer.headers.get('X-Weir-Request'),
      );
      for (const id of ids) expect(id).toMatch(/^[0-9a-f]{16}$/);
      expect(new Set(ids).size).toBe(2);
    },
  );

  it('is in the headers of an answer to HEAD', () => {
    const { described } = refuse({});
    const answer = refusal(createDecision([createResult({}, { retryAfterMs: 1 })]), {
      ...described,
      method: 'HEAD',
    });
    expect(answer.headers.get('X-Weir-Request')).toBe(described.requestId);
  });
});

it('a refusal says when to come back if requests cannot be counted', () => {
  const answer = refusal(uncounted('closed'));
  expect(answer.headers.get('Retry-After')).toBe('5');
});

it('a refusal asks to come back in a second if the cap of this isolate is used up', async () => {
  const answer = refusal(uncounted('cap'));
  expect([answer.status, answer.headers.get('Retry-After')]).toEqual([503, '1']);
  expect(await bodyOf(answer)).toEqual({
    type: `${TYPES}#temporary-reduced-capacity`,
    status: 503,
    code: 'temporary-reduced-capacity',
    title: 'Temporarily unavailable',
    detail: 'The counters cannot be reached right now, and too many requests arrive at once.',
    'retry-after': 1,
  });
});

it('a caller that has used up its part of a limit in this isolate is denied by its rule, as usual', async () => {
  const results = [createResult({ name: 'login', onUnavailable: 'local' }, { retryAfterMs: 1_001 })];
  const local = { nowMs: NOW_MS, results };
  const answer = refusal({ ...uncounted('local'), local });
  expect(answer.status).toBe(429);
  expect(await bodyOf(answer)).toMatchObject({ code: 'rate-limited', policy: 'login', 'retry-after': 2 });
});

it('a refusal challenges a caller with an invalid credential', () => {
  const challenge = (credential: 'token' | 'api-key') =>
    refusal({ kind: 'unverified', allowed: false, credential, ...by }).headers.get('WWW-Authenticate');
  expect(challenge('token')).toBe('Bearer error="invalid_token"');
  expect(challenge('api-key')).toBe('ApiKey header="X-API-Key"');
});

it.each([
  ['X-Shop-Key, Authorization: Bearer', 'ApiKey header="X-Shop-Key"'],
  ['Authorization: Bearer sk_, X-API-Key', 'Bearer'],
  ['Authorization: Basic', 'Basic realm="API"'],
  ['Authorization: Token', 'Token'],
  ['Authorization', 'ApiKey header="Authorization"'],
])('the challenge names the first place for keys: %s', (places, expected) => {
  const decision = { kind: 'unverified', allowed: false, credential: 'api-key', ...by } as const;
  const { headers } = refusal(decision, {}, parseKeyPlaces(places));
  expect(headers.get('WWW-Authenticate')).toBe(expected);
});

it('a refusal of several keys is a 400 without a challenge', async () => {
  const answer = refusal({ kind: 'unverified', allowed: false, credential: 'several-keys', ...by });
  expect([answer.status, answer.headers.get('WWW-Authenticate')]).toEqual([400, null]);
  expect(await bodyOf(answer)).toMatchObject({ code: 'several-keys' });
});

it.each([
  ['token', 'the user of this token'],
  ['api-key', 'this API key'],
] as const)(
  'a refusal of an unknown caller names what Weir does not know of a %s',
  async (credential, who) => {
    const answer = refusal({
      ...by,
      kind: 'over-allowance',
      allowed: false,
      credential,
      retryAfterMs: 1_001,
    });
    expect([answer.status, answer.headers.get('Retry-After')]).toEqual([429, '2']);
    expect(await bodyOf(answer)).toMatchObject({
      code: 'too-many-look-ups',
      detail: expect.stringContaining(`does not know ${who} yet`),
    });
  },
);

it('an unknown region is refused with the list of regions', async () => {
  const answer = unknownRegion([{ name: 'us' }, { name: 'eu' }]);
  expect(answer.status).toBe(400);
  expect(await bodyOf(answer)).toMatchObject({
    code: 'unknown-region',
    detail: 'X-Weir-Region must be one of us, eu.',
  });
});
