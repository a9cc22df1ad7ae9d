// Which headers of requests and responses pass through, and which ones Weir adds.

import { describe, expect, test } from 'vitest';
import { readClientRequest } from '../../src/http/guard.ts';
import {
  type ForwardedHeaders,
  type HeaderPolicy,
  takeOriginHeaders,
  toOriginHeaders,
} from '../../src/proxy/headers.ts';

type Pairs = [string, string][];

const sent = (pairs: Pairs, options: Options = {}) => {
  const { url = 'https://api.example.com/x', method = 'GET', policy, ...others } = options;
  const asked = {
    hop: HOP,
    policy: { overrides: 'drop', hidesAccess: false, ...policy },
    ...others,
  } as const;
  return Object.fromEntries(
    toOriginHeaders(readClientRequest(new Request(url, { method, headers: pairs })), asked),
  );
};

interface Options extends Partial<Omit<ForwardedHeaders, 'policy'>> {
  readonly url?: string;
  readonly method?: string;
  readonly policy?: Partial<HeaderPolicy>;
}

const HOP = '0123456789abcdef';
const FORWARDED = { 'x-forwarded-proto': 'https', 'x-forwarded-host': 'api.example.com', 'x-weir-hop': HOP };

describe('the origin', () => {
  test('gets the headers of the client, and the host and protocol that the client used', () => {
    expect(
      sent([
        ['Accept', 'a, b'],
        ['X-Mine', '1'],
        ['X-Mine', '2'],
        ['Accept-Encoding', 'br'],
      ]),
    ).toEqual({
      ...FORWARDED,
      accept: 'a, b',
      'x-mine': '1, 2',
      'accept-encoding': 'br',
    });
  });

  test('gets no header of the connection, and none that Connection names', () => {
    const headers: Pairs = [
      ['Connection', 'close, X-Hop ,, "bad name", x-other'],
      ['X-Hop', '1'],
      ['X-Other', '1'],
      ['Keep-Alive', 'timeout=5'],
      ['Proxy-Authorization', 'Basic x'],
      ['Proxy-Connection', 'keep-alive'],
      ['TE', 'trailers'],
      ['Trailer', 'X-Sum'],
      ['Transfer-Encoding', 'chunked'],
      ['Upgrade', 'h2c'],
      ['Expect', '100-continue'],
      ['X-End', 'to end'],
    ];
    expect(sent(headers)).toEqual({ ...FORWARDED, 'x-end': 'to end' });
  });

  test('gets the client’s address even if Connection names it for removal', () => {
    const headers: Pairs = [
      ['Connection', 'cf-connecting-ip, x-forwarded-for'],
      ['CF-Connecting-IP', '9.9.9.9'],
      ['X-Forwarded-For', '6.6.6.6'],
    ];
    expect(sent(headers)).toMatchObject({
      'cf-connecting-ip': '9.9.9.9',
      'x-forwarded-for': '6.6.6.6, 9.9.9.9',
    });
  });

  test('gets what Cloudflare and Weir say of the client even if Connection names it for removal', () => {
    const names = ['CF-IPCountry', 'CF-Ray', 'True-Client-IP', 'X-Real-IP'];
    const headers: Pairs = [
      ['Connection', names.join(', ')],
      ['CF-Connecting-IP', '9.9.9.9'],
      ['CF-IPCountry', 'DE'],
      ['CF-Ray', '1-FRA'],
      ['True-Client-IP', '6.6.6.6'],
      ['X-Real-IP', '6.6.6.6'],
    ];
    expect(sent(headers)).toMatchObject({
      'cf-ipcountry': 'DE',
      'cf-ray': '1-FRA',
      'true-client-ip': '9.9.9.9',
      'x-real-ip': '9.9.9.9',
    });
  });

  test('gets the upgrade to a WebSocket', () => {
    const headers: Pairs = [
      ['Connection', 'Upgrade'],
      ['Upgrade', 'websocket'],
      ['Sec-WebSocket-Protocol', 'one'],
    ];
    const others = { ...FORWARDED, 'sec-websocket-protocol': 'one' };
    expect(sent(headers)).toEqual({ ...others, upgrade: 'websocket' });
    // The runtime would turn any other method into a GET.
    expect(sent(headers, { method: 'POST' })).toEqual(others);
    expect(sent([['Upgrade', 'h2c']])).toEqual(FORWARDED);
  });

  const FORGED = ['X-Weir-User', 'x-weir-anything', 'X_Weir_User', 'X-Weir_Tier', 'X-Weir-Region'];

  // PHP reads a dot in a name as `_`, and lighttpd every mark.
  const MARKED = ['X.Weir.User', "x-weir'user", 'X!Weir~Tier', 'X+Weir-Key-Id', 'X.Weir_Tenant'];

  test.each([...FORGED, ...MARKED])('never gets a made-up %s', (name) =>
    expect(sent([[name, 'admin']])).toEqual(FORWARDED),
  );

  // A CGI program would send its own calls through it.
  test('never gets a Proxy', () => expect(sent([['Proxy', 'http://evil.test']])).toEqual(FORWARDED));

  const OVERRIDES = [
    ['X-HTTP-Method-Override', 'DELETE'],
    ['X-Method-Override', 'DELETE'],
    ['X-HTTP-Method', 'DELETE'],
    ['X-Original-URL', '/admin'],
    ['X-Rewrite-URL', '/admin'],
    ['X_HTTP_Method_Override', 'DELETE'],
    ['X_Original-URL', '/admin'],
    ['X-Original-URI', '/admin'],
    ['X-Original-Path', '/admin'],
    ['X-Original-Method', 'DELETE'],
    ['X-Original-Host', 'evil.test'],
    ['X-Forwarded-Uri', '/admin'],
    ['X-Forwarded-Path', '/admin'],
    ['X-Forwarded-Method', 'DELETE'],
    ['X-Forwarded-Prefix', '/admin'],
    ['X_Forwarded_Prefix', '/admin'],
    ['X.Original.URL', '/admin'],
    ['SCRIPT_NAME', '/x'],
    ['Script-Name', '/x'],
    ['X-Script-Name', '/x'],
    ['X-Envoy-Original-Path', '/admin'],
    ['X-Replaced-Path', '/admin'],
    ['X-Host', 'evil.test'],
    ['X-HTTP-Host-Override', 'evil.test'],
  ] as const;

  test.each([
    'Forwarded',
    'Client-IP',
    'X-Client-IP',
    'X-Cluster-Client-IP',
    'X-Originating-IP',
    'X-Remote-IP',
    'X-Remote-Addr',
    'X-Envoy-External-Address',
    'Fastly-Client-IP',
    'X_API_Key',
    'X-API_Key',
    'X_Real_IP',
    'True_Client_IP',
    'CF_Connecting_IP',
    'X_Forwarded_For',
    'X-Forwarded-Port',
    'X-Forwarded-Ssl',
    'X-Forwarded-Scheme',
    'X-Forwarded-Server',
    'X-Forwarded-User',
    'X-Forwarded-Anything',
    'X_Forwarded_User',
    'X.Forwarded.For',
    'CF.Connecting.IP',
    'X~Real~IP',
    'X.API.Key',
  ])('never gets %s, which only a client can have sent', (name) => {
    for (const overrides of ['drop', 'keep'] as const)
      expect(sent([[name, '203.0.113.66']], { policy: { overrides } })).toEqual(FORWARDED);
  });

  test.each(['X-Real-IP', 'True-Client-IP'])('gets the real address in %s, or no such header', (name) => {
    const forged: Pairs = [[name, '203.0.113.66']];
    expect(sent(forged)).toEqual(FORWARDED);
    expect(sent([...forged, ['CF-Connecting-IP', '192.0.2.1']])).toEqual({
      ...FORWARDED,
      'cf-connecting-ip': '192.0.2.1',
      'x-forwarded-for': '192.0.2.1',
      [name.toLowerCase()]: '192.0.2.1',
    });
  });

  test.each([
    'Via',
    'X-Request-ID',
    'Traceparent',
    'Authorization',
    'X-API-Key',
    'X_My_Header',
    'X.My.Header',
    'Cf-Ray',
  ])('gets %s as the client has sent it', (name) =>
    expect(sent([[name, 'a']])).toEqual({ ...FORWARDED, [name.toLowerCase()]: 'a' }),
  );

  test.each(OVERRIDES)(
    'gets %s, which could turn the request into another one, only if configured',
    (...pair) => {
      expect(sent([[...pair]])).toEqual(FORWARDED);
      expect(sent([[...pair]], { policy: { overrides: 'keep' } })).toEqual({
        ...FORWARDED,
        [pair[0].toLowerCase()]: pair[1],
      });
    },
  );

  describe('where Cloudflare Access protects the admin route', () => {
    const hidden = (pairs: Pairs) => sent(pairs, { policy: { hidesAccess: true } });
    const cookie = (value: string) => hidden([['Cookie', value]])['cookie'];

    test.each([
      'Cf-Access-Jwt-Assertion',
      'Cf-Access-Token',
      'Cf-Access-Client-Id',
      'Cf-Access-Client-Secret',
    ])('does not get %s', (name) => {
      expect(hidden([[name, 'secret']])).toEqual(FORWARDED);
      expect(sent([[name, 'secret']])).toEqual({ ...FORWARDED, [name.toLowerCase()]: 'secret' });
    });

    test.each([
      ['CF_Authorization=secret', undefined],
      ['a=1; CF_Authorization=secret; b=2', 'a=1; b=2'],
      ['CF_Authorization=secret; a=1', 'a=1'],
      ['a=1;CF_Authorization=secret', 'a=1'],
      ['a=1; cf_authorization = secret', 'a=1'],
      ['CF_Authorization=one; CF_Authorization=two; a=1', 'a=1'],
      ['a=CF_Authorization=secret', 'a=CF_Authorization=secret'],
      ['a=1;b=2 ;  c', 'a=1;b=2 ;  c'],
    ])('gets no Access cookie: "%s" becomes "%s"', (given, passed) => expect(cookie(given)).toBe(passed));

    test('differs from one without Access, which gets all cookies unchanged', () =>
      expect(sent([['Cookie', 'CF_Authorization=x']])['cookie']).toBe('CF_Authorization=x'));
  });

  test('gets the caller as Weir knows it', () => {
    const identity = { 'X-Weir-User': 'ann', 'X-Weir-Tier': 'free' };
    const spoofed: Pairs = [
      ['X-Weir-User', 'admin'],
      ['X-Weir-Tenant', 'acme'],
    ];
    expect(sent(spoofed, { identity })).toEqual({
      ...FORWARDED,
      'x-weir-user': 'ann',
      'x-weir-tier': 'free',
    });
  });

  test('gets the headers that Weir adds, even if Connection names them', () => {
    const headers: Pairs = [['Connection', 'X-Weir-User, X-Forwarded-Host']];
    expect(sent(headers, { identity: { 'X-Weir-User': 'ann' } })).toEqual({
      ...FORWARDED,
      'x-weir-user': 'ann',
    });
  });

  test.each([
    [[], undefined],
    [[['CF-Connecting-IP', '9.9.9.9']], '9.9.9.9'],
    [[['X-Forwarded-For', '1.1.1.1']], '1.1.1.1'],
    [
      [
        ['X-Forwarded-For', '1.1.1.1, 2.2.2.2'],
        ['CF-Connecting-IP', '9.9.9.9'],
      ],
      '1.1.1.1, 2.2.2.2, 9.9.9.9',
    ],
    // In the form that Cloudflare sends.
    [
      [
        ['X-Forwarded-For', '1.1.1.1, 9.9.9.9'],
        ['CF-Connecting-IP', '9.9.9.9'],
      ],
      '1.1.1.1, 9.9.9.9',
    ],
    [
      [
        ['X_Forwarded_For', '6.6.6.6'],
        ['CF-Connecting-IP', '9.9.9.9'],
      ],
      '9.9.9.9',
    ],
  ] as [Pairs, string | undefined][])(
    'gets %j with the client’s address last in X-Forwarded-For: %s',
    (pairs, path) => {
      const headers = sent(pairs);
      expect(headers['x-forwarded-for']).toBe(path);
      expect(Object.keys(headers)).not.toContain('x_forwarded_for');
    },
  );

  test('gets the real host and protocol, not those that a client claims', () => {
    const spoofed: Pairs = [
      ['X-Forwarded-Host', 'evil.example'],
      ['X-Forwarded-Proto', 'http'],
    ];
    expect(sent(spoofed)).toEqual(FORWARDED);
  });
});

describe('the client', () => {
  test('gets the headers of the origin, each cookie separately, without those of the connection', () => {
    const answer = new Headers([
      ['Set-Cookie', 'a=1; Expires=Wed, 21 Oct 2026 07:28:00 GMT'],
      ['Set-Cookie', 'b=2'],
      ['Connection', 'close, X-Hop'],
      ['X-Hop', '1'],
      ['Keep-Alive', 'timeout=5'],
      ['Proxy-Authenticate', 'Basic'],
      ['Proxy-Status', 'cache; hit'],
      ['Vary', 'Accept'],
    ]);
    takeOriginHeaders(answer, { rateLimitHeaders: 'keep', costHeader: 'x-weir-cost' });
    expect([...answer]).toEqual([
      ['proxy-status', 'cache; hit'],
      ['set-cookie', 'a=1; Expires=Wed, 21 Oct 2026 07:28:00 GMT'],
      ['set-cookie', 'b=2'],
      ['vary', 'Accept'],
    ]);
  });
});
