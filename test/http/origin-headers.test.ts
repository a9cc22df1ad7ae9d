// Limits and costs that the origin names: its limits are kept apart from Weir's, and only a plain cost is believed.
import { describe, expect, it } from 'vitest';
import { type OriginRateLimitHeaders, takeOriginHeaders } from '../../src/proxy/headers.ts';

const NAME = 'X-Weir-Cost';
const takeCost = (headers: Headers) =>
  takeOriginHeaders(headers, { rateLimitHeaders: 'rename', costHeader: NAME.toLowerCase() });

describe('the cost that the origin names', () => {
  it.each([
    ['0', 0],
    ['7', 7],
    ['007', 7],
    ['999999999999', 999_999_999_999],
  ])('is believed: %s', (text, cost) => {
    const headers = new Headers({ [NAME]: text });
    expect(takeCost(headers)).toBe(cost);
    expect(headers.has(NAME)).toBe(false);
  });

  it.each(['', '-5', '+5', '1.5', '1e3', '0x10', '1_000', '5 6', '5, 6', 'many', 'NaN', '9'.repeat(13)])(
    'is not believed and does not reach the client: "%s"',
    (text) => {
      const headers = new Headers({ [NAME]: text });
      expect(takeCost(headers)).toBeUndefined();
      expect(headers.has(NAME)).toBe(false);
    },
  );

  it('is missing if the origin names none', () => expect(takeCost(new Headers())).toBeUndefined());
});

describe('cookies of the origin', () => {
  const cookiesAfter = (cookies: readonly string[]) => {
    const headers = new Headers();
    for (const cookie of cookies) headers.append('Set-Cookie', cookie);
    takeCost(headers);
    return headers.getSetCookie();
  };

  it.each([
    '__Secure-weir=x',
    '__Secure-weir=x; Path=/; Domain=example.com; Secure',
    '__Host-weir=x; Path=/; Secure',
    '  __SECURE-Weir \t= x',
    '__secure-weir',
    '=__Secure-weir=x',
    '= __Host-weir=x',
    '==__Host-weir=x',
    'other=x; Path=/_weir',
    'other=x;path=/_weir/',
    'other=x; Max-Age=9 ;  PATH = /_weir/admin ; Secure',
    'other=x; Path=/; Path=/_weir',
    'other=x; Path=/_WEIR',
  ])('are dropped if they are meant for Weir: %s', (cookie) => {
    expect(cookiesAfter([cookie])).toEqual([]);
    expect(cookiesAfter(['a=1', cookie, 'b=2; Path=/'])).toEqual(['a=1', 'b=2; Path=/']);
  });

  it.each([
    'session=1; Path=/; HttpOnly; Expires=Wed, 21 Oct 2026 07:28:00 GMT',
    'weir=1',
    '__Secure-weird=1; Secure',
    'a=__Secure-weir=1',
    'a=1; Path=/_weirdo',
    'a=1; Path=/api/_weir',
    'a=1; Comment=path=/_weir',
    '',
  ])('are kept otherwise: "%s"', (cookie) => expect(cookiesAfter([cookie, 'z=1'])).toEqual([cookie, 'z=1']));
});

describe('headers of the origin that only Weir may set', () => {
  it.each(['X-Weir-Degraded', 'X-Weir-Fallback', 'X-Weir-Rules-Version', 'X-Weir-User', 'X-Weir-'])(
    'do not reach the client: %s',
    (name) => {
      const headers = new Headers({ [name]: 'forged', 'X-Weirdo': 'kept', 'X-We': 'kept' });
      takeCost(headers);
      expect(Object.fromEntries(headers)).toEqual({ 'x-we': 'kept', 'x-weirdo': 'kept' });
    },
  );

  it('leave the cost readable', () => {
    const headers = new Headers({ 'X-Weir-Degraded': 'forged', [NAME]: '4' });
    expect(takeCost(headers)).toBe(4);
    expect([...headers]).toEqual([]);
  });
});

describe('limits that the origin names', () => {
  const passedOn = (rateLimitHeaders: OriginRateLimitHeaders) => {
    const headers = new Headers({
      RateLimit: '"o";r=3',
      'RateLimit-Policy': '"o";q=7',
      'X-RateLimit-Limit': '7',
      'X-RateLimits': 'no limit',
      RateLimited: 'no limit',
    });
    takeOriginHeaders(headers, { rateLimitHeaders, costHeader: NAME.toLowerCase() });
    return Object.fromEntries(headers);
  };
  const others = { 'x-ratelimits': 'no limit', ratelimited: 'no limit' };

  it('have other names if they are renamed, and nothing keeps its name', () =>
    expect(passedOn('rename')).toEqual({
      ...others,
      'x-origin-ratelimit': '"o";r=3',
      'x-origin-ratelimit-policy': '"o";q=7',
      'x-origin-ratelimit-limit': '7',
    }));

  it('do not reach the client if they are dropped', () => expect(passedOn('drop')).toEqual(others));

  it('reach the client as they are if they are kept', () =>
    expect(passedOn('keep')).toEqual({
      ...others,
      ratelimit: '"o";r=3',
      'ratelimit-policy': '"o";q=7',
      'x-ratelimit-limit': '7',
    }));
});
