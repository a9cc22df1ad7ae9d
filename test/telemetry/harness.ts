// An isolate's telemetry on a clock that the test sets, with stores and a sink that behave on command.
import type { CountedDecision, Decision } from '../../src/core/decision.ts';
import type { CompiledRule } from '../../src/core/matching/snapshot.ts';
import type { MetricsBatch, MetricsStore } from '../../src/core/ports/region.ts';
import type { DecidedRequest } from '../../src/core/ports/telemetry.ts';
import { createTelemetrySums } from '../../src/core/telemetry/metrics.ts';
import { createCollector } from '../../src/telemetry/collect.ts';
import {
  createFlush,
  createSubjects,
  type DenialSample,
  type RecordBatch,
} from '../../src/telemetry/flush.ts';
import { createTelemetry } from '../../src/telemetry/telemetry.ts';
import { createCheck } from '../limiter/limiter-harness.ts';

export const START_MS = 1_800_000_000_000;
export const EVERY_MS = 25_000;

export interface Situation {
  readonly isHashed?: boolean;
  readonly regions?: readonly string[];
}

export function openTelemetry({ isHashed = false, regions = ['us'] }: Situation = {}) {
  const state = { nowMs: START_MS, breakers: {} as Record<string, string>, isQueueDown: false, random: 0.5 };
  const isDown = new Set<string>();
  const batches: (MetricsBatch & { readonly region: string })[] = [];
  const records: RecordBatch[] = [];
  /** The id of the batch in each attempt, whether it was taken or not. */
  const tried: string[] = [];
  const samples: DenialSample[] = [];
  const errors: unknown[] = [];
  const later: Promise<unknown>[] = [];
  const collected = createTelemetrySums(() => state.random);
  const { sums } = collected;
  const storeOf = (region: string): MetricsStore => ({
    async flush(batch) {
      if (isDown.has(region)) throw new Error(`${region} is down`);
      batches.push({ ...batch, region });
      return [];
    },
    read: () => Promise.reject(new Error('nobody reads here')),
  });
  const now = () => state.nowMs;
  const flush = createFlush({
    ...collected,
    isolateId: () => 'isolate-1',
    stores: new Map(regions.map((name) => [name, storeOf(name)])),
    async send(batch) {
      tried.push(batch.id);
      if (state.isQueueDown) throw new Error('the queue is down');
      records.push(batch);
    },
    createId: () => crypto.randomUUID(),
    subjects: createSubjects({ isHashed, key: 'a key of the test' }),
    now,
    onDenied: (sample) => void samples.push(sample),
    onError: (error) => void errors.push(error),
  });
  const breakers = () => state.breakers;
  const leased = () => ({ counters: 2, units: 30 });
  const telemetry = createTelemetry({
    collector: createCollector({ ...collected, now, clockMs: now }),
    ...{ collected, flush, breakers, leased, everyMs: EVERY_MS, now, clockMs: now },
  });
  const flushRegions = regions.map((name) => ({
    name,
    breaker: { state: () => state.breakers[name] ?? 'closed' },
  }));
  return {
    state,
    isDown,
    telemetry,
    sums,
    batches,
    records,
    tried,
    samples,
    errors,
    later,
    flush: () => flush(flushRegions, telemetry.report()),
    /** Flushes as after a response. */
    respond: () => telemetry.flush(flushRegions, (work) => void later.push(work)),
    decide: (changes: Partial<DecidedRequest> = {}) =>
      telemetry.decided({
        decision: decisionOf(),
        region: 'us',
        route: 'default',
        caller: { ip: '10.0.0.1', address: '10.0.0.1' },
        startedAtMs: state.nowMs,
        ...changes,
      }),
    /** Everything that was flushed, by series. */
    flushed() {
      const total: Record<string, number> = {};
      for (const [series, amount] of batches.flatMap((batch) => batch.sums))
        total[series] = (total[series] ?? 0) + amount;
      return total;
    },
  };
}

export interface Decided {
  readonly allowed?: boolean;
  readonly remaining?: number;
  readonly rule?: Partial<CompiledRule>;
  readonly isShadow?: boolean;
  readonly decision?: Partial<CountedDecision>;
}

/** A decision by one rule, with a limit of ten. */
export function decisionOf({
  allowed = true,
  remaining = 9,
  rule,
  isShadow = false,
  decision,
}: Decided = {}) {
  const check = { ...createCheck({ name: 'search', ...rule }), isShadow, cost: rule?.cost ?? 1 };
  const outcome = { allowed, remaining, resetAtMs: 1, retryAfterMs: 0, granted: 0, delayMs: 0 };
  return {
    kind: 'counted',
    allowed: allowed || isShadow,
    nowMs: START_MS,
    results: [{ check, outcome }],
    rulesVersion: 'v1',
    isStale: false,
    ...decision,
  } satisfies Decision;
}
