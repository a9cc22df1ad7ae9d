// What Weir remembers of the answers of the operator's own authentication, for how long, and what it makes of bad ones.
import { describe, expect, it } from 'vitest';
import type { CallerRecord, LookUp } from '../../src/core/ports/callers.ts';
import { readClientRequest } from '../../src/http/guard.ts';
import { type Identity, identify, planByIdentity } from '../../src/identity/identity.ts';
import { createIdentitySource } from '../../src/identity/source.ts';

const LIN = { userId: 'lin', tier: 'gold', tenantId: 'acme' };
const CREDENTIALS = [['authorization', 'Bearer secret-of-lin']] as const;

type Answer = Response | 'fails' | object;

function openIsolate({ kv = new Map<string, string>() } = {}) {
  const clock = { ms: 1_700_000_000_000 };
  const source = { answer: LIN as Answer, asked: 0, during: () => {} };
  const revisions: Record<string, string> = {};
  const works: Promise<unknown>[] = [];
  const errors: unknown[] = [];
  const faults = { kv: false };
  const service = {
    async fetch() {
      source.asked += 1;
      source.during();
      if (source.answer === 'fails') throw new TypeError('network');
      return source.answer instanceof Response ? source.answer.clone() : Response.json(source.answer);
    },
  };
  const { ask } = createIdentitySource({
    address: { service },
    name: 'service:AUTH',
    secret: 'of this deployment',
    hop: () => '0123456789abcdef',
    hopHeader: 'X-Weir-Hop',
    kv: {
      async get(name) {
        if (faults.kv) throw new Error('KV is down');
        return kv.get(name) ?? null;
      },
      async put(name, text) {
        kv.set(name, text);
      },
    },
    now: () => clock.ms,
    random: () => 0.5,
    deadlineMs: 20_000,
    revisions: () => ({ epoch: '0', revisions: { ...revisions } }),
    onError: (error) => errors.push(error),
  });
  const afterResponse = (work: Promise<unknown>) => void works.push(work);
  return {
    ...{ clock, errors, faults, kv, revisions, source },
    settle: () => Promise.all(works.splice(0)),
    ask: (sent: readonly (readonly [string, string])[] = CREDENTIALS, how: Partial<LookUp> = {}) =>
      ask(sent, { ip: '192.0.2.1', afterResponse, ...how }),
    source: Object.assign(source, { headers: [{ header: 'authorization' }], ask }),
  };
}

const found = (record: CallerRecord) => ({ kind: 'found', record });
const ABSENT = { kind: 'absent' };
const UNAVAILABLE = { kind: 'unavailable' };

describe('an answer', () => {
  it.each([
    [undefined, 60],
    [null, 60],
    [90, 90],
    [0, 1],
    [-5, 1],
    [0.2, 1],
    [1e12, 600],
  ])('with ttlSeconds %s is fresh for %s seconds', async (ttlSeconds, seconds) => {
    const { ask, clock, source } = openIsolate();
    source.answer = { ...LIN, ttlSeconds };
    await ask();
    clock.ms += seconds * 1_000 - 1;
    expect([await ask(), source.asked]).toEqual([found(LIN), 1]);
    clock.ms += 1;
    expect([await ask(), source.asked]).toEqual([found(LIN), 2]);
  });

  it('goes on while the source is gone, for ten minutes since it was given', async () => {
    const { ask, clock, source } = openIsolate();
    source.answer = { ...LIN, ttlSeconds: 1 };
    await ask();
    source.answer = 'fails';
    clock.ms += 599_999;
    expect(await ask()).toEqual(found(LIN));
    clock.ms += 1;
    expect(await ask()).toEqual(UNAVAILABLE);
  });

  it('takes texts and whole numbers as ids, null as nothing, and ignores other fields', async () => {
    const { ask, source } = openIsolate();
    source.answer = {
      userId: 42,
      tenantId: null,
      admin: true,
      claims: { plan: 'pro', n: 7, exp: 1, deep: {} },
    };
    expect(await ask()).toEqual(found({ userId: '42', claims: { plan: 'pro', n: '7' } }));
  });

  it('names keys in lower case, as lists and rules do: a deny entry could not hold for a key in upper case', async () => {
    const { source, ask } = openIsolate();
    source.answer = { apiKeyId: 'Key-7A' };
    expect(await ask()).toEqual(found({ apiKeyId: 'key-7a' }));
  });

  it('of nobody is remembered for ten seconds, and writes nothing to KV', async () => {
    const { ask, clock, kv, source } = openIsolate();
    source.answer = {};
    expect(await ask()).toEqual(ABSENT);
    source.answer = LIN;
    clock.ms += 9_999;
    expect([await ask(), source.asked, kv.size]).toEqual([ABSENT, 1, 0]);
    clock.ms += 1;
    expect(await ask()).toEqual(found(LIN));
  });

  it.each([204, 400, 401, 403, 404, 413, 431])('with the status %s knows nobody', async (status) => {
    const { ask, source } = openIsolate();
    source.answer = new Response(null, { status });
    expect(await ask()).toEqual(ABSENT);
  });

  it.each([201, 302, 405, 429, 500, 503])('with the status %s is none', async (status) => {
    const { ask, errors, source } = openIsolate();
    source.answer = new Response('{"userId":"root"}', { status });
    expect([await ask(), String(errors[0])]).toEqual([
      UNAVAILABLE,
      `IdentityAnswer: status ${status}: status ${status}`,
    ]);
  });

  it('is not used once the caller has changed, and neither is one that was asked for before', async () => {
    for (const name of ['user:lin', 'tenant:acme']) {
      const { ask, revisions, source } = openIsolate();
      await ask();
      // The change comes while the source answers.
      source.during = () => {
        revisions[name] = '8-1';
      };
      revisions[name] = '7-1';
      source.answer = { ...LIN, tier: 'free' };
      expect([await ask(), source.asked]).toEqual([found({ ...LIN, tier: 'free' }), 2]);
      source.answer = 'fails';
      expect([await ask(), source.asked]).toEqual([UNAVAILABLE, 3]);
    }
  });

  it('is not asked for with credentials that are too long', async () => {
    const { ask, source } = openIsolate();
    expect([await ask([]), source.asked]).toEqual([ABSENT, 0]);
  });
});

