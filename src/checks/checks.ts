// Checks without a request: other services (queues, cron jobs, back-ends) limit themselves by the same rules and
// counters.
//
// # What the room promises
//
// A call is decided as a request is: all its checks are charged, or none. The answer has an id, by which the service can
// give the charges back, or correct them to the real cost, once and within a day. Calls with one idempotency key are
// charged once and get one answer. A service learns exactly what is wrong with a call.
//
// # In what order a call is handled
//
//  1. route.ts lets in tokens that may check, by HTTP. Calls by RPC (rpc.ts) come straight here.
//  2. call.ts reads the call, and plans its checks by the rules in force. If the call does not fit them, newer rules are
//     looked for, once.
//  3. The limiter decides, and the decision is reported as that of a request.
//  4. charge-id.ts writes the charges into the id of the answer, signed. A region keeps records of ids and keys.
//
// quota.ts is apart: it shows callers their own limits.
//
// # What must never be
//
// A charge is given back twice. Two calls with one key are both charged. A leased unit pays for a check: another isolate
// could not give it back.

import { type Decision, decisiveResult, delayOf, denyingResults, resultsOf } from '../core/decision.ts';
import { digest, randomId, toBase64Url } from '../core/digest.ts';
import { type Caller, idsOf } from '../core/matching/caller.ts';
import { ownIdOf, type RuleCheck } from '../core/matching/plan.ts';
import type { Snapshot } from '../core/matching/snapshot.ts';
import type { CheckRecords } from '../core/ports/region.ts';
import type { AfterResponse } from '../core/ports/telemetry.ts';
import { centralRegionOf, type WeightedRegion } from '../core/regions/parts.ts';
import { createPerSecondBudget } from '../core/time.ts';
import { incidentOf, report } from '../gateway/headers.ts';
import type { Services } from '../gateway/services.ts';
import { attempt } from '../http/guard.ts';
import { invalidBody, ProblemError } from '../http/internal-requests.ts';
import { createDeadline } from '../limiter/deadline.ts';
import {
  AMENDMENTS,
  atEachStore,
  createLedger,
  type Ledger,
  type PastCharge,
  settlementOf,
} from '../limiter/ledger.ts';
import { type DecisionRequest, DoesNotFit, type MakePlan } from '../limiter/limiter.ts';
import type { Regions } from '../limiter/region.ts';
import {
  createRulesInForce,
  type RulesInForceOptions,
  type RulesRequest,
} from '../limiter/rules-in-force.ts';
import {
  type CheckAnswer,
  type PlannedCheck,
  planChecks,
  type ReadCall,
  readCall,
  readKeyHeader,
  readRefund,
  readSettlement,
  type SettleAnswer,
} from './call.ts';
import { type ChargeUsage, createChargeIds, type RegionCharge } from './charge-id.ts';

/** A token that may check: role `check` or `admin`. */
export interface CheckToken {
  readonly token: string;
  readonly role: 'admin' | 'read' | 'check';
}

export interface CheckOptions {
  readonly tokens: readonly CheckToken[];
  /** Signs the ids of charges. */
  readonly secret: string;
  /** Each region keeps its own records of checks. */
  readonly regions: readonly (WeightedRegion & { readonly checkRecords: CheckRecords })[];
}

export interface CheckContext {
  /** Nearest first. */
  readonly regions: Regions;
  readonly afterResponse: AfterResponse;
  /** The header with an idempotency key. It applies if the call names no key. */
  readonly keyHeader?: string | null;
  /** Whom a check without a subject counts. */
  readonly caller?: Caller | undefined;
}

/** All methods take what a service has sent, and throw a ProblemError that says what is wrong with it. */
export type Checks = ReturnType<typeof createChecks>;

const checksOf = new WeakMap<Services, Checks>();

/** The checks of an isolate, for the route and for service bindings. */
export function serviceChecks(services: Services): Checks {
  const made = checksOf.get(services) ?? createChecks(services);
  checksOf.set(services, made);
  return made;
}

