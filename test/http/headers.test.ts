import { describe, expect, it } from 'vitest';
import { type Decision, denyingResults } from '../../src/core/decision.ts';
import { setDecisionHeaders, setIncidentHeaders } from '../../src/gateway/headers.ts';
import {
  createResult,
  createRule,
  headersOf,
  headersOfDecision,
  NOW_MS,
  policiesIn,
  type Result,
} from './headers-harness.ts';

const OURS = ['RateLimit-Policy', 'RateLimit', 'Retry-After'].concat(
  ['Limit', 'Remaining', 'Reset', 'Cost'].map((what) => `X-RateLimit-${what}`),
);

const all = (headers: Headers) => Object.fromEntries(headers);

describe('the headers of an admitted request', () => {
  it('name every policy, and the older headers name the tightest one', () => {
    const headers = headersOf([
      createResult(
        { name: 'daily', limit: 1000, windowSeconds: 86_400 },
        { remaining: 40, resetAtMs: NOW_MS + 1 },
      ),
      createResult(
        { name: 'burst', limit: 10, windowSeconds: 60 },
        { remaining: 9, resetAtMs: NOW_MS + 1_001 },
      ),
    ]);
    expect(all(headers)).toEqual({
      'ratelimit-policy': '"daily";q=1000;w=86400, "burst";q=10;w=60',
      ratelimit: '"burst";r=9;t=2, "daily";r=40;t=1',
      'x-ratelimit-limit': '10',
      'x-ratelimit-remaining': '9',
      'x-ratelimit-reset': String(NOW_MS / 1000 + 2),
      'x-ratelimit-cost': '1',
    });
  });

  it('name the length of the current month', () => {
    const rule = createRule({ name: 'monthly', limit: 9, window: 'month' });
    const policyOf = (days: number) => {
      const { check, outcome } = createResult({}, {});
      return headersOf([
        {
          check: { ...check, rule, full: { limit: 9, extra: undefined }, windowMs: days * 86_400_000 },
          outcome,
        },
      ]).get('RateLimit-Policy');
    };
    expect([policyOf(31), policyOf(28)]).toEqual(['"monthly";q=9;w=2678400', '"monthly";q=9;w=2419200']);
  });

  it('name the policy with the fewest requests left, where a high cost leaves fewer', () => {
    const headers = headersOf([
      createResult({ name: 'cheap', cost: 1 }, { remaining: 5 }),
      createResult({ name: 'dear', cost: 3 }, { remaining: 8 }),
    ]);
    expect([headers.get('X-RateLimit-Remaining'), headers.get('X-RateLimit-Cost')]).toEqual(['8', '3']);
  });

  it('name the policy that resets last, if several have equally few left', () => {
    const headers = headersOf([
      createResult({ limit: 1 }, { remaining: 0, resetAtMs: NOW_MS + 1_000 }),
      createResult({ limit: 2 }, { remaining: 0, resetAtMs: NOW_MS + 9_000 }),
    ]);
    expect(headers.get('X-RateLimit-Limit')).toBe('2');
  });

  it('name a limit of open connections without a window', () => {
    const headers = headersOf([
      createResult({ name: 'sockets', algorithm: 'concurrency', limit: 4 }, { remaining: 3 }),
    ]);
    expect(headers.get('RateLimit-Policy')).toBe('"sockets";q=4;qu="concurrent-requests"');
    expect(headers.get('RateLimit')).toBe('"sockets";r=3;t=60');
  });

  it('give the reset time by the clock of the region that counted', () => {
    const later = { nowMs: NOW_MS + 250, resetAtMs: NOW_MS + 250 + 60_000 };
    const headers = headersOf([createResult({ name: 'n' }, later)]);
    expect(headers.get('RateLimit')).toBe('"n";r=5;t=60');
  });

  it('never give a time that has passed', () => {
    const headers = headersOf([createResult({ name: 'n' }, { resetAtMs: NOW_MS - 5_000 })]);
    expect(headers.get('RateLimit')).toBe('"n";r=5;t=0');
    expect(headers.get('X-RateLimit-Reset')).toBe(String(NOW_MS / 1000));
  });
});

describe('the headers of a denied request', () => {
  it('give the longest wait, and the wait for each violated policy', () => {
    const headers = headersOf([
      createResult({ name: 'passes', limit: 9 }, { remaining: 0, resetAtMs: NOW_MS + 90_000 }),
      createResult({ name: 'short', limit: 5 }, { retryAfterMs: 1_500, resetAtMs: NOW_MS + 30_000 }),
      createResult({ name: 'long', limit: 7 }, { retryAfterMs: 2_001, resetAtMs: NOW_MS + 40_000 }),
    ]);
    expect(headers.get('RateLimit')).toBe('"long";r=0;t=3, "short";r=0;t=2, "passes";r=0;t=90');
    expect(headers.get('Retry-After')).toBe('3');
    expect(headers.get('X-RateLimit-Limit')).toBe('7');
    expect(headers.get('X-RateLimit-Reset')).toBe(String(NOW_MS / 1000 + 3));
  });

  it('have no Retry-After if the request can never pass, no matter how long other rules make it wait', () => {
    const headers = headersOf([
      createResult({ name: 'later' }, { retryAfterMs: 10 ** 9 }),
      createResult({ name: 'never', cost: 20 }, { retryAfterMs: undefined, remaining: 10 }),
    ]);
    expect(headers.get('Retry-After')).toBeNull();
    expect(headers.get('X-RateLimit-Cost')).toBe('20');
    expect(headers.get('RateLimit')).toMatch(/^"never";r=10;t=60, /);
  });
});

