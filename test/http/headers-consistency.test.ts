// The three families of headers agree and are true: over random decisions, and over random histories of real counters.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { RuleFields } from '../../local/rules.ts';
import { ALGORITHM_IDS } from '../../src/core/counting/algorithms/registry.ts';
import { createMemoryCounters, runChecks } from '../../src/core/counting/counters.ts';
import { decisiveResult, denyingResults } from '../../src/core/decision.ts';
import type { RuleCheck } from '../../src/core/matching/plan.ts';
import { rounds } from '../rounds.ts';
import {
  createCheck,
  createDecision,
  createResult,
  headersOf,
  NOW_MS,
  policiesIn,
  type Result,
} from './headers-harness.ts';

const anyName = fc.stringMatching(/^[a-z0-9][a-z0-9._-]{0,11}$/);
const action = fc.constantFrom('reject', 'reject', 'reject', 'log' as const);

const result = fc
  .record({
    rule: fc.record({
      name: anyName,
      action,
      algorithm: fc.constantFrom(...ALGORITHM_IDS),
      limit: fc.integer({ min: 1, max: 1_000_000_000_000 }),
      windowSeconds: fc.integer({ min: 1, max: 366 * 86_400 }),
      cost: fc.integer({ min: 1, max: 1_000 }),
    }),
    remaining: fc.integer({ min: 0, max: 1_000_000_000_000 }),
    untilResetMs: fc.integer({ min: -1_000, max: 10 ** 10 }),
    /** Null means allowed, infinite means never. */
    waitMs: fc.option(fc.oneof(fc.integer({ min: 1, max: 10 ** 9 }), fc.constant(Number.POSITIVE_INFINITY))),
  })
  .map(({ rule, remaining, untilResetMs, waitMs }): Result => {
    const outcome = { remaining, resetAtMs: NOW_MS + untilResetMs };
    if (waitMs === null) return createResult(rule, outcome);
    const retryAfterMs = Number.isFinite(waitMs) ? waitMs : undefined;
    return createResult(rule, { ...outcome, retryAfterMs });
  });

const results = fc.uniqueArray(result, {
  minLength: 1,
  maxLength: 8,
  selector: ({ check }) => check.rule.name,
});
const clock = fc.integer({ min: NOW_MS, max: NOW_MS + 5_000 });

function agree(decided: readonly Result[], nowMs: number): void {
  const headers = headersOf(decided, nowMs);
  const decisive = decisiveResult(decided);
  if (!decisive) expect([...headers]).toEqual([]);
  else {
    allPoliciesAreNamed(headers, decided);
    olderHeadersAreOf(decisive, headers, nowMs);
    noViolatedPolicyIsFreeLater(headers, decided);
    allNumbersAreWhole(headers);
  }
}

const nameOf = ({ check }: Result) => check.rule.policy;
const limitOf = (headers: Headers, result: Result) =>
  policiesIn(headers, 'RateLimit').find(({ name }) => name === nameOf(result))?.parameters;

function allPoliciesAreNamed(headers: Headers, decided: readonly Result[]): void {
  const enforced = decided.filter(({ check }) => !check.isShadow).map(nameOf);
  for (const field of ['RateLimit', 'RateLimit-Policy'] as const) {
    const named = policiesIn(headers, field).map(({ name }) => name);
    expect(named.toSorted()).toEqual(enforced.toSorted());
  }
}

function olderHeadersAreOf(decisive: Result, headers: Headers, nowMs: number): void {
  const [first] = policiesIn(headers, 'RateLimit');
  const policy = policiesIn(headers, 'RateLimit-Policy').find(({ name }) => name === nameOf(decisive));
  const { q, w, qu } = policy?.parameters ?? {};
  expect(first?.name).toBe(nameOf(decisive));
  expect(headers.get('X-RateLimit-Limit')).toBe(String(q));
  expect(headers.get('X-RateLimit-Remaining')).toBe(String(first?.parameters['r']));
  expect(headers.get('X-RateLimit-Cost')).toBe(String(decisive.check.cost));
  expect(w === undefined).toBe(qu === 'concurrent-requests');
  // Both are rounded up, one counting from now and one from the epoch, so they differ by less than a second.
  const freeAtMs = nowMs + Number(first?.parameters['t']) * 1_000;
  expect(Math.abs(Number(headers.get('X-RateLimit-Reset')) * 1_000 - freeAtMs)).toBeLessThan(1_000);
}

