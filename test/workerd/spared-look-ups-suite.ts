// If Weir refuses a request for any caller, it does not look the caller up.

import { describe, expect, it } from 'vitest';
import { createRule, type RuleFields } from '../../local/rules.ts';
import type { Rule, SCOPES } from '../../src/core/matching/rule.ts';
import { compileSnapshot, type SnapshotContent, withCounterIds } from '../../src/core/matching/snapshot.ts';
import {
  ABSENT,
  answerOf,
  type CallerDirectory,
  type CallerRecord,
  NOT_ASKED,
  type TokenVerifier,
} from '../../src/core/ports/callers.ts';
import { handleGateway } from '../../src/gateway/gateway.ts';
import type { GatewayServices } from '../../src/gateway/services.ts';
import { readClientRequest } from '../../src/http/guard.ts';
import { createIncidentCounts } from '../../src/http/log.ts';
import { createLimiter } from '../../src/limiter/limiter.ts';
import { createRegion, denies } from '../limiter/fake-regions.ts';
import { createSource } from '../limiter/limiter-harness.ts';
import { SILENT, SILENT_LOG } from '../telemetry/silent.ts';

const IP = '192.0.2.1';

interface World extends Partial<Omit<SnapshotContent, 'rules'>> {
  readonly rules?: readonly RuleFields[];
  /** By API key. */
  readonly keys?: Readonly<Record<string, CallerRecord>>;
  readonly unverified?: 'count' | 'reject';
}

let ordinals = 0;
const ruleOf = (fields: RuleFields): Rule => {
  ordinals += 1;
  const id = String(ordinals);
  return createRule({ id, name: id, ordinal: ordinals, limit: 5, ...fields });
};

/** One isolate whose region denies everything for a minute, and whose directory notes each look-up. */
async function openIsolate({ rules = [], tiers = [], lists = [], keys = {}, unverified = 'count' }: World) {
  const compiled = await withCounterIds(rules.map(ruleOf));
  const snapshot = compileSnapshot('v1', { rules: compiled, tiers, lists });
  const asked: string[] = [];
  const counted: string[] = [];
  const region = createRegion('us', { run: denies(60_000), tell: (line) => counted.push(line) });
  const callers: CallerDirectory = {
    async ofApiKey(key, { memoryOnly }) {
      if (memoryOnly) return NOT_ASKED;
      asked.push(key);
      return answerOf(keys[key]);
    },
    async ofUser(userId, { memoryOnly }) {
      if (memoryOnly) return NOT_ASKED;
      asked.push(userId);
      return ABSENT;
    },
  };
  // Every token is valid and names its user by its own text.
  const verify: TokenVerifier['verify'] = async (userId) => ({
    kind: 'found',
    record: { userId, expiresAtMs: Number.MAX_SAFE_INTEGER },
  });
  const now = () => Date.now();
  const services = {
    limiter: createLimiter({
      snapshots: createSource({ current: () => snapshot }),
      deadlineMs: 1_000,
      shares: { us: 1 },
      onShadow: () => {},
      onBug: () => {},
      capPerSecond: 0,
      isolateId: () => 'one',
      now,
    }),
    identity: { callers, tokens: { verify }, ipv6Prefix: 64, unverified },
    origins: {
      routeOf: () => undefined,
      isZone: () => false,
      forward: async () => ({ kind: 'answered', response: new Response() }),
      refuseLoop: async () => undefined,
      report: () => [],
    },
    origin: { rateLimitHeaders: 'keep', costHeader: 'x-weir-cost' },
    isDevelopment: false,
    showsDegraded: true,
    now,
    incidentCounts: createIncidentCounts(),
    telemetry: SILENT,
    log: SILENT_LOG,
  } satisfies GatewayServices;

  const send = (key: string, ip = IP) => sendWith({ 'X-API-Key': key }, ip);
  const sendWith = async (credential: Record<string, string>, ip = IP) => {
    const request = new Request('https://weir.test/', { headers: { 'CF-Connecting-IP': ip, ...credential } });
    const answer = await handleGateway({
      services,
      request: readClientRequest(request),
      regions: [region],
      path: '/',
      matchPath: '/',
      query: '',
      isFirst: true,
      afterResponse: () => {},
      passThrough: () => {},
    });
    return [answer.status, answer.headers.get('X-Weir-Degraded')];
  };
  const takes = () => counted.filter((line) => line.includes('take')).length;
  return { send, sendWith, asked, takes };
}

