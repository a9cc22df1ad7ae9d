import { describe, expect, it } from 'vitest';
import { createCounter } from '../../local/rules.ts';
import type { Outcome } from '../../src/core/counting/check.ts';
import type { Plan } from '../../src/core/matching/plan.ts';
import type { RulesPointer } from '../../src/core/ports/region.ts';
import { CounterStoreError } from '../../src/core/ports/region.ts';
import type { Probe, SnapshotSource } from '../../src/core/ports/snapshot-source.ts';
import { createLedger } from '../../src/limiter/ledger.ts';
import { createLimiter, type DecisionRequest } from '../../src/limiter/limiter.ts';
import type { RunAny } from '../shared/any-call.ts';
import { createRegion } from './fake-regions.ts';
import { snapshotOf } from './limiter-harness.ts';

const rule = createCounter({ algorithm: 'gcra', limit: 1, windowSeconds: 1 });
const check = {
  rule,
  key: 'k',
  id: 'i',
  algorithm: 'gcra',
  limit: 1,
  windowMs: 1_000,
  cost: 1,
  full: { limit: 1, extra: undefined },
} as const;
const outcome: Outcome = {
  allowed: true,
  remaining: 0,
  resetAtMs: 1,
  retryAfterMs: 0,
  granted: 0,
  delayMs: 0,
};
interface Situation {
  readonly run?: RunAny;
  /** The announcement that comes with the call. Undefined if it cannot be read. */
  readonly announces?: string | null | undefined;
  readonly read?: RulesPointer['read'];
  readonly plan?: Plan;
  readonly probe?: Probe;
  /** The result of loading new rules. Without it, loading never ends. */
  readonly load?: () => Promise<boolean>;
  readonly isCold?: boolean;
}

/** One decision, and all calls and reports on the way. */
async function decide(situation: Situation) {
  const asked: string[] = [];
  const later: Promise<unknown>[] = [];
  let version = 'old';
  const snapshots: SnapshotSource = {
    current: () => (situation.isCold ? undefined : snapshotOf(version)),
    announced: () => (version === 'new' ? 'that' : 'this'),
    probe: () => situation.probe,
    confirm: () => void asked.push('confirmed'),
    fail: () => void asked.push('failed'),
    isConfirmed: () => asked.includes('confirmed') || version === 'new' || !situation.probe?.isOverdue,
    async load({ announced }) {
      asked.push(`load ${announced}`);
      const isLoaded = (await situation.load?.()) ?? true;
      if (isLoaded) version = 'new';
      return isLoaded;
    },
    start: async () => undefined,
  };
  const region = createRegion('owner', {
    announces: 'announces' in situation ? situation.announces : 'this',
    async run(call, signal) {
      asked.push(call.withAnnouncement ? `${call.operation} with announcement` : call.operation);
      return situation.run ? situation.run(call, signal) : { nowMs: 1, outcomes: [outcome] };
    },
    async read(signal) {
      asked.push('read');
      return situation.read?.(signal);
    },
  });
  const options = {
    deadlineMs: 20,
    shares: { owner: 1 },
    onShadow: () => {},
    onBug: (error: unknown) => void asked.push(String(error)),
    capPerSecond: 0,
    isolateId: () => 'isolate-1',
    now: () => 0,
  };
  const request: DecisionRequest = {
    regions: [region],
    operation: 'take',
    ledger: createLedger(() => {}),
    afterResponse: (work) => void later.push(work),
  };
  const decision = await createLimiter({ snapshots, ...options }).decide(
    request,
    async () => situation.plan ?? { kind: 'checks', checks: [check] },
  );
  const beforeResponse = [...asked];
  await Promise.all(later);
  return { decision, beforeResponse, asked };
}

const nothing: Plan = { kind: 'checks', checks: [] };
const due: Probe = { expected: 'this', isOverdue: false, isLapsed: false, askedAtMs: 0 };
const overdue: Probe = { ...due, isOverdue: true };
const announces = 'that';

describe('the limiter lets a request go on, and names the reason, if', () => {
  it.each(['timeout', 'unavailable', 'bad-reply', 'script-failed'] as const)(
    'the store fails with %s',
    async (failure) => {
      const { decision } = await decide({ run: () => Promise.reject(new CounterStoreError(failure, 'x')) });
      expect(decision).toMatchObject({ kind: 'degraded', allowed: true, reason: failure, fallback: 'open' });
    },
  );

  it('the plan has a bug', async () => {
    const plan = { kind: 'checks', checks: undefined } as unknown as Plan;
    const { decision } = await decide({ plan });
    expect(decision).toMatchObject({ kind: 'degraded', allowed: true, reason: 'internal-error' });
  });

  it('the store has a bug', async () => {
    const { decision } = await decide({ run: () => Promise.reject(new TypeError('x')) });
    expect(decision).toMatchObject({ kind: 'degraded', allowed: true, reason: 'internal-error' });
  });

  it('the store answers for fewer checks than it was given', async () => {
    const { decision } = await decide({ run: async () => ({ nowMs: 1, outcomes: [] }) });
    expect(decision).toMatchObject({ kind: 'degraded', allowed: true, reason: 'bad-reply' });
  });
});

