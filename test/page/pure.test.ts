// What the page computes by itself, without a browser.
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { parseCurl } from '../../page/curl.ts';
import { type Effect, effectSentences } from '../../page/effect-sentences.ts';
import { ago, milliseconds, span } from '../../page/format.ts';
import { ALGORITHMS, holdsSeats, nearnessOf, sentenceOf } from '../../page/rule-sentence.ts';
import { fillMinutes } from '../../page/series.ts';
import { decisionQuantile, ratesBetween, sampleBefore, type Traffic } from '../../page/traffic.ts';
import { ALGORITHM_IDS, idsWith } from '../../src/core/counting/algorithms/registry.ts';

describe('a pasted curl command', () => {
  const jwt = `e30.${btoa(JSON.stringify({ sub: 'ada' }))}.x`;
  it.each([
    ['curl https://api.example.com/a/b?x=1', { method: 'GET', path: '/a/b?x=1' }],
    ['curl api.example.com', { method: 'GET', path: '/' }],
    ['https://api.example.com/a', { method: 'GET', path: '/a' }],
    ["curl -X delete 'https://x//a/%2e%2e/B;v=1'", { method: 'DELETE', path: '//a/%2e%2e/B;v=1' }],
    ['curl -XPUT http://x/a', { method: 'PUT', path: '/a' }],
    ['curl --request=PATCH --url http://x/a', { method: 'PATCH', path: '/a' }],
    [`curl http://x/a -d '{"a": "b c"}'`, { method: 'POST', path: '/a' }],
    ['curl -I http://x/a', { method: 'HEAD', path: '/a' }],
    ['curl -s -o /dev/null http://x/a', { method: 'GET', path: '/a' }],
    ["curl \\\n  -H 'X-API-Key: k-1' \\\n  http://x/a", { method: 'GET', path: '/a', apiKey: 'k-1' }],
    ['curl http://x/a -H "cf-connecting-ip: 10.0.0.1"', { method: 'GET', path: '/a', ip: '10.0.0.1' }],
    [`curl http://x/a -H 'Authorization: Bearer ${jwt}'`, { method: 'GET', path: '/a', userId: 'ada' }],
    ["curl x/a -H 'Authorization: Bearer weir_k1'", { method: 'GET', path: '/a', apiKey: 'weir_k1' }],
    ["curl http://x/a -H 'Authorization: Bearer opaque'", { method: 'GET', path: '/a' }],
  ])('becomes a request: %s', (text, request) => expect(parseCurl(text)).toEqual(request));

  it('without a URL is not a request', () => {
    for (const text of ['', '   ', 'curl', 'curl -s']) expect(parseCurl(text)).toBeUndefined();
  });
});

