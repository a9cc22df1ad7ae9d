// Where keys stand, in a real isolate: each request counts once, by its key or by its address, however it shows the key.
import { request as httpRequest } from 'node:http';
import { SignJWT } from 'jose';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { freshIp, type Weir } from '../../local/weir.ts';
import { startWeir } from '../shared/weir.ts';

const SECRET = 'a-secret-of-at-least-thirty-two-characters';
/** Keys of some services have three parts, like a JWT. */
const KEY = `SG.${'a'.repeat(22)}.${'b'.repeat(43)}`;
const OTHER = 'sk_live_51NbXanother-api-key';
const LIKE_A_JWT = `eyJhbGciOiJIUzI1NiJ9.${btoa('{"sub":"alice"}').replaceAll('=', '')}.AAAA`;

type HeaderList = readonly (readonly [name: string, value: string])[];
/** Who was counted; or `refused`: nobody, because the request did not pass. */
type Counted = 'key' | 'other key' | 'user' | 'ip' | 'refused';
type Try = readonly [name: string, counted: Counted, headers: HeaderList];

const basic = (userAndPassword: string) => `Basic ${btoa(userAndPassword)}`;
const one = (name: string, value: string): HeaderList => [[name, value]];
const auth = (value: string) => one('Authorization', value);

const tries = (jwt: string): readonly Try[] => [
  ['the first header', 'key', one('X-API-Key', KEY)],
  ['the name in capital letters', 'key', one('X-SHOP-KEY', KEY)],
  ['blanks and tabs around it', 'key', one('X-Shop-Key', ` \t${KEY}\t `)],
  ['Bearer', 'key', auth(`Bearer ${KEY}`)],
  ['bearer, in any letters', 'key', auth(`bEaReR ${KEY}`)],
  ['several blanks after the scheme', 'key', auth(`Bearer  \t ${KEY}  `)],
  ['the user name of Basic', 'key', auth(basic(`${KEY}:`))],
  ['Basic with a password', 'key', auth(basic(`${KEY}:ignored:too`))],
  ['Basic without a colon', 'key', auth(basic(KEY))],
  ['Basic without padding', 'key', auth(basic(`${KEY}:`).replaceAll('=', ''))],
  ['Basic, in any letters', 'key', auth(basic(`${KEY}:`).replace('Basic', 'bASIC'))],
  ['another scheme', 'key', auth(`token ${KEY}`)],
  ['the same key in two places', 'key', [...one('X-API-Key', KEY), ...auth(`Bearer ${KEY}`)]],
  [
    'the same key in three places',
    'key',
    [['X-API-Key', KEY], ['X-Shop-Key', KEY], ...auth(basic(`${KEY}:`))],
  ],
  [
    'an empty header beside it',
    'key',
    [
      ['X-API-Key', ''],
      ['X-Shop-Key', KEY],
    ],
  ],
  [
    'an empty user name beside it',
    'key',
    [
      ['X-API-Key', KEY],
      ['Authorization', 'Basic Og=='],
    ],
  ],
  [
    'a token beside it',
    'key',
    [
      ['X-API-Key', KEY],
      ['Authorization', `Bearer ${jwt}`],
    ],
  ],
  [
    'a forged token beside it',
    'key',
    [
      ['X-Shop-Key', KEY],
      ['Authorization', `Bearer ${LIKE_A_JWT}`],
    ],
  ],
  ['another key', 'other key', auth(`Bearer ${OTHER}`)],
  ['a token', 'user', auth(`Bearer ${jwt}`)],
  ['a forged token', 'ip', auth(`Bearer ${LIKE_A_JWT}`)],
  [
    'two keys in two headers',
    'refused',
    [
      ['X-API-Key', OTHER],
      ['X-Shop-Key', KEY],
    ],
  ],
  [
    'two keys, one of them made up',
    'refused',
    [
      ['X-API-Key', 'made-up-key'],
      ['Authorization', `Bearer ${KEY}`],
    ],
  ],
  [
    'two keys, header and Basic',
    'refused',
    [
      ['X-Shop-Key', OTHER],
      ['Authorization', basic(`${KEY}:`)],
    ],
  ],
  [
    'the key in other letters',
    'refused',
    [
      ['X-API-Key', KEY.toUpperCase()],
      ['X-Shop-Key', KEY],
    ],
  ],
  [
    'two keys and a token',
    'refused',
    [
      ['X-API-Key', OTHER],
      ['X-Shop-Key', KEY],
      ['Authorization', `Bearer ${jwt}`],
    ],
  ],
  [
    'two lines of one header',
    'ip',
    [
      ['X-API-Key', KEY],
      ['X-API-Key', OTHER],
    ],
  ],
  [
    'two lines with the same key',
    'ip',
    [
      ['X-Shop-Key', KEY],
      ['X-Shop-Key', KEY],
    ],
  ],
  [
    'two lines of Bearer',
    'ip',
    [
      ['Authorization', `Bearer ${KEY}`],
      ['Authorization', `Bearer ${OTHER}`],
    ],
  ],
  [
    'Bearer behind another scheme',
    'ip',
    [
      ['Authorization', 'Digest a=b'],
      ['Authorization', `Bearer ${KEY}`],
    ],
  ],
  [
    'Basic behind another scheme',
    'ip',
    [
      ['Authorization', 'Digest a=b'],
      ['Authorization', basic(`${KEY}:`)],
    ],
  ],
  ['the key in capital letters', 'ip', one('X-API-Key', KEY.toUpperCase())],
  ['the key with a letter more', 'ip', auth(`Bearer ${KEY}x`)],
  ['the key in quotes', 'ip', auth(`Bearer "${KEY}"`)],
  ['the key and more', 'ip', auth(`Bearer ${KEY} x`)],
  ['no blank after the scheme', 'ip', auth(`Bearer${KEY}`)],
  ['a colon after the scheme', 'ip', auth(`Bearer:${KEY}`)],
  ['an unknown scheme', 'ip', auth(`Key ${KEY}`)],
  ['the key as the password of Basic', 'ip', auth(basic(`x:${KEY}`))],
  ['Basic that is no base64', 'ip', auth(`Basic ${KEY}`)],
  ['the name with an underscore', 'ip', one('X_Shop_Key', KEY)],
  ['a header that is no place', 'ip', one('X-Other-Key', KEY)],
];