it('the limiter lets no request pass uncounted if a rule is closed', async () => {
  const closed: Plan = {
    kind: 'checks',
    checks: [check, { ...check, rule: { ...rule, onUnavailable: 'closed' } }],
  };
  const run = () => Promise.reject(new CounterStoreError('timeout', 'x'));
  expect((await decide({ run, plan: closed })).decision).toMatchObject({
    kind: 'degraded',
    allowed: false,
    reason: 'timeout',
    fallback: 'closed',
  });
});

it('the limiter gives the store a signal that ends with the deadline', async () => {
  const untilAborted = (signal: AbortSignal) =>
    new Promise<never>((_, reject) => {
      signal.addEventListener('abort', () => reject(new CounterStoreError('timeout', 'x')));
    });
  expect((await decide({ run: (_, signal) => untilAborted(signal) })).decision).toMatchObject({
    reason: 'timeout',
  });
});

it('the limiter names the version of the rules that it decided by', async () => {
  expect((await decide({})).decision).toMatchObject({ rulesVersion: 'old', isStale: false });
});

it('the limiter says so when it has no rules at all', async () => {
  const { decision } = await decide({ isCold: true });
  expect(decision).toEqual({
    kind: 'degraded',
    allowed: true,
    reason: 'no-rules',
    fallback: 'open',
    local: { nowMs: 0, results: [] },
  });
});

describe('a caller on a list', () => {
  it.each([
    ['allow', true],
    ['deny', false],
  ] as const)('(%s) is answered without counting', async (list, allowed) => {
    const { decision, asked } = await decide({ plan: { kind: 'listed', list } });
    expect(decision).toMatchObject({ kind: 'listed', list, allowed });
    expect(asked).toEqual([]);
  });
});

describe('when it is time to ask which rules are in force, the limiter', () => {
  it('asks in the call that is made anyway, and notes that nothing has changed', async () => {
    expect((await decide({ probe: due })).asked).toEqual(['take with announcement', 'confirmed']);
  });

  it('does not treat a failed call as an answer', async () => {
    const run = () => Promise.reject(new CounterStoreError('timeout', 'x'));
    expect((await decide({ probe: overdue, run })).asked).toEqual(['take with announcement']);
  });

  it('notes that nothing has changed if there is no announcement', async () => {
    const { asked } = await decide({ probe: overdue, announces: null });
    expect(asked).toEqual(['take with announcement', 'confirmed']);
  });

  it('counts by its rules, and marks the decision as stale, if only the announcement cannot be read', async () => {
    const { decision, asked } = await decide({ probe: overdue, announces: undefined });
    expect(asked).toEqual(['take with announcement', 'failed']);
    expect(decision).toMatchObject({ kind: 'counted', rulesVersion: 'old', isStale: true });
  });

  it('uses rules that were confirmed a moment ago once more, and loads the new rules after the response', async () => {
    const load = () => new Promise<boolean>((resolve) => setTimeout(() => resolve(true), 30));
    const { decision, asked } = await decide({ probe: due, announces, load });
    expect(asked).toEqual(['take with announcement', 'load that']);
    expect(decision).toMatchObject({ kind: 'counted', rulesVersion: 'old', isStale: false });
  });

  it('loads new rules first if its own are unconfirmed', async () => {
    const { decision, beforeResponse } = await decide({ probe: overdue, announces });
    expect(beforeResponse).toEqual(['take with announcement', 'load that', 'refund', 'take']);
    expect(decision).toMatchObject({ kind: 'counted', rulesVersion: 'new', isStale: false });
  });

  it.each([
    ['cannot be read', async () => false],
    ['hang', () => new Promise<boolean>((resolve) => setTimeout(() => resolve(true), 60))],
  ])('goes on with its rules, and marks the decision as stale, if the new rules %s', async (_, load) => {
    const { decision, beforeResponse } = await decide({ probe: overdue, announces, load });
    expect(decision).toMatchObject({ kind: 'counted', allowed: true, rulesVersion: 'old', isStale: true });
    expect(beforeResponse).toEqual(['take with announcement', 'load that', 'failed']);
  });
});

describe('when no rule applies, the limiter', () => {
  it('makes no call', async () => {
    const { decision, asked } = await decide({ plan: nothing });
    expect(decision).toMatchObject({ kind: 'unlimited', allowed: true });
    expect(asked).toEqual([]);
  });

  it('reads the announcement after the response while the rules are fresh', async () => {
    const { beforeResponse, asked } = await decide({
      plan: nothing,
      probe: due,
      read: async () => 'that',
    });
    expect(beforeResponse).toEqual(['read']);
    expect(asked).toEqual(['read', 'load that']);
  });

  it('waits for the announcement and for new rules while its own rules are not fresh', async () => {
    const read = async () => 'that';
    const { decision } = await decide({ plan: nothing, probe: overdue, read });
    expect(decision).toMatchObject({ kind: 'unlimited', rulesVersion: 'new' });
  });

  it.each([
    ['the expected announcement', async () => 'this', ['read', 'confirmed']],
    ['no announcement', async () => undefined, ['read', 'confirmed']],
    ['no answer', () => Promise.reject(new CounterStoreError('timeout', 'x')), ['read', 'failed']],
  ])('goes on with its rules if reading the announcement brings %s', async (_, read, expected) => {
    const { decision, asked } = await decide({ plan: nothing, probe: overdue, read });
    expect(decision).toMatchObject({ kind: 'unlimited', rulesVersion: 'old' });
    expect(asked).toEqual(expected);
  });
});
