// Runs one episode and judges it: did more pass than the definition allows, is something held for ever, did the code
// itself fail? Where nothing was in the way, it also counts how much of the limits was used.

import { hasBurst } from '../../src/core/counting/capacity.ts';
import type { Decision } from '../../src/core/decision.ts';
import { isStandIn, ownIdOf, planRequest, type RuleCheck } from '../../src/core/matching/plan.ts';
import { compileSnapshot, type PublishedRule, type Snapshot } from '../../src/core/matching/snapshot.ts';
import type { CountCall } from '../../src/core/ports/region.ts';
import { type Charge, createLedger, type Ledger } from '../../src/limiter/ledger.ts';
import { createRandom } from '../random.ts';
import type { Isolate, SentCall, SentCallWatch } from './isolate.ts';
import { createJournal, type Journal } from './journal.ts';
import { createLedgers, type Ledgers } from './ledgers.ts';
import type { RegionServer } from './region-server.ts';
import { type Scenario, START_MS } from './scenario.ts';
import type { Arrival, SubjectPlan } from './traffic.ts';
import { createUsage, type Usage } from './usage.ts';
import { installVirtualTime, type VirtualTime } from './virtual-time.ts';
import { compileRules, contentOf, createWorld, type World } from './world.ts';

export interface Failure {
  readonly kind: 'over' | 'held' | 'bug' | 'hangs';
  readonly said: string;
  /** The subject that a smaller history must still show. */
  readonly subject?: string | undefined;
}

export interface Episode {
  readonly requests: number;
  readonly admitted: number;
  readonly denied: number;
  readonly degraded: number;
  /** Units used from memory, counted by check. */
  readonly leased: number;
  /** Units that a region counted in place of another, counted by check. */
  readonly stoodIn: number;
  /** Requests whose client had left, or whose isolate had died, before the decision. */
  readonly undecided: number;
  /** Degraded decisions although nothing was in the way. */
  readonly degradedInPeace: number;
  readonly usage: Usage;
  readonly failures: readonly Failure[];
  readonly journal: readonly string[];
}

export interface EpisodeOptions {
  /** Keeps a journal of this subject, line by line. */
  readonly journalOf?: string | undefined;
  /** Breaks a region, to show that the simulator would notice. */
  readonly tamper?: ((server: RegionServer) => void) | undefined;
}

/** Longer than anything may be kept: two windows of a minute, a burst of twice the limit, a change, a term. */
const QUIET_MS = 3_600_000;

interface Subject extends SubjectPlan {
  /** By the number of the content. */
  readonly checks: readonly (readonly RuleCheck[])[];
}

export async function runEpisode(
  scenario: Scenario,
  { journalOf, tamper }: EpisodeOptions = {},
): Promise<Episode> {
  const rules = await compileRules(scenario.contents);
  const subjects = await planAll(scenario, rules);
  using time = installVirtualTime(START_MS, createRandom(scenario.seed));
  const run = createRun(scenario, { time, rules, subjects, journal: createJournal(journalOf, time) });
  if (tamper) for (const server of run.servers) tamper(server);
  await time.runUntil(scenario.endsAtMs + QUIET_MS);
  return run.judge();
}

function planAll(scenario: Scenario, rules: readonly (readonly PublishedRule[])[]): Promise<Subject[]> {
  const snapshots = rules.map((some, i) => compileSnapshot(String(i), { rules: some, tiers: [], lists: [] }));
  return Promise.all(
    scenario.subjects.map(async (plan) => ({
      ...plan,
      checks: await Promise.all(snapshots.map((snapshot) => checksOf(snapshot, plan))),
    })),
  );
}

async function checksOf(snapshot: Snapshot, { name, path }: SubjectPlan): Promise<readonly RuleCheck[]> {
  const plan = await planRequest(snapshot, {
    matchPath: path,
    method: 'GET',
    // Two callers share a user. All callers of a path share its global limits.
    caller: { ip: name, address: name, userId: `u${path.slice(1)}-${name.length}` },
    nowMs: START_MS,
    seatId: () => '',
  });
  return plan.kind === 'checks' ? plan.checks : [];
}

interface RunParts {
  readonly time: VirtualTime;
  readonly rules: readonly (readonly PublishedRule[])[];
  readonly subjects: readonly Subject[];
  readonly journal: Journal;
}