const denied = { list: 'deny', kind: 'ip', value: IP, expiresAtMs: null } as const;

describe('no caller is looked up', () => {
  it('for an address that is on the deny list', async () => {
    const { send, asked } = await openIsolate({ lists: [denied] });
    expect(await send('made-up')).toEqual([403, null]);
    expect(asked).toEqual([]);
    expect(await send('made-up', '192.0.2.2')).toEqual([200, null]);
    expect(asked).toEqual(['made-up']);
  });

  it.each<(typeof SCOPES)[number]>(['ip', 'global'])(
    'while a rule of scope %s is known to deny',
    async (scope) => {
      const { send, asked, takes } = await openIsolate({ rules: [{ scope }] });
      for (const key of ['first', 'second', 'third']) expect(await send(key)).toEqual([429, null]);
      expect([asked, takes()]).toEqual([['first'], 1]);
    },
  );
});

describe('no user of a valid token is looked up', () => {
  const bearing = (user: string) => ({ Authorization: `Bearer ${user}` });

  it('for an address that is on the deny list', async () => {
    const { sendWith, asked } = await openIsolate({ lists: [denied] });
    expect(await sendWith(bearing('ann'))).toEqual([403, null]);
    expect(asked).toEqual([]);
    expect(await sendWith(bearing('ann'), '192.0.2.2')).toEqual([200, null]);
    expect(asked).toEqual(['ann']);
  });

  it('while a rule for its address is known to deny', async () => {
    const { sendWith, asked } = await openIsolate({ rules: [{ scope: 'ip' }] });
    for (const user of ['ann', 'ben', 'cid']) expect(await sendWith(bearing(user))).toEqual([429, null]);
    expect(asked).toEqual(['ann']);
  });
});

describe('a caller is looked up, because this may change the decision,', () => {
  const other = { kind: 'user', value: 'u', expiresAtMs: null } as const;
  it.each<[string, World]>([
    ['if the rule does not count by address', { rules: [{ scope: 'apiKey' }] }],
    [
      'if the rule is for a tier',
      { rules: [{ tiers: ['free'] }], tiers: [{ name: 'free', limits: {}, isDefault: true }] },
    ],
    ['if another rule for the same resource is for a tier', { rules: [{}, { tiers: ['pro'], limit: 9 }] }],
    ['if the limit comes from a tier', { rules: [{ limitName: 'calls' }] }],
    ['if a user is on the allow list', { rules: [{}], lists: [{ list: 'allow', ...other }] }],
  ])('%s', async (_, world) => {
    const { send, asked } = await openIsolate(world);
    for (const key of ['first', 'second']) expect((await send(key))[0]).toBe(429);
    expect(asked).toEqual(['first', 'second']);
  });

  it.each<[string, string, World, number]>([
    ['passes', 'known', {}, 200],
    ['is denied if its user is on the deny list', 'known', { lists: [{ list: 'deny', ...other }] }, 403],
    ['gets 401 if it is made up', 'made-up', { unverified: 'reject' }, 401],
  ])('and %s, if its address is on the allow list', async (_, key, world, status) => {
    const { send, sendWith, asked } = await openIsolate({
      ...world,
      rules: [{ scope: 'global' }],
      keys: { known: { apiKeyId: 'k', userId: 'u' } },
      lists: [{ ...denied, list: 'allow' }, ...(world.lists ?? [])],
    });
    expect(await sendWith({}, '192.0.2.2')).toEqual([429, null]);
    expect((await send(key))[0]).toBe(status);
    expect(asked).toEqual([key]);
  });

  it('and passes if it is on the allow list', async () => {
    const { send } = await openIsolate({
      rules: [{}],
      lists: [{ list: 'allow', ...other }],
      keys: { known: { apiKeyId: 'k', userId: 'u' } },
    });
    expect(await send('made-up')).toEqual([429, null]);
    expect(await send('known')).toEqual([200, null]);
  });
});

it('the deny list comes before a 401', async () => {
  const { send } = await openIsolate({ lists: [denied], unverified: 'reject' });
  expect((await send('made-up'))[0]).toBe(403);
  expect((await send('made-up', '192.0.2.2'))[0]).toBe(401);
});
