// Identity in real isolates: credentials that cannot be verified yield no fresh quota, whatever a client sends.
import { request as httpRequest } from 'node:http';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { freshIp, type IsolateName, type Weir } from '../../local/weir.ts';
import {
  ADDRESSES_OF_A_PREFIX,
  alicesTricks,
  type HeaderList,
  NO_ADDRESSES,
  nobodysTricks,
  type Props,
  SPELLINGS_OF_IPV4,
} from '../http/identity-tricks.ts';
import {
  AUDIENCE,
  goodClaims,
  ISSUER,
  type KeyPair,
  type KeyServer,
  newPair,
  sign,
  startKeyServer,
  toJwk,
} from '../identity/issuer.ts';
import { madeUpKey } from '../rules/callers-harness.ts';
import { startWeir } from '../shared/weir.ts';

const LIMIT = 3;
/** Exactly the limit passes, and nothing later. */
const FIRST_ONES = [0, 1, 2];
const SCOPES = ['ip', 'user', 'apiKey', 'tenant'] as const;
const ISOLATES: readonly IsolateName[] = ['one', 'two', 'three'];

let weir: Weir;
let server: KeyServer;
let [issuer, stranger]: KeyPair[] = [];
let props: Props;

beforeAll(async () => {
  server = await startKeyServer();
  issuer = await newPair();
  stranger = await newPair();
  server.keys = [await toJwk(issuer, 'rsa-1', 'RS256')];
  const jwt = { jwksUrl: `${server.url}/keys`, issuer: ISSUER, audience: AUDIENCE, tenantClaim: 'org' };
  weir = await startWeir({ JWT: JSON.stringify(jwt) });
  for (const scope of SCOPES) await weir.admin('/rules', { method: 'POST', body: ruleFor(scope) });
  const { key } = await weir.admin<{ key: string }>('/keys', { method: 'POST', body: { name: 'good' } });
  for (const isolate of ISOLATES) await untilRulesIn(isolate);
  props = {
    goodKey: key,
    goodToken: await token('alice'),
    madeUpKeys: [await madeUpKey(), await madeUpKey()],
    forgedTokens: [await token('alice', stranger), await token('bob', stranger, 'other')],
  };
  // The isolates look the key up now, because made-up keys use up the look-ups of a second later.
  for (const isolate of ISOLATES) await send('/elsewhere', [['X-API-Key', key]], isolate);
});
afterAll(async () => {
  await weir?.[Symbol.asyncDispose]();
  await server?.stop();
});

// A sliding window, so that no end of an hour makes room.
const ruleFor = (scope: string) => ({
  resource: `/${scope}`,
  scope,
  algorithm: 'sliding-window-log',
  limit: LIMIT,
  windowSeconds: 3600,
});

const untilRulesIn = (isolate: IsolateName) =>
  vi.waitFor(
    async () => {
      const { headers } = await weir.call('/tenant', { isolate });
      expect(headers.get('X-RateLimit-Limit')).toBe(String(LIMIT));
    },
    { timeout: 30_000 },
  );

const token = (sub: string, pair = issuer, kid = 'rsa-1') => {
  const claims = { ...goodClaims, exp: Math.floor(Date.now() / 1000) + 3600, jti: crypto.randomUUID(), sub };
  return sign(pair as KeyPair, { alg: 'RS256', kid }, claims);
};

interface Answer {
  readonly status: number | undefined;
  readonly remaining: string | string[] | undefined;
}

/** Sends exactly these headers, including those that come twice. */
function send(path: string, headers: HeaderList, isolate: IsolateName = 'one'): Promise<Answer> {
  const url = new URL(path, weir.isolates.urls[isolate]);
  const all: HeaderList = [['Host', url.host], ['Connection', 'close'], ['X-Weir-Region', 'us'], ...headers];
  return new Promise((resolve, reject) => {
    const request = httpRequest(url, { headers: all.flat() }, (response) => {
      response.resume();
      resolve({ status: response.statusCode, remaining: response.headers['x-ratelimit-remaining'] });
    });
    request.on('error', reject).end();
  });
}