function createRun(scenario: Scenario, { time, rules, subjects, journal }: RunParts) {
  const failures: Failure[] = [];
  const counts = { requests: 0, admitted: 0, denied: 0, degraded: 0, leased: 0, stoodIn: 0 };
  const ledgers: Ledgers = createLedgers(scenario);
  const usage = createUsage(scenario);
  /** The request whose refund is being sent now. */
  let refunding: number | undefined;

  /** The content in force. */
  let inForce = 0;
  /** Whether an isolate that does not know the content in force charges a bucket by an earlier limit. */
  const isOutdated = (check: RuleCheck) =>
    hasBurst(check) &&
    subjects.some(({ checks }) =>
      checks[inForce]?.some(
        ({ key, id, full }) => key === check.key && id === check.id && full.limit !== check.full.limit,
      ),
    );

  const onCall = (call: SentCall): SentCallWatch | undefined => {
    usage.noteCall(call);
    const refunded = refunding;
    const line = journal.open(call);
    const { checks = [] } = (call.args[0] ?? {}) as Partial<CountCall>;
    const outdated = inForce > 0 && call.method === 'take' ? (checks as RuleCheck[]).filter(isOutdated) : [];
    if (refunded === undefined && outdated.length === 0 && !line) return undefined;
    const onRun = (answer: unknown) => {
      line?.onRun(answer);
      const place = { region: call.region, atMs: time.now() };
      for (const check of outdated) ledgers.touch(check, place);
      if (refunded !== undefined) for (const check of checks) ledgers.refund(refunded, { check, ...place });
    };
    return { onRun, ...(line && { tell: line.tell }) };
  };
  const onBug = (error: unknown) =>
    void failures.push({
      kind: 'bug',
      said: error instanceof Error ? (error.stack ?? error.message) : String(error),
    });
  const world: World = createWorld(scenario, rules, { time, onCall, onBug });

  const send = async (subject: Subject, arrival: Arrival) => {
    counts.requests += 1;
    const request = counts.requests;
    const isolate = world.isolateAt(arrival.place, arrival.isolate);
    const sentAtMs = time.now();
    const unansweringBefore = isolate.unanswering(sentAtMs);
    const asked = usage.noteRequest(subject, subject.checks[0] ?? [], arrival);
    const ledger = createLedger(() => {});
    const decision = await isolate.decide({ ledger, afterResponse: () => {} }, async ({ snapshot }) => ({
      kind: 'checks',
      checks: subject.checks[contentOf(snapshot)] ?? [],
    }));
    asked.decided(decision);
    journal.decided(subject.name, { request, isolate: isolate.caller, decision });
    count(decision);
    if (!decision.allowed) return;
    const unanswering = [...unansweringBefore, ...isolate.unanswering(sentAtMs)];
    admit(ledger, isolate, request);
    failures.push(...needlessStandIns(ledger, isolate, unanswering));
    if (!arrival.fails) return;
    refunding = request;
    ledger.refundError().catch(onBug);
    refunding = undefined;
  };

  const count = (decision: Decision) => {
    if (decision.kind === 'degraded') counts.degraded += 1;
    else if (decision.allowed) counts.admitted += 1;
    else counts.denied += 1;
  };

  /**
   * If the isolate counted alone, or a region stood in for another, the counter itself was not enforced. A region's
   * charge of it is then no admission. What a stand-in admits is judged by itself.
   */
  const admit = ({ charges }: Ledger, isolate: Isolate, request: number) => {
    const isLocal = ({ store }: Charge) => isolate.regionOf(store) === undefined;
    const unenforced = new Set([
      ...charges.filter(isLocal).map(({ check: { key, id } }) => `${key} ${id}`),
      ...charges.filter(({ check }) => isStandIn(check)).map(({ check }) => `${check.key} ${ownIdOf(check)}`),
    ]);
    for (const { store, check, chargedAtMs = 0, usedAtMs } of charges) {
      const region = isolate.regionOf(store);
      if (region === undefined || check.isShadow || unenforced.has(`${check.key} ${check.id}`)) continue;
      // Leased units count when they are used, by the clock of the region that charged them.
      const usedThereMs = usedAtMs && isolate.trueMs(usedAtMs) + (scenario.skewMs[region] ?? 0);
      if (usedAtMs !== undefined) counts.leased += 1;
      if (isStandIn(check)) counts.stoodIn += 1;
      ledgers.admit(check, { region, request, nowMs: usedThereMs ?? chargedAtMs });
    }
  };

  for (const subject of subjects) sendInTurn(time, subject, send);
  for (const [i, { atMs }] of scenario.contents.entries())
    if (i > 0)
      time.after(atMs - time.now(), () => {
        inForce = i;
        world.publish(i);
      });
  const keysOf = (number: number) => [
    ...new Set(subjects[number % subjects.length]?.checks.flat().map(({ key }) => key)),
  ];
  for (const fault of scenario.faults)
    time.after(fault.atMs - time.now(), () => {
      journal.say(`${JSON.stringify(fault)}`);
      world.strike(fault, keysOf);
    });

  return {
    servers: world.servers,
    judge(): Episode {
      failures.push(...ledgers.judge(world.forgot));
      const held = world.servers.flatMap((server) => server.live());
      if (held.length > 0) failures.push({ kind: 'held', said: `after an hour there is still ${held[0]}` });
      if (time.pending > 0) failures.push({ kind: 'hangs', said: `${time.pending} timers run for an hour` });
      const decided = counts.admitted + counts.denied + counts.degraded;
      const undecided = counts.requests - decided;
      if (undecided > 0 && scenario.network.leaveRate === 0 && scenario.faults.length === 0)
        failures.push({ kind: 'hangs', said: `${undecided} requests were never decided` });
      const degradedInPeace = scenario.kind === 'quiet' ? counts.degraded : 0;
      if (degradedInPeace > 0)
        failures.push({ kind: 'bug', said: `${degradedInPeace} requests were not counted, for no reason` });
      return {
        ...counts,
        undecided,
        degradedInPeace,
        usage: usage.total(),
        failures,
        journal: journal.lines,
      };
    },
  };
}

/** A region may stand in for another only while a region does not answer. */
const needlessStandIns = (
  { charges }: Ledger,
  isolate: Isolate,
  unanswering: readonly number[],
): readonly Failure[] =>
  charges
    .filter(
      ({ check, store }) => isStandIn(check) && unanswering.every((one) => one === isolate.regionOf(store)),
    )
    .map(({ check }) => ({
      kind: 'over',
      said: `a stand-in counted ${check.rule.name} for ${check.key}, although every region answered`,
      subject: check.key,
    }));

/** Plans one arrival at a time, to keep the heap small. */
function sendInTurn(
  time: VirtualTime,
  subject: Subject,
  send: (subject: Subject, arrival: Arrival) => Promise<void>,
): void {
  let next = 0;
  const schedule = () => {
    const arrival = subject.arrivals[next];
    if (!arrival) return;
    next += 1;
    time.after(arrival.atMs - time.now(), () => {
      schedule();
      void send(subject, arrival);
    });
  };
  schedule();
}
