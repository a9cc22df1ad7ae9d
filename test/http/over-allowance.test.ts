// A credential that Weir may not look up now: whom the look-ups are charged to, and what such a request gets. Directory,
// allowance and answers are real; only the rows and KV are in memory.
import { describe, expect, it } from 'vitest';
import { type CallerRecord, NO_REVISIONS } from '../../src/core/ports/callers.ts';
import { refusal } from '../../src/gateway/refusals.ts';
import { readClientRequest } from '../../src/http/guard.ts';
import { hashApiKey } from '../../src/identity/api-key.ts';
import { createCallerDirectory } from '../../src/identity/directory.ts';
import { type Identity, identify, identifyFromMemory, planByIdentity } from '../../src/identity/identity.ts';
import { madeUpKey } from '../rules/callers-harness.ts';

const NOW_MS = 1_700_000_000_000;
const TOKEN = 'Bearer ann';
/** How many made-up keys of one address Weir looks up in a second. */
const MADE_UP = 5;

type Headers = Readonly<Record<string, string>>;

/** An isolate, and the callers that Postgres knows. A token is the name of its user, and no user has a row. */
function openIsolate() {
  const clock = { ms: NOW_MS };
  const rows = new Map<string, CallerRecord>();
  const works: Promise<unknown>[] = [];
  let areUsersHeld = false;
  const callers = createCallerDirectory({
    rows: {
      key: async (hash) => rows.get(hash),
      user: () => (areUsersHeld ? new Promise(() => {}) : Promise.resolve(undefined)),
    },
    kv: { get: async () => null, put: async () => {} },
    now: () => clock.ms,
    deadlineMs: 20_000,
    revisions: () => NO_REVISIONS,
    onError: (error) => {
      throw error;
    },
  });
  const options = {
    callers,
    tokens: {
      verify: async (userId: string) =>
        ({ kind: 'found', record: { userId, expiresAtMs: Number.MAX_SAFE_INTEGER } }) as const,
    },
    ipv6Prefix: 64,
    afterResponse: (work: Promise<unknown>) => void works.push(work),
    deadline: { remainingMs: () => 20_000 },
  };
  const requestFrom = (ip: string, headers: Headers) =>
    readClientRequest(new Request('https://weir.test/', { headers: { 'CF-Connecting-IP': ip, ...headers } }));
  const isolate = {
    clock,
    /** From now on, Postgres does not answer about users. */
    holdUsers() {
      areUsersHeld = true;
    },
    async whoCalls(ip: string, headers: Headers) {
      const identity = await identify(requestFrom(ip, headers), options);
      if (!areUsersHeld) await Promise.all(works.splice(0));
      return identity;
    },
    fromMemory: (ip: string, headers: Headers) => identifyFromMemory(requestFrom(ip, headers), options),
    async issueKey() {
      const key = await madeUpKey();
      rows.set(await hashApiKey(key), { apiKeyId: `id of ${key}` });
      return key;
    },
    /** Shows made-up keys, one after the other. Returns what Weir takes each of them for. */
    async makeUp(ip: string, count: number) {
      const taken: string[] = [];
      for (let i = 0; i < count; i += 1)
        taken.push(kindOf(await isolate.whoCalls(ip, { 'X-API-Key': await madeUpKey() })));
      return taken;
    },
  };
  return isolate;
}

const kindOf = ({ unverified, unknown, overAllowance }: Identity) =>
  Object.keys({
    ...(unverified && { unverified }),
    ...(unknown && { unknown }),
    ...(overAllowance && { overAllowance }),
  }).join(' ');
const times = (count: number, kind: string) => Array(count).fill(kind);

const IP = '192.0.2.1';
const FROM = { ip: IP, address: IP };
const OVER = { credential: 'api-key', retryAfterMs: 1_000 };

describe('a key over the allowance', () => {
  it('is neither invalid nor unknown: it has to wait', async () => {
    const isolate = openIsolate();
    expect(await isolate.makeUp(IP, MADE_UP + 2)).toEqual([
      ...times(MADE_UP, 'unverified'),
      ...times(2, 'overAllowance'),
    ]);
    const key = await isolate.issueKey();
    expect(await isolate.whoCalls(IP, { 'X-API-Key': key })).toEqual({ caller: FROM, overAllowance: OVER });
    isolate.clock.ms += OVER.retryAfterMs;
    expect(await isolate.whoCalls(IP, { 'X-API-Key': key })).toEqual({
      caller: { ...FROM, apiKeyId: `id of ${key}` },
    });
  });

  it.each(['count', 'reject'] as const)('gets 429 and Retry-After with UNVERIFIED=%s', async (unverified) => {
    const isolate = openIsolate();
    await isolate.makeUp(IP, MADE_UP);
    const identity = await isolate.whoCalls(IP, { 'X-API-Key': await isolate.issueKey() });
    const plan = planByIdentity(identity, { listed: () => undefined }, { unverified, nowMs: NOW_MS });
    if (plan?.kind !== 'over-allowance') throw new Error(`the plan is ${plan?.kind}`);
    const answer = refusal({ ...plan, allowed: false, rulesVersion: 'v', isStale: false });
    expect([answer.status, answer.headers.get('Retry-After')]).toEqual([429, '1']);
    expect(await answer.json()).toMatchObject({ code: 'too-many-look-ups', 'retry-after': 1 });
  });

  it('has to wait beside a good token, too: the token does not stand in for the key', async () => {
    const isolate = openIsolate();
    await isolate.makeUp(IP, MADE_UP);
    const both = { 'X-API-Key': await isolate.issueKey(), Authorization: TOKEN };
    expect(await isolate.whoCalls(IP, both)).toMatchObject({ overAllowance: OVER });
  });
});