/** Only the service that called waits for these calls, so they may take long. */
const inTime = () => AbortSignal.timeout(5_000);
const PENDING = 'pending';
/** How long a service can give a charge back. The record that an id was spent is kept longer. */
const RETURNABLE_MS = 24 * 3_600_000;

export function createChecks(services: Services) {
  const { limiter, log, now, deadlineMs, telemetry } = services;
  const ids = createChargeIds(services.check.secret);
  const refresh = createRulesRefresh(services);
  const stores = new Map(services.regions.map(({ name, store }) => [name, store]));

  const recordsIn = (name: string) => services.check.regions.find((one) => one.name === name)?.checkRecords;

  /** Weir keeps the record of a key in the same region, whichever region the call comes from. */
  const recordsOf = (name: string): CheckRecords => {
    const records = recordsIn(centralRegionOf(name, services.check.regions));
    if (!records) throw new Error('there are no regions');
    return records;
  };

  const decide = async (
    call: ReadCall,
    { regions, afterResponse, caller }: CheckContext,
  ): Promise<CheckAnswer> => {
    const startedAtMs = telemetry.clockMs();
    const ledger = createLedger((error) => log.error('charge-not-settled', error));
    const operation = call.isPeek ? 'peek' : 'take';
    const request = { regions, operation, ledger, afterResponse } as const;
    let planned: readonly PlannedCheck[] = [];
    const decision = await decideBy(request, async ({ snapshot }) => {
      const options = { ipv6Prefix: services.identity.ipv6Prefix, caller, nowMs: now(), seatId: randomId };
      const { checks, errors } = await planChecks(snapshot, call, options);
      if (errors.length > 0) throw new DoesNotFit(snapshot, errors);
      planned = checks;
      return { kind: 'checks', checks: checks.map(({ check }) => check) };
    });
    const subjects = subjectsOf(planned);
    if (!call.isPeek) attempt(log, tell, decision, subjects, startedAtMs, { regions, afterResponse });
    return toAnswer(decision, planned, decision.allowed ? await idOf(ledger, subjects) : null);
  };

  /** If the call does not fit the rules, looks once for newer ones that it fits. */
  const decideBy = async (request: DecisionRequest, plan: MakePlan, mayRefresh = true): Promise<Decision> => {
    try {
      return await limiter.decide(request, plan);
    } catch (error) {
      if (!(error instanceof DoesNotFit)) throw error;
      const found = mayRefresh ? await refresh(error.snapshot, request) : 'same';
      if (found === 'same') throw invalidBody(error.errors);
      if (found === 'unknown') throw new ProblemError({ ...OLD_RULES, errors: error.errors });
      return decideBy(request, plan, false);
    }
  };

  /** Counts the call as the gateway counts a request. */
  const tell = (
    decision: Decision,
    subjects: Subjects,
    startedAtMs: number,
    { regions, afterResponse }: CheckContext,
  ) => {
    const region = regions[0].name;
    const incident = incidentOf(decision);
    report(services, region, decision, incident);
    const results = Map.groupBy(resultsOf(decision), ({ check }) => subjectOf(check, subjects));
    telemetry.checked({
      ...{ decision, incident, region, startedAtMs },
      subjects: subjects.map(([{ caller }], i) => ({ caller, results: results.get(i) ?? [] })),
    });
    telemetry.flush(regions, afterResponse);
  };

  const idOf = async ({ charges }: Ledger, subjects: Subjects): Promise<string | null> => {
    const made = charges.flatMap(({ store, check, chargedAtMs }): RegionCharge[] => {
      const region = services.regions.find((one) => one.store === store);
      return region && chargedAtMs !== undefined
        ? [{ region: region.name, check: { ...check, chargedAtMs }, usage: usageOf(check, subjects) }]
        : [];
    });
    return made.length > 0 ? ids.write(made) : null;
  };

  /** Corrects the usage that was noted for these charges. Seats are no units: they were used. */
  const correct = (
    charges: readonly RegionCharge[],
    realCost: number,
    { regions, afterResponse }: CheckContext,
  ) => {
    const spent = charges.flatMap(({ check, usage }) =>
      usage && check.seatId === undefined ? [{ ...usage, ...check }] : [],
    );
    for (const [first, ...others] of groupsOf(spent, ({ subject }) => subject)) {
      const { tenantId, userId, apiKeyId, chargedAtMs } = first;
      // A rule with several limits has made several charges.
      const byRule = new Map([first, ...others].map(({ ruleId, cost }) => [ruleId, cost]));
      telemetry.corrected({
        ...{ tenantId, userId, apiKeyId, chargedAtMs },
        charges: [...byRule].map(([ruleId, cost]) => ({ ruleId, cost, realCost })),
      });
    }
    telemetry.flush(regions, afterResponse);
  };

  /** The first call decides and stores its answer for the repeats. */
  const decideOnce = async (key: string, call: ReadCall, asked: CheckContext): Promise<CheckAnswer> => {
    const name = `key:${toBase64Url(await digest('SHA-256', key))}`;
    // Without a subject, the same call of another caller is another call.
    const by = call.checks.some(({ subject }) => subject === undefined) && asked.caller;
    const said = toBase64Url(
      await digest('SHA-256', JSON.stringify([call.checks, call.isPeek, ...(by ? [nameOf(by)] : [])])),
    );
    const records = recordsOf(name);
    const known = await available(() =>
      records.claim(name, `${said} ${PENDING}`, AbortSignal.timeout(deadlineMs)),
    );
    if (known !== undefined) return answerOf(known, said);
    const drop = () => records.drop(name, inTime());
    const answer = await decide(call, asked).catch(async (error: unknown) => {
      await drop().catch(() => {});
      throw error;
    });
    // The call was not counted, so the client may try again.
    if (answer.degraded !== null) await drop().catch(() => {});
    else {
      const written = records.write(name, `${said} ${JSON.stringify(answer)}`, inTime());
      asked.afterResponse(written.catch((error) => log.error('charge-not-settled', error)));
      await written.catch(() => {});
    }
    return answer;
  };

  /** Marks the id as spent before Weir changes a charge: a refund must never happen twice. */
  const spend = async (id: string): Promise<readonly RegionCharge[]> => {
    const read = await ids.read(id);
    if (!read) throw badId(404, 'unknown-check', 'was not made by this Weir');
    const { charges } = read;
    const [first] = charges;
    if (!first || now() - first.check.chargedAtMs > RETURNABLE_MS)
      throw badId(410, 'check-expired', 'is older than a day');
    const name = `id:${read.name}`;
    // Where the id says that it was charged. A region chosen by shares would change with them, and forget the id.
    const records = recordsIn(first.region) ?? recordsOf(name);
    const known = await available(() => records.claim(name, 'spent', inTime()));
    if (known !== undefined) throw badId(409, 'check-spent', 'was refunded or settled before');
    await available(() => records.write(name, 'spent', inTime()));
    return charges;
  };

  /** Leaves out charges in regions that were removed since. */
  const toPastCharges = (charges: readonly RegionCharge[]): PastCharge[] =>
    charges.flatMap(({ region, check }) => {
      const store = stores.get(region);
      return store ? [{ store, check, chargedAtMs: check.chargedAtMs }] : [];
    });

  const giveBack = (charges: readonly PastCharge[]) =>
    atEachStore(charges, (store, some) => available(() => AMENDMENTS.refund(store, some, inTime())));

  /** Resolves to the units that could not be charged, of the limit that lacks most. */
  const chargeMore = async (charges: readonly PastCharge[]): Promise<number> => {
    const lacking = await atEachStore(charges, async (store, some) => {
      const { outcomes } = await available(() => AMENDMENTS.settle(store, some, inTime()));
      return some.map(({ check }, i) => check.cost - (outcomes[i]?.chargedUnits ?? 0));
    });
    return Math.max(0, ...lacking.flat());
  };

  /** Also gives seats back: the id can be used once, so nothing could do it later. */
  const bringToCost = async (id: string, cost: number, asked: CheckContext): Promise<SettleAnswer> => {
    const charges = await spend(id);
    const { seats = [], units = [] } = Object.groupBy(toPastCharges(charges), ({ check }) =>
      check.seatId === undefined ? 'units' : 'seats',
    );
    const { added, refunded } = settlementOf(units, cost);
    const uncharged = await chargeMore(added);
    await giveBack([...refunded, ...seats]);
    attempt(log, correct, charges, cost, asked);
    return { uncharged };
  };

  return {
    async check(body: unknown, asked: CheckContext): Promise<CheckAnswer> {
      const call = readCall(body);
      const key = call.idempotencyKey ?? readKeyHeader(asked.keyHeader ?? null);
      return key === undefined || call.isPeek ? decide(call, asked) : decideOnce(key, call, asked);
    },
    /** Gives all charges back. Throws if the id was used before or is too old. */
    async refund(body: unknown, asked: CheckContext): Promise<void> {
      await bringToCost(readRefund(body).id, 0, asked);
    },
    /** Brings every charge to this cost, and gives seats back. Throws as `refund` does. */
    async settle(body: unknown, asked: CheckContext): Promise<SettleAnswer> {
      const { id, cost } = readSettlement(body);
      return bringToCost(id, cost, asked);
    },
  };
}