/** Sends the requests one after the other, each to the next isolate. Returns the indexes of those that pass. */
async function passing(path: string, requests: readonly HeaderList[]): Promise<number[]> {
  const passed: number[] = [];
  for (const [i, headers] of requests.entries()) {
    const { status } = await send(path, headers, ISOLATES[i % ISOLATES.length]);
    if (status === 200) passed.push(i);
    else expect(status).toBe(429);
  }
  return passed;
}

const from = (ip: string, headers: HeaderList = []): HeaderList => [['CF-Connecting-IP', ip], ...headers];
const bearing = (jwt: string): HeaderList => [['Authorization', `Bearer ${jwt}`]];

it('requests that come at once to an isolate without the issuer’s keys are all verified', async () => {
  const ip = freshIp();
  const tokens = await Promise.all(Array.from({ length: 20 }, (_, i) => token(`user-${i}`)));
  const answers = await Promise.all(tokens.map((jwt) => send('/user', from(ip, bearing(jwt)), 'three')));
  expect(LIMIT).toBe(3);
  expect(answers).toEqual(Array(20).fill({ status: 200, remaining: '2' }));
});

describe.each(SCOPES)('under a rule by %s, exactly the limit passes', (scope) => {
  it('for one IPv4 address, with any bad credentials', async () => {
    const ip = freshIp();
    const requests = nobodysTricks(props).map(([, headers]) => from(ip, headers));
    expect(await passing(`/${scope}`, requests)).toEqual(FIRST_ONES);
  });

  it('for new made-up keys and tokens each time', async () => {
    const ip = freshIp();
    const requests: HeaderList[] = [];
    for (let i = 0; i < 15; i += 1)
      requests.push(
        from(ip, [['X-API-Key', await madeUpKey()]]),
        from(ip, bearing(await token(`user-${i}`, stranger))),
        from(ip, bearing(await token(`user-${i}`, stranger, `key-${i}`))),
      );
    expect(await passing(`/${scope}`, requests)).toEqual(FIRST_ONES);
  });

  it('for one IPv4 address in every spelling', async () => {
    expect(
      await passing(
        `/${scope}`,
        SPELLINGS_OF_IPV4.map((ip) => from(ip)),
      ),
    ).toEqual(FIRST_ONES);
  });

  it('for a prefix of IPv6', async () => {
    expect(
      await passing(
        `/${scope}`,
        ADDRESSES_OF_A_PREFIX.map((ip) => from(ip)),
      ),
    ).toEqual(FIRST_ONES);
  });

  it('for all callers without an address together', async () => {
    expect(await passing(`/${scope}`, NO_ADDRESSES)).toEqual(FIRST_ONES);
  });
});

describe('a caller with a valid credential', () => {
  it('has one quota, with any valid token, other headers, and from any address', async () => {
    const requests = alicesTricks(props).map(([, headers]) => from(freshIp(), headers));
    for (let i = 0; i < 5; i += 1) requests.push(from(freshIp(), bearing(await token('alice'))));
    expect(await passing('/user', requests)).toEqual(FIRST_ONES);
  });

  it('has its own quota', async () => {
    const ip = freshIp();
    expect(await passing('/user', Array(5).fill(from(ip)))).toEqual(FIRST_ONES);
    expect(await passing('/user', Array(5).fill(from(ip, bearing(await token('bob')))))).toEqual(FIRST_ONES);
    const withKey = from(ip, [['X-API-Key', ` ${props.goodKey}  `]]);
    expect(await passing('/apiKey', Array(5).fill(withKey))).toEqual(FIRST_ONES);
    expect((await send('/apiKey', from(ip))).status).toBe(200);
  });
});

it('only the issuer’s keys were ever fetched', () => {
  expect(new Set(server.requests)).toEqual(new Set(['/keys']));
});