describe('a user over the allowance', () => {
  /** Half of the look-ups of users are under way for one address, which may have no more. */
  async function busyWith(ip: string) {
    const isolate = openIsolate();
    isolate.holdUsers();
    for (let i = 0; i < 50; i += 1) void isolate.whoCalls(ip, { Authorization: `Bearer user-${i}` });
    return isolate;
  }

  it('has to wait, although the token is valid, and is still named', async () => {
    const isolate = await busyWith(IP);
    expect(await isolate.whoCalls(IP, { Authorization: TOKEN })).toEqual({
      caller: { ...FROM, userId: 'ann', tenantId: undefined, tier: undefined },
      overAllowance: { credential: 'token', retryAfterMs: 1_000 },
    });
  });

  it('has to wait beside a good key, too: the key is no way around the tenant of the user', async () => {
    const isolate = await busyWith(IP);
    const both = { 'X-API-Key': await isolate.issueKey(), Authorization: TOKEN };
    expect(await isolate.whoCalls(IP, both)).toMatchObject({
      overAllowance: { credential: 'token', retryAfterMs: 1_000 },
    });
  });
});

describe('a key that the isolate knows', () => {
  it('is not over the allowance, whatever its address shows', async () => {
    const isolate = openIsolate();
    const headers = { 'X-API-Key': await isolate.issueKey() };
    const known = await isolate.whoCalls(IP, headers);
    await isolate.makeUp(IP, MADE_UP + 1);
    expect(await isolate.whoCalls(IP, headers)).toEqual(known);
    expect(await isolate.fromMemory(IP, headers)).toEqual(known);
    // Memory has forgotten it by then, and Weir looks it up by the budget of known callers.
    isolate.clock.ms += 60_000;
    await isolate.makeUp(IP, MADE_UP + 1);
    expect(await isolate.fromMemory(IP, headers)).toBeUndefined();
    expect(await isolate.whoCalls(IP, headers)).toEqual(known);
  });
});

it('a made-up key does not become known by being shown again', async () => {
  const isolate = openIsolate();
  const headers = { 'X-API-Key': await madeUpKey() };
  expect(kindOf(await isolate.whoCalls(IP, headers))).toBe('unverified');
  isolate.clock.ms += 60_000;
  await isolate.makeUp(IP, MADE_UP);
  expect(kindOf(await isolate.whoCalls(IP, headers))).toBe('overAllowance');
});

describe('the look-ups are charged', () => {
  it('to the address that shows the keys, and not to the next one', async () => {
    const isolate = openIsolate();
    expect(await isolate.makeUp(IP, MADE_UP + 1)).toContain('overAllowance');
    expect(await isolate.makeUp('192.0.2.2', 1)).toEqual(['unverified']);
  });

  it('to the prefix of an IPv6 address: its other addresses are over the allowance, the next prefix is not', async () => {
    const isolate = openIsolate();
    await isolate.makeUp('2001:db8:1:2::1', MADE_UP);
    expect(await isolate.makeUp('2001:db8:1:2:ffff::2', 1)).toEqual(['overAllowance']);
    expect(await isolate.makeUp('2001:db8:1:3::1', 1)).toEqual(['unverified']);
  });

  it('to one address, in every spelling of it', async () => {
    const isolate = openIsolate();
    await isolate.makeUp(IP, MADE_UP);
    expect(await isolate.makeUp('::ffff:192.0.2.1', 1)).toEqual(['overAllowance']);
  });

  it('to all callers without an address together, and to nobody else', async () => {
    const isolate = openIsolate();
    await isolate.makeUp('', MADE_UP);
    expect(await isolate.makeUp('192.0.2.1, 192.0.2.2', 1)).toEqual(['overAllowance']);
    expect(await isolate.makeUp(IP, 1)).toEqual(['unverified']);
  });

  it('not at all for a user of a token, after made-up keys of the same address', async () => {
    const isolate = openIsolate();
    await isolate.makeUp(IP, MADE_UP + 1);
    expect(await isolate.whoCalls(IP, { Authorization: TOKEN })).toMatchObject({ caller: { userId: 'ann' } });
    expect(kindOf(await isolate.whoCalls(IP, { Authorization: TOKEN }))).toBe('');
  });
});

it('the addresses that show made-up keys share 20 look-ups a second: the greedy leave something for the next', async () => {
  const isolate = openIsolate();
  const greedy = ['192.0.2.11', '192.0.2.12', '192.0.2.13'];
  for (const ip of [...greedy, IP]) await isolate.makeUp(ip, 1);
  isolate.clock.ms += 1_000;
  for (const ip of greedy) expect(await isolate.makeUp(ip, 9)).toEqual(manyThenOver(MADE_UP, 9));
  // 5 of the 20 are left, and an address gets one more while it has had fewer than are left.
  expect(await isolate.makeUp(IP, 9)).toEqual(manyThenOver(3, 9));
  expect(await isolate.makeUp('192.0.2.99', 1)).toEqual(['unverified']);
});

const manyThenOver = (looked: number, all: number) => [
  ...times(looked, 'unverified'),
  ...times(all - looked, 'overAllowance'),
];