describe('a rule in a sentence', () => {
  const base = { resource: '/login', scope: 'ip', algorithm: 'fixed-window', limit: 5, windowSeconds: 60 };
  it.each([
    [{}, 'Each IP address may send requests to /login: 5 every minute; more are answered 429.'],
    [
      { methods: ['POST'], status: 503 },
      'Each IP address may send POST requests to /login: 5 every minute; more are answered 503.',
    ],
    [
      { scope: 'user', tiers: ['free'], limit: null, limitName: 'calls' },
      'Each user of tier free may send requests to /login: what its tier allows as “calls” every minute; more are answered 429.',
    ],
    [
      {
        limits: [
          { limit: 20, windowSeconds: 1 },
          { limit: 1_000, windowSeconds: 3_600 },
        ],
      },
      'Each IP address may send requests to /login: 20 every second and 1,000 every hour; more are answered 429.',
    ],
    [
      { limits: [{ limit: '20 / second' }, { limit: 1_000, windowSeconds: 3_600 }] },
      'Each IP address may send requests to /login: 20 / second and 1,000 every hour; more are answered 429.',
    ],
    [
      { action: 'log' },
      'Each IP address may send requests to /login: 5 every minute; more than that pass, and are only recorded (shadow).',
    ],
    [
      { action: 'allow' },
      'Each IP address may send any number of requests to /login: broader rules do not apply there.',
    ],
    [
      { algorithm: 'concurrency', resource: '/*' },
      'Each IP address may send requests to any path: 5 open at once; more are answered 429.',
    ],
    [
      { scope: 'user', subjects: ['ada'] },
      'ada may send requests to /login: 5 every minute; more are answered 429.',
    ],
    [
      { scope: 'user', limitClaim: 'quota', limitMax: 900 },
      'Each user may send requests to /login: what its claim “quota” says, up to 900, or else 5 every minute; more are answered 429.',
    ],
    [
      { scope: 'user', tenants: ['acme', 'globex'] },
      'Each user of tenant acme or globex may send requests to /login: 5 every minute; more are answered 429.',
    ],
    [
      { scope: 'all', action: 'multiply', times: 3, tenants: ['acme'], resource: '/*' },
      'Every caller of tenant acme has 3 times what rules of all scopes allow for requests to any path.',
    ],
    [
      { enabled: false, percent: 10 },
      'Switched off: Each IP address may send requests to /login: 5 every minute; more are answered 429. Tried with 10 % of them.',
    ],
    [
      { blockSeconds: 600, burst: 9 },
      'Each IP address may send requests to /login: 5 every minute (up to 9 at once); more are answered 429, and keep the caller out for 10 minutes.',
    ],
    [
      { resource: null, limit: null, windowSeconds: null },
      'Each IP address may send requests to …: … every …; more are answered 429.',
    ],
  ])('is right for %j', (changes, sentence) => expect(sentenceOf({ ...base, ...changes })).toBe(sentence));
});

describe('the effect of another limit', () => {
  const some: Effect = {
    unknown: null,
    admitted: 100,
    denied: 5,
    unnamedAdmitted: 0,
    unnamedDenied: 0,
    atLeast: 0,
    surelyDenied: 0,
    perhapsDenied: 0,
    surelyNotDenied: 0,
  };
  it.each<[Partial<Effect>, string[]]>([
    [{ unknown: 'Why.' }, ['Nothing can be said. Why.']],
    [{ admitted: 0, denied: 0 }, ['Nothing can be said: nothing was recorded of this rule in the last day.']],
    [{}, ['No denial is certain.']],
    [
      { atLeast: 1_200, surelyDenied: 1, perhapsDenied: 2, surelyNotDenied: 3 },
      [
        'At least 1,200 units of 1 caller would have been denied.',
        'For 2 callers the records do not show it: they sent enough if they sent it at once, or only their denials are recorded.',
        '3 callers would certainly not have been denied.',
      ],
    ],
    [
      { atLeast: 9, surelyDenied: 4, perhapsDenied: null, surelyNotDenied: null, unnamedAdmitted: 7 },
      [
        'At least 9 units of 4 callers would have been denied.',
        'Weir records only denials of addresses, so it does not know who else would have been denied.',
        '7 units were admitted of callers who are counted by address, and are not told apart.',
      ],
    ],
    [
      { unnamedDenied: 8 },
      ['No denial is certain.', '8 denials are of a flood, whose callers were not told apart.'],
    ],
  ])('%j claims no more than the records show', (changes, sentences) => {
    expect(effectSentences({ ...some, ...changes })).toEqual(sentences);
  });
});

it('a rule is near its limit when it denies, would deny, or has a fifth left', () => {
  expect(nearnessOf({ admitted: 6, 'near-limit': 1, denied: 2, 'would-deny': 1 })).toEqual({
    checks: 10,
    near: 4,
  });
  expect(nearnessOf(undefined)).toEqual({ checks: 0, near: 0 });
});

