// One subject sends more than its limit, steadily, while nothing is in the way. Measures how much of the limit it can
// use, and how often an isolate asks a far region. The same as the bench `regions`, on virtual time: exact, and quick.
import type { AlgorithmId } from '../../src/core/counting/algorithms/registry.ts';
import { createMemoryCounters, runChecks } from '../../src/core/counting/counters.ts';
import { RULE_DEFAULTS } from '../../src/core/matching/flat-rule.ts';
import { planRequest, type RuleCheck } from '../../src/core/matching/plan.ts';
import { compileSnapshot, type PublishedRule } from '../../src/core/matching/snapshot.ts';
import { createLedger } from '../../src/limiter/ledger.ts';
import { createRandom } from '../random.ts';
import type { LimitedRule } from '../rules.ts';
import { REGIONS, type Scenario, START_MS } from './scenario.ts';
import { installVirtualTime, type VirtualTime } from './virtual-time.ts';
import { compileRules, createWorld, type World } from './world.ts';

export interface SteadyTraffic {
  readonly algorithm: AlgorithmId;
  readonly limit: number;
  readonly windowSeconds: number;
  /** The first window is not judged: a full bucket at the start could not have been used before. */
  readonly windows: number;
  /** The round trip between two regions. */
  readonly roundTripMs: number;
  /** How many requests each region gets, relative to the others. */
  readonly weights: readonly number[];
  /** The load relative to the limit. The default is 2. */
  readonly load?: number;
  /** In each region; one if left out. */
  readonly isolates?: number;
}

export interface SteadyUse {
  /** Relative to one counter with the whole limit and the same requests. */
  readonly utilization: number;
  readonly farCallsPerRequest: number;
  /** Calls to any region. */
  readonly callsPerRequest: number;
  /** Requests beyond the limit in an aligned window. Only for fixed-window, which counts by such windows. */
  readonly beyondWindow: number;
}

const DEADLINE_MS = 250;
const TWICE = 2;
const QUIET_MS = 20_000;

export async function playSteadyTraffic(traffic: SteadyTraffic): Promise<SteadyUse> {
  const scenario = scenarioOf(traffic);
  const rules = await compileRules(scenario.contents);
  const checks = await checksOf(rules[0] ?? []);
  using time = installVirtualTime(START_MS, createRandom(1));
  let farCalls = 0;
  let calls = 0;
  const world = createWorld(scenario, rules, {
    time,
    onBug: (error) => {
      throw error;
    },
    onCall: ({ caller, region }) => {
      calls += 1;
      if (caller.place !== region) farCalls += 1;
      return undefined;
    },
  });
  const sent = sendAll(traffic, { world, time, checks });
  await time.runUntil(START_MS + (traffic.windows + 1) * traffic.windowSeconds * 1_000 + QUIET_MS);
  return {
    utilization: utilizationOf(traffic, sent),
    farCallsPerRequest: farCalls / sent.length,
    callsPerRequest: calls / sent.length,
    beyondWindow: beyondWindow(traffic, sent),
  };
}

function beyondWindow({ limit, windowSeconds }: SteadyTraffic, sent: readonly Sent[]): number {
  const admitted = sent.filter(({ isAdmitted }) => isAdmitted);
  const windows = Map.groupBy(admitted, ({ countedAtMs }) => Math.floor(countedAtMs / windowSeconds / 1_000));
  return [...windows.values()].reduce((sum, { length }) => sum + Math.max(0, length - limit), 0);
}

function scenarioOf(traffic: SteadyTraffic): Scenario {
  const { algorithm, limit, windowSeconds, roundTripMs, isolates = 1 } = traffic;
  const names = { id: 'rule', name: 'rule', resource: '/', scope: 'ip', ordinal: 0 } as const;
  const rule: LimitedRule = { ...RULE_DEFAULTS, ...names, algorithm, limit, windowSeconds };
  const shares = Object.fromEntries(REGIONS.map((name) => [name, 1]));
  const content = { sets: [{ path: '/', rules: [rule] }], shares, sharesBefore: [], moved: {} };
  const oneWayMs = REGIONS.map((_, i) => REGIONS.map((_, j) => (i === j ? 1 : roundTripMs / 2)));
  return {
    seed: 1,
    kind: 'quiet',
    deadlineMs: DEADLINE_MS,
    isolatesPerPlace: isolates,
    network: { seed: 1, oneWayMs, jitter: 0, lossRate: 0, lateRate: 0, leaveRate: 0 },
    boundMs: 0,
    skewMs: [],
    isolateSkewMs: [],
    contents: [{ atMs: START_MS, content }],
    subjects: [],
    faults: [],
    endsAtMs: START_MS,
  };
}

async function checksOf(rules: readonly PublishedRule[]): Promise<readonly RuleCheck[]> {
  const snapshot = compileSnapshot('0', { rules, tiers: [], lists: [] });
  const caller = { ip: 'subject', address: 'subject' };
  const request = { matchPath: '/', method: 'GET', caller, nowMs: START_MS, seatId: () => '' };
  const plan = await planRequest(snapshot, request);
  return plan.kind === 'checks' ? plan.checks : [];
}

interface Sent {
  readonly atMs: number;
  /** The time by the clock of the counter. */
  countedAtMs: number;
  isAdmitted: boolean;
}

interface Playing {
  readonly world: World;
  readonly time: VirtualTime;
  readonly checks: readonly RuleCheck[];
}

/** Sends from the start of a window on. */
function sendAll(
  { limit, windowSeconds, windows, weights, load = TWICE, isolates = 1 }: SteadyTraffic,
  { world, time, checks }: Playing,
): Sent[] {
  const windowMs = windowSeconds * 1_000;
  const random = createRandom(1);
  return Array.from({ length: Math.floor(windows * load * limit) }, (_, i) => {
    const number = Math.floor(random() * isolates);
    const atMs = Math.round(START_MS + windowMs + (i * windowMs) / (load * limit));
    const sent: Sent = { atMs, countedAtMs: 0, isAdmitted: false };
    time.after(atMs - time.now(), async () => {
      const isolate = world.isolateAt(placeOf(i, weights), number);
      const request = { ledger: createLedger(() => {}), afterResponse: () => {} };
      const decision = await isolate.decide(request, async () => ({ kind: 'checks', checks }));
      if (decision.kind !== 'counted') return;
      sent.isAdmitted = decision.allowed;
      sent.countedAtMs = decision.nowMs;
    });
    return sent;
  });
}

/** Mixes the regions evenly. */
function placeOf(i: number, weights: readonly number[]): number {
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  let rest = ((i * 0.618034) % 1) * total;
  return Math.max(
    0,
    weights.findIndex((weight) => {
      rest -= weight;
      return rest < 0;
    }),
  );
}

function utilizationOf({ algorithm, limit, windowSeconds }: SteadyTraffic, sent: readonly Sent[]): number {
  const windowMs = windowSeconds * 1_000;
  const counters = createMemoryCounters();
  const check = { key: 'ideal', id: 'ideal', algorithm, limit, windowMs, cost: 1 };
  const judged = { ideal: 0, admitted: 0 };
  for (const { atMs, isAdmitted } of sent) {
    const passes = runChecks('take', [check], atMs, counters).outcomes[0]?.allowed === true;
    if (atMs < START_MS + 2 * windowMs) continue;
    judged.ideal += Number(passes);
    judged.admitted += Number(isAdmitted);
  }
  return judged.admitted / judged.ideal;
}
