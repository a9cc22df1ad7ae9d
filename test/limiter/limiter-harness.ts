// A limiter on fake regions, in fake time: regions fail, hang and answer on command, and a journal notes each call and
// its time. Fakes are only for faults and clocks.
import { afterEach, beforeEach, vi } from 'vitest';
import { decideInRounds, type PlannedDecision } from '../../local/decide-in-rounds.ts';
import type { Operation, Outcome } from '../../src/core/counting/check.ts';
import { PROBE_CHECKS } from '../../src/core/counting/probe.ts';
import type { RuleCheck } from '../../src/core/matching/plan.ts';
import { RULE_DEFAULTS } from '../../src/core/matching/rule.ts';
import type { CompiledRule, Snapshot } from '../../src/core/matching/snapshot.ts';
import type { AnnouncementBoard } from '../../src/core/ports/announcement.ts';
import { type CensusBoard, createCensus } from '../../src/core/ports/census.ts';
import {
  type CounterStore,
  CounterStoreError,
  type CounterStoreFailure,
} from '../../src/core/ports/counter-store.ts';
import type { Probe, SnapshotSource } from '../../src/core/ports/snapshot-source.ts';
import { createBreaker } from '../../src/core/regions/breaker.ts';
import { createDistance } from '../../src/limiter/distance.ts';
import { createLedger, type Ledger } from '../../src/limiter/ledger.ts';
import { createLimiter, type LimiterOptions } from '../../src/limiter/limiter.ts';
import type { LimiterRegion, Regions } from '../../src/limiter/region-ladder.ts';
import { createRegionWatch } from '../../src/limiter/region-watch.ts';

export const START_MS = 1_800_000_000_000;
export const DEADLINE_MS = 256;