describe('KV', () => {
  it('has an answer for other isolates if it is fresh for a minute or more, and no credential', async () => {
    const kv = new Map<string, string>();
    const first = openIsolate({ kv });
    first.source.answer = { ...LIN, ttlSeconds: 59 };
    await first.ask();
    expect(kv.size).toBe(0);
    first.clock.ms += 59_000;
    first.source.answer = { ...LIN, ttlSeconds: 60 };
    await first.ask();
    const second = openIsolate({ kv });
    second.clock.ms = first.clock.ms;
    expect([await second.ask(), second.source.asked]).toEqual([found(LIN), 0]);
    expect([...kv].flat().join()).not.toContain('secret');
  });

  it('does not bring back a caller whom the source no longer knows', async () => {
    const first = openIsolate();
    await first.ask();
    first.clock.ms += 60_000;
    first.source.answer = {};
    expect(await first.ask()).toEqual(ABSENT);
    const second = openIsolate(first);
    second.clock.ms = first.clock.ms;
    second.source.answer = 'fails';
    expect(await second.ask()).toEqual(UNAVAILABLE);
  });

  it('may be down or damaged: the source is asked', async () => {
    const { ask, clock, errors, faults, kv, source } = openIsolate();
    faults.kv = true;
    expect(await ask()).toEqual(found(LIN));
    faults.kv = false;
    for (const damaged of ['{', '[]', '{"record":{"userId":"root"}}']) {
      for (const name of kv.keys()) kv.set(name, damaged);
      clock.ms += 600_000;
      expect(await ask()).toEqual(found(LIN));
    }
    expect([source.asked, errors.length]).toEqual([4, 4]);
  });
});

describe('a source that fails', () => {
  it('is not asked after five failures; questions after responses find out that it is back', async () => {
    const { ask, clock, settle, source } = openIsolate();
    source.answer = 'fails';
    const askAs = (i: number) => ask([['authorization', `Bearer ${i}`]], { ip: `192.0.2.${i}` });
    for (let i = 0; i < 5; i += 1) expect(await askAs(i)).toEqual(UNAVAILABLE);
    expect([await askAs(5), source.asked]).toEqual([UNAVAILABLE, 5]);
    source.answer = LIN;
    clock.ms += 1_000;
    for (let i = 6; i < 9; i += 1) expect(await askAs(i)).toEqual(UNAVAILABLE);
    await settle();
    expect(source.asked).toBe(8);
    expect([await askAs(9), await askAs(6), source.asked]).toEqual([found(LIN), found(LIN), 9]);
  });

  it('does not make nobody of a caller who adds a credential that it cannot answer', async () => {
    const { ask, source } = openIsolate();
    await ask();
    source.answer = 'fails';
    expect(await ask([['x-api-key', 'made-up'], ...CREDENTIALS])).toEqual(found(LIN));
  });
});

it('an address that shows five unknown credentials in a second has no more looked up', async () => {
  const { ask, clock, source } = openIsolate();
  source.answer = {};
  const askAs = (i: number) => ask([['authorization', `Bearer ${i}`]]);
  for (let i = 0; i < 5; i += 1) await askAs(i);
  expect([await askAs(6), source.asked]).toEqual([{ kind: 'over-allowance', retryAfterMs: 1_000 }, 5]);
  clock.ms += 1_000;
  expect(await askAs(6)).toEqual(ABSENT);
});

describe('UNVERIFIED=reject', () => {
  const planned = async (answer: Answer) => {
    const { source } = openIsolate();
    source.answer = answer;
    const request = new Request('https://weir.test/', { headers: { Authorization: 'Bearer x' } });
    const identity: Identity = await identify(readClientRequest(request), {
      source,
      callers: { ofApiKey: async () => ({ kind: 'absent' }), ofUser: async () => ({ kind: 'absent' }) },
      tokens: undefined,
      ipv6Prefix: 64,
      afterResponse: () => {},
      deadline: { remainingMs: () => 20_000 },
    });
    return planByIdentity(identity, { listed: () => undefined }, { unverified: 'reject', nowMs: 0 });
  };

  it('refuses whom the source does not know, and nobody while it gives no answer', async () => {
    expect(await planned({})).toEqual({ kind: 'unverified', credential: 'api-key' });
    expect(await planned('fails')).toBeUndefined();
    expect(await planned({ userId: false })).toBeUndefined();
    expect(await planned(LIN)).toBeUndefined();
  });
});