/** An address may change between two calls of one user. */
function nameOf(caller: Caller): unknown {
  const ids = Object.values(idsOf(caller));
  return ids.some((id) => id !== '') ? ids : caller.ip;
}

// Whose usage the charges of a call are. One call can have checks of several subjects, and several checks of one.

/** The checks of each subject that a call names. */
type Subjects = readonly (readonly [PlannedCheck, ...PlannedCheck[]])[];

export const subjectsOf = (planned: readonly PlannedCheck[]): Subjects =>
  groupsOf(planned, ({ caller: { ip, tenantId, userId, apiKeyId } }) =>
    JSON.stringify([ip, tenantId, userId, apiKeyId]),
  );

const groupsOf = <T>(all: readonly T[], keyOf: (one: T) => unknown) =>
  [...Map.groupBy(all, keyOf).values()] as unknown as readonly (readonly [T, ...T[]])[];

/** Regions count copies of a check, some as stand-ins, so a check is found by the rule's own counter. */
const isOf =
  (counted: RuleCheck) =>
  ({ check }: PlannedCheck): boolean =>
    check.key === counted.key && check.id === ownIdOf(counted);

const subjectOf = (check: RuleCheck, subjects: Subjects): number =>
  subjects.findIndex((checks) => checks.some(isOf(check)));