const rule: CompiledRule = {
  ...RULE_DEFAULTS,
  id: 'r',
  name: 'r',
  resource: '/*',
  scope: 'ip',
  algorithm: 'fixed-window',
  limit: 10,
  windowSeconds: 60,
  ordinal: 1,
  counterId: 'c',
};
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
/** Hardly used, so nothing is asked of other regions. */
const admitted = { allowed: true, remaining: 10, resetAtMs: 1, retryAfterMs: 0, granted: 0, delayMs: 0 };
export const snapshotOf = (version: string): Snapshot => ({
  version,
  ruleCount: 1,
  isLogOnly: false,
  rulesNamed: () => [],
  limitOf: () => null,
  match: () => [],
  matchAnybody: () => [],
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

type Run = CounterStore['run'];
export const fails = (failure: CounterStoreFailure) => () =>
  Promise.reject(new CounterStoreError(failure, 'x'));
export const never = () => new Promise<never>(() => {});
/** Hangs until it is aborted, as a fetch would be. */
export const hangs = (signal: AbortSignal) =>
  new Promise<never>((_, reject) => {
    const end = () => reject(new CounterStoreError('timeout', 'x'));
    if (signal.aborted) end();
    else signal.addEventListener('abort', end);
  });
export const hangingRun: Run = (_, signal) => hangs(signal);
export const answers =
  (outcome: Partial<Outcome> = {}): Run =>
  async ({ checks }) => ({ nowMs: START_MS, outcomes: checks.map(() => ({ ...admitted, ...outcome })) });
export const denies = (retryAfterMs: number) => answers({ allowed: false, retryAfterMs });
export interface Behaviour {
  run: Run;
  /** Sent with the answer if the call asks for it. Undefined if it cannot be read. */
  announces: string | null | undefined;
  read: AnnouncementBoard['read'];
  present: CensusBoard['present'];
}
interface Situation extends Partial<Behaviour> {
  readonly isCluster?: boolean;
  readonly tell?: (line: string) => void;
}
export interface FakeRegion extends LimiterRegion {
  /** Tests can change this at any time. */
  readonly does: Behaviour;
  /** Opens the breaker, like five failures in a row. */
  readonly trip: () => void;
  /** What operators hear of the region. */
  readonly reported: string[];
  /** Calls after a response that have not been answered yet. */
  readonly inFlight: () => readonly string[];
}

/**
 * Work after a response takes this long, so that work that nobody waits for would be missing. The census comes with
 * many requests, and must not give other work the time to finish.
 */
export const LATE_MS = 10;
const PRESENT_MS = 1;
const DURING_REQUESTS: readonly Operation[] = ['take', 'peek'];

export function createRegion(name: string, { tell, isCluster = false, ...does }: Situation): FakeRegion {
  const behaviour: Behaviour = {
    run: answers(),
    announces: 'this',
    read: async () => behaviour.announces ?? undefined,
    present: async () => 1,
    ...does,
  };
  const breaker = createBreaker({ random: () => 0.5 });
  const reported: string[] = [];
  const inFlight: string[] = [];
  const later = async <T>(what: string, work: () => Promise<T>): Promise<T> => {
    inFlight.push(`${name} ${what}`);
    const lateMs = what === 'present' ? PRESENT_MS : LATE_MS;
    await new Promise((resolve) => setTimeout(resolve, lateMs));
    return work().finally(() => inFlight.splice(inFlight.indexOf(`${name} ${what}`), 1));
  };
  const store: CounterStore = {
    async run(call, signal) {
      const { operation, withAnnouncement } = call;
      tell?.(`${name} ${operation}${withAnnouncement ? ' with announcement' : ''}`);
      const run = async () => {
        const answer = await behaviour.run(call, signal);
        return withAnnouncement ? { ...answer, announced: behaviour.announces } : answer;
      };
      return DURING_REQUESTS.includes(operation) ? run() : later(operation, run);
    },
    reset: async () => {},
    async probe(signal) {
      tell?.(`${name} probe`);
      await later('probe', () => behaviour.run({ operation: 'take', checks: PROBE_CHECKS }, signal));
    },
  };
  const distance = createDistance(store, () => Date.now());
  const watch = createRegionWatch({
    store,
    breaker,
    distance,
    probeMs: DEADLINE_MS / 2,
    now: () => Date.now(),
    onScriptFailed: (said, isBroken) => void reported.push(`${isBroken ? 'broken' : 'failed'}: ${said}`),
    onBug: (error) => void reported.push(String(error)),
  });
  return {
    ...{ name, isCluster, breaker, distance, store, watch, reported },
    inFlight: () => inFlight,
    does: behaviour,
    trip() {
      for (let i = 0; i < 5; i += 1) breaker.fail(breaker.enter() ?? -1, Date.now());
    },
    board: {
      async read(signal) {
        tell?.(`${name} read`);
        return behaviour.read(signal);
      },
      write: async () => {},
      readParts: async (parts) => parts.map(() => undefined),
      writeParts: async () => {},
    },
    census: createCensus({ assumed: 1 }),
    censusBoard: {
      async present(isolateId, signal) {
        tell?.(`${name} present ${isolateId}`);
        return later('present', () => behaviour.present(isolateId, signal));
      },
    },
  };
}

/** Each call, and how many milliseconds after the start it was made. */
export function createJournal() {
  const lines: string[] = [];
  return { lines, tell: (line: string) => void lines.push(`${Date.now() - START_MS} ${line}`) };
}

/** `home` and `next`, and what they do. Without `next` there is only one. */
export function createRegions(home: Situation, next?: Situation) {
  const { lines, tell } = createJournal();
  const [first, second] = [createRegion('home', { tell, ...home }), createRegion('next', { tell, ...next })];
  const regions: Regions = next ? [first, second] : [first];
  return { home: first, next: second, regions, asked: lines, tell };
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

export type TestPlan = PlannedDecision['plan'];
export interface TestRequest extends Partial<PlannedDecision> {
  /** Called from now on with what shadow rules would have done. */
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
  const plan: TestPlan = async () => ({ kind: 'checks', checks: [createCheck()] });
  return {
    limiter,
    source,
    errors,
    settle: () => settleAll(later, regions),
    /** The decision, how long it took, and what was charged. */
    async decide({ onShadow, ...request }: TestRequest = {}) {
      if (onShadow) tellShadow = onShadow;
      const ledger: Ledger = request.ledger ?? createLedger((error) => void errors.push(error));
      const decided = await timed(() =>
        decideInRounds(limiter, {
          regions,
          operation: 'take',
          plan,
          afterResponse: (work) => void later.push(work),
          ...request,
          ledger,
        }),
      );
      return { ...decided, ledger };
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