let weir: Weir;
const ids: Record<string, Counted> = {};
beforeAll(async () => {
  weir = await startWeir(
    {
      API_KEY_HEADERS:
        'X-API-Key, X-Shop-Key, Authorization: Bearer, Authorization: Basic, Authorization: Token',
      JWT: JSON.stringify({ algorithms: ['HS256'] }),
      JWT_SECRET: SECRET,
      DEADLINE_MS: '4000',
    },
    { isolates: ['one'] },
  );
  for (const [key, name] of [
    [KEY, 'key'],
    [OTHER, 'other key'],
  ] as const) {
    const { id } = await weir.admin<{ id: string }>('/keys', { method: 'POST', body: { key } });
    ids[id] = name;
  }
  for (const [key, name] of [
    [KEY, 'key'],
    [OTHER, 'other key'],
  ] as const)
    await vi.waitFor(async () => expect((await send('/x', one('X-API-Key', key))).counted).toBe(name), {
      timeout: 30_000,
    });
});
afterAll(() => weir?.[Symbol.asyncDispose]());

interface Answer {
  readonly status: number;
  readonly counted: Counted;
  /** What the origin got. */
  readonly headers: readonly (readonly [string, string])[];
}

/** Sends exactly these headers, also several of one name, from an address of its own. */
function send(path: string, sent: HeaderList): Promise<Answer> {
  const url = new URL(path, weir.isolates.urls.one);
  const all = [['Host', url.host], ['Connection', 'close'], ['CF-Connecting-IP', freshIp()], ...sent];
  return new Promise((resolve, reject) => {
    const request = httpRequest(url, { headers: all.flat() }, async (response) => {
      const status = response.statusCode ?? 0;
      const text = Buffer.concat(await response.toArray()).toString();
      if (status !== 200) return resolve({ status, counted: 'refused', headers: [] });
      const { headers } = JSON.parse(text) as Pick<Answer, 'headers'>;
      const got = new Map(headers);
      const id = got.get('X-Weir-Key-Id');
      const counted = id === undefined ? (got.has('X-Weir-User') ? 'user' : 'ip') : (ids[id] ?? 'ip');
      resolve({ status, counted, headers });
    });
    request.on('error', reject).end();
  });
}