/** Shadow rules leave no usage. */
export function usageOf(check: RuleCheck, subjects: Subjects): ChargeUsage | undefined {
  const subject = subjectOf(check, subjects);
  const [planned] = subjects[subject] ?? [];
  if (!planned || check.isShadow) return undefined;
  return { ruleId: check.rule.id, ...idsOf(planned.caller), subject };
}

const badId = (status: number, code: string, detail: string) =>
  new ProblemError({
    status,
    code,
    title: 'The check cannot be refunded or settled',
    errors: [{ pointer: '#/id', detail }],
  });

const OLD_RULES = {
  status: 503,
  code: 'rules-unavailable',
  title: 'The rules may be old',
  detail: 'No region confirms the rules of this isolate, or newer ones cannot be loaded.',
  'retry-after': 1,
};

async function available<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof ProblemError) throw error;
    throw new ProblemError({
      status: 503,
      code: 'counters-unavailable',
      title: 'Redis does not answer',
      detail: 'A region that this call needs did not answer.',
      'retry-after': 1,
    });
  }
}

function answerOf(known: string, said: string): CheckAnswer {
  const blank = known.indexOf(' ');
  const rest = known.slice(blank + 1);
  if (known.slice(0, blank) !== said)
    throw new ProblemError({
      status: 422,
      code: 'idempotency-key-reused',
      title: 'The idempotency key was used for another call',
    });
  if (rest === PENDING)
    throw new ProblemError({
      status: 409,
      code: 'in-progress',
      title: 'The first call with this idempotency key is still in progress',
      'retry-after': 1,
    });
  return JSON.parse(rest) as CheckAnswer;
}