describe('traffic between two samples', () => {
  const look = (
    seconds: number,
    requests: Record<string, number>,
    counts: number[] = [0, 0, 0],
    up = true,
  ): Traffic => ({
    at: new Date(seconds * 1_000).toISOString(),
    regions: [{ name: 'us', up, isolates: 1, breakers: {}, publication: 1, requests }],
    decision: { boundsMs: [1, 10], counts },
    fallbacks: {},
    rules: {},
    rulesAgeSeconds: 0,
  });

  it('is the difference of the sums, per second', () => {
    const rates = ratesBetween(
      look(100, { admitted: 10, denied: 1 }),
      look(110, { admitted: 60, denied: 11, listed: 10 }),
    );
    expect(rates).toEqual({ atSeconds: 110, total: 7, admitted: 5, denied: 1, degraded: 0 });
  });

  it('is zero if sums went back or a region did not answer, and never negative', () => {
    expect(ratesBetween(look(100, { admitted: 60 }), look(110, { admitted: 10 })).total).toBe(0);
    expect(ratesBetween(look(100, {}, [], false), look(110, { admitted: 10 })).total).toBe(0);
  });

  it('has its quantiles between the bounds of the histogram', () => {
    const [before, after] = [look(100, {}, [5, 5, 5]), look(110, {}, [15, 15, 5])];
    expect(decisionQuantile(before, after, 0.25)).toBe(0.5);
    expect(decisionQuantile(before, after, 0.75)).toBe(5.5);
    expect(decisionQuantile(before, look(110, {}, [5, 5, 9]), 0.5)).toBe(10);
    expect(decisionQuantile(before, before, 0.5)).toBeUndefined();
  });

  it('is measured from the latest sample that is old enough, or from the oldest', () => {
    const looks = [100, 103, 106, 109].map((seconds) => look(seconds, {}));
    expect(sampleBefore(looks, 5)).toBe(looks[1]);
    expect(sampleBefore(looks, 50)).toBe(looks[0]);
    expect(sampleBefore([], 5)).toBeUndefined();
  });
});

it('a series has a zero for each minute without denials', () => {
  const at = '2030-01-01T00:01:00.000Z';
  const points = fillMinutes({
    from: '2030-01-01T00:00:00Z',
    to: '2030-01-01T00:02:30Z',
    items: [{ at, count: 4 }],
  });
  const start = Date.UTC(2030, 0, 1) / 1_000;
  expect(points).toEqual([
    [start, start + 60, start + 120],
    [0, 4, 0],
  ]);
});

it('times are formatted as people say them', () => {
  expect([1, 60, 90, 3_600, 172_800].map(span)).toEqual(['second', 'minute', '90 seconds', 'hour', '2 days']);
  expect([0.4, 12.3, 2_500, undefined].map(milliseconds)).toEqual(['0.4 ms', '12 ms', '2.5 s', '–']);
  expect([2, 30, 600, 7_200, -3_600].map((seconds) => ago(0, seconds * 1_000))).toEqual([
    'just now',
    '30 s ago',
    '10 min ago',
    '2 h ago',
    'in 60 min',
  ]);
});

describe('the form of a rule', () => {
  it('offers every algorithm', () => expect(ALGORITHMS).toEqual(ALGORITHM_IDS));

  it('knows which of them hold seats', () => {
    expect(ALGORITHMS.filter(holdsSeats)).toEqual(idsWith((traits) => traits.holdsSeats === true));
  });
});

it('the frame links to every view that the page can show', () => {
  const read = (file: string) => readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8');
  const [, linked = ''] = /^const VIEWS = \[([^\]]*)\] as const;$/m.exec(read('src/page/page.tsx')) ?? [];
  const [, shown = ''] = /^const VIEWS: .* = \{\n([\s\S]*?)^\};$/m.exec(read('page/app.ts')) ?? [];
  const names = [...shown.matchAll(/^ {2}(\w+):/gm)].map(([, name]) => `'${name}'`);
  expect(names.length).toBeGreaterThan(0);
  expect(linked.match(/'\w+'/g)).toEqual(names);
});