it('each of 42 ways to show a key counts once, by the key that the origin finds, or by the address', async () => {
  const jwt = await new SignJWT({ sub: 'alice' })
    .setProtectedHeader({ alg: 'HS256' })
    .setExpirationTime('1h')
    .sign(new TextEncoder().encode(SECRET));
  const all = tries(jwt);
  expect(all).toHaveLength(42);
  const expected = all.map(([name, counted]) => [name, counted]);
  const limit = all.filter(([, counted]) => counted === 'key').length;
  const rule = {
    resource: '/limited',
    scope: 'apiKey',
    algorithm: 'sliding-window-log',
    windowSeconds: 3600,
  };
  await weir.admin('/rules', { method: 'POST', body: { ...rule, limit } });
  await expect
    .poll(async () => (await weir.call('/limited', { ip: freshIp() })).headers.get('X-RateLimit-Limit'), {
      timeout: 30_000,
    })
    .toBe(String(limit));
  const seen: unknown[] = [];
  for (const [name, , headers] of all) seen.push([name, (await send('/limited', headers)).counted]);
  expect(seen).toEqual(expected);
  // Exactly the limit has passed as this key: the next one does not.
  expect((await send('/limited', one('X-API-Key', KEY))).status).toBe(429);
});

it('two different keys get 400, and no key of a denied customer hides behind another', async () => {
  const [id] = Object.entries(ids).find(([, name]) => name === 'other key') ?? [];
  await weir.admin('/lists', { method: 'POST', body: { list: 'deny', kind: 'apiKey', value: id } });
  await expect
    .poll(async () => (await send('/x', auth(`Bearer ${OTHER}`))).status, { timeout: 30_000 })
    .toBe(403);
  const { status, headers, body } = await weir
    .call('/x', {
      headers: { 'X-API-Key': KEY, Authorization: `Bearer ${OTHER}` },
    })
    .then(async (answer) => ({ status: answer.status, headers: answer.headers, body: await answer.json() }));
  expect([status, headers.get('WWW-Authenticate'), body]).toEqual([
    400,
    null,
    expect.objectContaining({ code: 'several-keys' }),
  ]);
});

it('the origin gets a key as the client sent it, several lines as one, and none under a name with _', async () => {
  const namesOf = (headers: Answer['headers']) =>
    headers.filter(([name]) => /key$|authorization/i.test(name));
  const basicKey = auth(basic(`${KEY}:`));
  expect(namesOf((await send('/x', basicKey)).headers)).toEqual(basicKey);
  const twice = await send('/x', [
    ['X-Shop-Key', KEY],
    ['X-Shop-Key', OTHER],
  ]);
  expect(namesOf(twice.headers)).toEqual([['X-Shop-Key', `${KEY}, ${OTHER}`]]);
  expect(namesOf((await send('/x', one('X_Shop_Key', KEY))).headers)).toEqual([]);
});

it('GET /_weir/quota finds the caller in the same places', async () => {
  const quota = await weir.call('/_weir/quota', { headers: { Authorization: basic(`${KEY}:`) } });
  const { caller } = (await quota.json()) as { caller: { apiKeyId: string } };
  expect(ids[caller.apiKeyId]).toBe('key');
  const several = await weir.call('/_weir/quota', { headers: { 'X-API-Key': KEY, 'X-Shop-Key': OTHER } });
  expect(several.status).toBe(400);
});