function toAnswer(decision: Decision, planned: readonly PlannedCheck[], id: string | null): CheckAnswer {
  const results = resultsOf(decision);
  const decisive = decisiveResult(denyingResults(results));
  return {
    allowed: decision.allowed,
    id,
    retryAfterMs: (!decision.allowed && decisive?.outcome.retryAfterMs) || null,
    delayMs: decision.allowed ? delayOf(decision) : 0,
    degraded: decision.kind === 'degraded' ? decision.reason : null,
    results: results.map(({ check, outcome }) => ({
      policy: check.rule.policy,
      subject: planned.find(isOf(check))?.subject ?? null,
      allowed: outcome.allowed,
      limit: check.full.limit,
      remaining: outcome.remaining,
      cost: check.cost,
      resetAt: new Date(outcome.resetAtMs).toISOString(),
      retryAfterMs: outcome.allowed ? null : (outcome.retryAfterMs ?? null),
    })),
  };
}

// Brings the rules up to date for a check that they cannot plan: a rule that it names may be newer than the rules of
// this isolate. Without this, an isolate that gets only such checks would never read the announcement.

/** For an isolate. Names that nobody has published must not cost a call to Redis each. */
const REFRESHES_PER_SECOND = 5;
/** How often a call without a read of its own looks whether those of other calls have an answer. */
const LOOK_AGAIN_MS = 10;

export type RefreshResult =
  /** The isolate has other rules than before. */
  | 'newer'
  /** No region announces other rules. */
  | 'same'
  /** No region has answered, or the new rules cannot be loaded. */
  | 'unknown';

/** `used` are the rules that could not plan the check. */
export type RefreshRules = (used: Snapshot, request: RulesRequest['request']) => Promise<RefreshResult>;

export function createRulesRefresh(options: RulesInForceOptions): RefreshRules {
  const { snapshots, deadlineMs, now } = options;
  const rules = createRulesInForce(options);
  const budget = createPerSecondBudget(REFRESHES_PER_SECOND);
  /** What the last read has said, and the second in which it began. */
  let last: { readonly second: number; readonly result: RefreshResult } | undefined;
  const currentSecond = () => Math.floor(now() / 1_000);

  const ask = async (request: RulesRequest['request']): Promise<RefreshResult> => {
    const expected = snapshots.announced();
    // Rules that miss what is asked for are worth no more than none, so the request waits as if they had lapsed.
    const probe = { expected, isOverdue: true, isLapsed: true, askedAtMs: now() };
    const asking = { request, deadline: createDeadline(deadlineMs, now), probe };
    const { news } = (await rules.hear(asking)) ?? {};
    if (news) return (await rules.follow(news, asking)) ? 'newer' : 'unknown';
    return snapshots.isConfirmed(now()) ? 'same' : 'unknown';
  };

  return async (used, request) => {
    // Rules in code have no announcement.
    if (snapshots.current() === used && snapshots.announced() === '') return 'same';
    const deadline = createDeadline(deadlineMs, now);
    while (snapshots.current() === used) {
      const second = currentSecond();
      if (budget.hasRoom(now())) {
        budget.take();
        const result = await ask(request);
        last = { second, result };
        return result;
      }
      // The rules are those that a read of this second has found, so they are as new as can be.
      if (last?.second === second) return last.result === 'newer' ? 'same' : last.result;
      // Other calls read, and none has an answer yet. Looks again, because on Workers a request that awaits a promise of
      // another request hangs.
      if (deadline.remainingMs() === 0) return 'unknown';
      await new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS));
    }
    return 'newer';
  };
}