describe('a shadow rule', () => {
  const logging = createResult({ name: 'shadow', action: 'log', limit: 1 }, { retryAfterMs: 60_000 });

  it('adds no header beside others', () => {
    const other = createResult({ name: 'real' });
    expect(all(headersOf([logging, other]))).toEqual(all(headersOf([other])));
  });

  it('adds no header when it is alone', () => {
    expect(all(headersOf([logging]))).toEqual({});
  });
});

describe('the headers of a request that was not counted', () => {
  const by = { rulesVersion: 'v1', isStale: false };
  it.each<Decision>([
    { kind: 'unlimited', allowed: true, ...by },
    { kind: 'listed', allowed: true, list: 'allow', ...by },
    { kind: 'listed', allowed: false, list: 'deny', ...by },
    { kind: 'unverified', allowed: false, credential: 'token', ...by },
    { kind: 'degraded', allowed: true, reason: 'timeout', fallback: 'open' },
  ])('give no numbers: $kind', (decision) => {
    const headers = headersOfDecision(decision, { isDevelopment: true });
    expect(OURS.filter((name) => headers.has(name))).toEqual([]);
  });
});

describe('the headers of a request that this isolate counted alone', () => {
  const headersOfLocal = (results: readonly Result[]) => {
    const local = { nowMs: NOW_MS, results };
    const allowed = denyingResults(results).length === 0;
    const decision = { kind: 'degraded', allowed, reason: 'timeout', fallback: 'local', local } as const;
    return all(headersOfDecision(decision, { isDevelopment: true }));
  };

  it('say when to come back if it was denied, but not how much is left', () => {
    const denied = createResult({ onUnavailable: 'local' }, { retryAfterMs: 1_001 });
    expect(headersOfLocal([createResult({}), denied])).toEqual({ 'retry-after': '2' });
  });

  it('have no Retry-After if it is admitted, or if it can never pass', () => {
    const shadow = createResult({ action: 'log' }, { retryAfterMs: 1_001 });
    expect(headersOfLocal([createResult({}), shadow])).toEqual({});
    expect(headersOfLocal([createResult({ cost: 20 }, { retryAfterMs: undefined })])).toEqual({});
  });
});

describe('an incident', () => {
  it.each([
    [
      { reason: 'timeout', fallback: 'open' },
      { 'x-weir-degraded': 'timeout', 'x-weir-fallback': 'open' },
    ],
    [{ reason: 'stale-rules' }, { 'x-weir-degraded': 'stale-rules' }],
  ] as const)(
    '%j has a header with its reason, and one with the fallback if there was any',
    (incident, expected) => {
      const headers = new Headers();
      setIncidentHeaders(headers, incident);
      expect(all(headers)).toEqual(expected);
    },
  );

  it('adds nothing to the headers of the decision', () => {
    const headers = new Headers();
    const decision = { kind: 'degraded', allowed: true, reason: 'timeout', fallback: 'open' } as const;
    setDecisionHeaders(headers, { ...decision }, { isDevelopment: true });
    expect(all(headers)).toEqual({});
  });
});

describe('several limits of one rule', () => {
  it('are separate policies, named by their windows', () => {
    const limits = [
      { limit: 20, windowSeconds: 1 },
      { limit: 1000, windowSeconds: 3600 },
    ];
    const rule = { name: 'search', ordinal: 1 };
    const headers = headersOf([
      createResult({ ...rule, limits }, { remaining: 19 }),
      createResult({ ...rule, limits: limits.toReversed() }, { remaining: 3 }),
    ]);
    expect(headers.get('RateLimit-Policy')).toBe('"search-1s";q=20;w=1, "search-1h";q=1000;w=3600');
    expect(policiesIn(headers, 'RateLimit').map(({ name }) => name)).toEqual(['search-1h', 'search-1s']);
  });
});

describe('many policies', () => {
  const results = Array.from({ length: 300 }, (_, i) =>
    createResult({ name: `${'e'.repeat(200)}-${i}`, limit: 1000 }, { remaining: 999 - i }),
  );
  const headers = headersOf(results);
  const limits = policiesIn(headers, 'RateLimit');

  it('take at most 4 KB, and the most restrictive stay', () => {
    const bytes = `${headers.get('RateLimit')}${headers.get('RateLimit-Policy')}`.length;
    expect(bytes).toBeLessThanOrEqual(4096);
    const remaining = limits.map(({ parameters }) => parameters['r']);
    expect(remaining).toEqual(Array.from({ length: limits.length }, (_, i) => 700 + i));
    expect(limits.length).toBeGreaterThan(3);
  });

  it('are the same ones in both fields', () => {
    const names = (policies: typeof limits) => policies.map(({ name }) => name).sort();
    expect(names(policiesIn(headers, 'RateLimit-Policy'))).toEqual(names(limits));
  });

  it('keep at least one, however long its name is', () => {
    expect(policiesIn(headersOf([createResult({ name: 'e'.repeat(5_000) })]), 'RateLimit')).toHaveLength(1);
  });
});
