// A limiter on fake regions, in fake time. Fakes are only for faults and clocks.

import { afterEach, beforeEach, vi } from 'vitest';
import { createCounter } from '../../local/rules.ts';
import type { RuleCheck } from '../../src/core/matching/plan.ts';
import type { CompiledRule, Snapshot } from '../../src/core/matching/snapshot.ts';
import type { Probe, SnapshotSource } from '../../src/core/ports/snapshot-source.ts';
import { createLedger } from '../../src/limiter/ledger.ts';
import {
  createLimiter,
  type DecisionRequest,
  type LimiterOptions,
  type MakePlan,
} from '../../src/limiter/limiter.ts';
import type { LimiterRegion, Regions } from '../../src/limiter/region.ts';
import { DEADLINE_MS, type FakeRegion, START_MS } from './fake-regions.ts';

const rule = createCounter({ id: 'r' });
export const createCheck = (fields: Partial<CompiledRule> = {}): RuleCheck => ({
  rule: { ...rule, ...fields },
  key: 'k',
  id: 'i',
  algorithm: fields.algorithm ?? rule.algorithm,
  limit: fields.limit ?? 10,
  full: { limit: fields.limit ?? 10, extra: undefined },
  windowMs: 60_000,
  cost: 1,
});
export const snapshotOf = (version: string): Snapshot => ({
  version,
  ruleCount: 1,
  isLogOnly: false,
  rulesNamed: () => [],
  isOff: () => false,
  limitOf: () => null,
  match: () => [],
  matchByIpOnly: () => [],
  listed: () => undefined,
  tierOf: () => undefined,
  limitsOf: () => [],
});

/** Injects all timers and clocks, including those of AbortSignal, which fake timers leave alone. */
export function useFakeTime() {
  beforeEach(() => {
    vi.useFakeTimers({ now: START_MS });
    vi.spyOn(AbortSignal, 'timeout').mockImplementation((ms) => {
      const controller = new AbortController();
      setTimeout(() => controller.abort(), ms);
      return controller.signal;
    });
  });
  afterEach(() => {
    vi.restoreAllMocks();
    vi.useRealTimers();
  });
}

export interface FakeSource extends SnapshotSource {
  asks: Probe | undefined;
  announces: string;
}

/** The rules of version `old`, and a load that brings version `new`. */
export function createSource(changes: Partial<SnapshotSource> = {}): FakeSource {
  let version = 'old';
  return {
    asks: undefined,
    announces: 'this',
    current: () => snapshotOf(version),
    announced() {
      return this.announces;
    },
    probe() {
      return this.asks;
    },
    confirm: () => {},
    fail: () => {},
    isConfirmed: () => true,
    async load({ announced }) {
      version = 'new';
      this.announces = announced;
      return true;
    },
    start: async () => undefined,
    ...changes,
  };
}

export interface TestRequest extends Partial<DecisionRequest> {
  readonly plan?: MakePlan;
  /** From now on, the limiter calls this with the results of shadow rules. */
  readonly onShadow?: LimiterOptions['onShadow'];
}

/** One isolate. Its work after responses runs by itself, unless a test waits for it. */
export function openIsolate(
  regions: Regions,
  { source = createSource(), ...options }: Partial<LimiterOptions> & { readonly source?: FakeSource } = {},
) {
  const later: Promise<unknown>[] = [];
  const errors: unknown[] = [];
  const limiter = createLimiter({
    snapshots: source,
    deadlineMs: DEADLINE_MS,
    shares: Object.fromEntries(regions.map(({ name }) => [name, 1])),
    onShadow: (results, region) => tellShadow(results, region),
    onBug: (error) => void errors.push(error),
    capPerSecond: 0,
    isolateId: () => 'isolate-1',
    now: () => Date.now(),
    ...options,
  });
  let tellShadow: LimiterOptions['onShadow'] = () => {};
  const usual: MakePlan = async () => ({ kind: 'checks', checks: [createCheck()] });
  return {
    limiter,
    source,
    errors,
    settle: () => settleAll(later, regions),
    /** The decision, how long it took, and what was charged. */
    async decide({ onShadow, plan = usual, ...changes }: TestRequest = {}) {
      if (onShadow) tellShadow = onShadow;
      const request: DecisionRequest = {
        regions,
        operation: 'take',
        ledger: createLedger((error) => void errors.push(error)),
        afterResponse: (work) => void later.push(work),
        ...changes,
      };
      const decided = await timed(async () => limiter.decide(request, plan));
      return { ...decided, ledger: request.ledger };
    },
  };
}

/** Waits for all work that was handed over for after responses. After that, nothing else may be under way. */
export async function settleAll(later: Promise<unknown>[], regions: readonly LimiterRegion[]): Promise<void> {
  while (later.length > 0) await timed(() => Promise.all(later.splice(0)));
  const dropped = regions.flatMap((region) => (region as FakeRegion).inFlight());
  if (dropped.length > 0) throw new Error(`nobody waits for: ${dropped}`);
}

/** Lets time pass until the work is done. Immediate work takes no time. */
export async function timed<T>(work: () => Promise<T>): Promise<{ decision: T; tookMs: number }> {
  const startedAtMs = Date.now();
  let isDone = false;
  const working = work().finally(() => {
    isDone = true;
  });
  // The code below, which awaits it, sees the error.
  working.catch(() => {});
  await vi.advanceTimersByTimeAsync(0);
  while (!isDone && Date.now() - startedAtMs < 100 * DEADLINE_MS) await vi.advanceTimersByTimeAsync(1);
  if (!isDone) throw new Error('it hangs');
  return { decision: await working, tookMs: Date.now() - startedAtMs };
}