function noViolatedPolicyIsFreeLater(headers: Headers, decided: readonly Result[]): void {
  const retryAfter = headers.get('Retry-After');
  const violated = denyingResults(decided);
  const isForEver = violated.some(({ outcome }) => outcome.retryAfterMs === undefined);
  expect(retryAfter === null).toBe(violated.length === 0 || isForEver);
  if (retryAfter === null) return;
  const longest = Math.max(...violated.map((result) => Number(limitOf(headers, result)?.['t'])));
  expect(Number(retryAfter)).toBe(longest);
}

function allNumbersAreWhole(headers: Headers): void {
  for (const [name, value] of headers)
    if (!name.startsWith('ratelimit')) expect([name, value]).toEqual([name, expect.stringMatching(/^\d+$/)]);
  for (const field of ['RateLimit', 'RateLimit-Policy'] as const)
    for (const { parameters } of policiesIn(headers, field))
      for (const [key, value] of Object.entries(parameters))
        if (key !== 'qu') expect(value).toSatisfy((n: number) => Number.isInteger(n) && n >= 0);
}

describe('the older and the newer headers', () => {
  it('agree with each other on every decision', () => {
    fc.assert(fc.property(results, clock, agree), { numRuns: rounds(500) });
  });
});

/** All but `concurrency`, where time alone frees nothing. */
const TIMED = ALGORITHM_IDS.filter((id) => id !== 'concurrency');
const WITH_BURST = ['token-bucket', 'leaky-bucket', 'gcra'];

const rule = fc
  .record({
    action,
    algorithm: fc.constantFrom(...TIMED),
    limit: fc.integer({ min: 1, max: 8 }),
    windowSeconds: fc.integer({ min: 1, max: 5 }),
    cost: fc.constantFrom(1, 1, 1, 2, 3),
    burst: fc.option(fc.integer({ min: 1, max: 12 })),
    countDenied: fc.boolean(),
    blockSeconds: fc.option(fc.integer({ min: 1, max: 4 }), { freq: 6 }),
  })
  .map((fields): RuleFields => {
    return { ...fields, burst: WITH_BURST.includes(fields.algorithm) ? fields.burst : null };
  });

const history = fc.record({
  rules: fc.array(rule, { minLength: 1, maxLength: 4 }),
  pausesMs: fc.array(fc.constantFrom(0, 0, 0, 1, 37, 400, 1_300), { minLength: 1, maxLength: 14 }),
});

/** The last of several decisions, and what would come next. */
function play({ rules, pausesMs }: { rules: RuleFields[]; pausesMs: number[] }) {
  const counters = createMemoryCounters();
  const checks: RuleCheck[] = rules.map((fields) => createCheck(fields));
  const decideAt = (atMs: number) => {
    const { outcomes } = runChecks('take', checks, atMs, counters);
    const decided = checks.flatMap((check, i) => {
      const outcome = outcomes[i];
      return outcome ? [{ check, outcome }] : [];
    });
    return createDecision(decided, atMs);
  };
  let nowMs = NOW_MS + 123;
  let last = decideAt(nowMs);
  for (const pauseMs of pausesMs) {
    nowMs += pauseMs;
    last = decideAt(nowMs);
  }
  return { last, decideAt };
}

describe('the headers keep their promise:', () => {
  it('exactly as many requests still pass as the older headers allow', () => {
    fc.assert(
      fc.property(history, (played) => {
        const { last, decideAt } = play(played);
        const headers = headersOf(last.results, last.nowMs);
        if (!last.allowed || !headers.has('X-RateLimit-Remaining')) return;
        const left = Math.floor(
          Number(headers.get('X-RateLimit-Remaining')) / Number(headers.get('X-RateLimit-Cost')),
        );
        for (let i = 0; i < left; i += 1) expect(decideAt(last.nowMs).allowed).toBe(true);
        expect(decideAt(last.nowMs).allowed).toBe(false);
      }),
      { numRuns: rounds(500) },
    );
  });

  it('a client that waits for Retry-After passes; without the header, no wait ever helps', () => {
    fc.assert(
      fc.property(history, fc.boolean(), (played, readsReset) => {
        const { last, decideAt } = play(played);
        agree(last.results, last.nowMs);
        if (last.allowed) return;
        const headers = headersOf(last.results, last.nowMs);
        const retryAfter = headers.get('Retry-After');
        if (retryAfter === null) {
          expect(decideAt(last.nowMs + 3_600_000).allowed).toBe(false);
          return;
        }
        const comesAtMs = readsReset
          ? Number(headers.get('X-RateLimit-Reset')) * 1_000
          : last.nowMs + Number(retryAfter) * 1_000;
        expect(decideAt(comesAtMs).allowed).toBe(true);
      }),
      { numRuns: rounds(500) },
    );
  });
});
