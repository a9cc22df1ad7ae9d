// Checks without a request: other services (queues, cron jobs, back-ends) limit themselves by the same rules and
// counters. A service can give back or settle the charges once, by the id in the answer.

import { type Decision, decisiveResult, denyingResults, resultsOf } from '../core/decision.ts';
import { digest, randomId, toBase64Url } from '../core/digest.ts';
import type { Caller } from '../core/matching/caller.ts';
import { ownIdOf, type RuleCheck } from '../core/matching/plan.ts';
import type { CheckRecords } from '../core/ports/region.ts';
import type { AfterResponse } from '../core/ports/telemetry.ts';
import { centralRegionOf, type WeightedRegion } from '../core/regions/parts.ts';
import type { FieldError } from '../core/shape.ts';
import { incidentOf, report } from '../gateway/decision-report.ts';
import type { Services } from '../gateway/services.ts';
import { waitOf } from '../gateway/throttle.ts';
import { attempt } from '../http/guard.ts';
import { invalidBody, ProblemError } from '../http/internal-problems.ts';
import {
  AMENDMENTS,
  atEachStore,
  createLedger,
  type Ledger,
  type PastCharge,
  settlementOf,
} from '../limiter/ledger.ts';
import { type DecisionRequest, DoesNotFit, type MakePlan } from '../limiter/limiter.ts';
import type { Regions } from '../limiter/region-calls.ts';
import { createRulesRefresh, type Refreshed } from '../limiter/rules-refresh.ts';
import { createChargeIds, type RegionCharge } from './charge-id.ts';
import type { CheckAnswer, ReadCall } from './messages.ts';
import { type PlannedCheck, planChecks } from './plan.ts';

// Whose usage the charges of a call are. One call can have checks of several subjects, and several checks of one.

/** A subject that a call names, in one or several of its checks. */
export interface Subject {
  readonly caller: Caller;
  has(check: RuleCheck): boolean;
}

export function subjectsOf(planned: readonly PlannedCheck[]): Subject[] {
  const groups = Map.groupBy(planned, ({ caller: { ip, tenantId, userId, apiKeyId } }) =>
    JSON.stringify([ip, tenantId, userId, apiKeyId]),
  );
  return [...groups.values()].flatMap((ofSubject) => {
    const names = new Set(ofSubject.map(({ check }) => counterOf(check)));
    return ofSubject
      .slice(0, 1)
      .map(({ caller }) => ({ caller, has: (check) => names.has(counterOf(check)) }));
  });
}

/** Regions count copies of a check, some as stand-ins, so a check is found by the rule's own counter. */
export const counterOf = (check: RuleCheck) => `${check.key} ${ownIdOf(check)}`;

/** Shadow rules leave no usage. */
export function usageOf(check: RuleCheck, subjects: readonly Subject[]): RegionCharge['usage'] {
  const subject = subjects.findIndex(({ has }) => has(check));
  const caller = subjects[subject]?.caller;
  if (!caller || check.isShadow) return undefined;
  const { tenantId = '', userId = '', apiKeyId = '' } = caller;
  return { ruleId: check.rule.id, tenantId, userId, apiKeyId, subject };
}

export interface CheckServices
  extends Pick<
    Services,
    'deadlineMs' | 'incidentCounts' | 'limiter' | 'log' | 'now' | 'regions' | 'snapshots' | 'telemetry'
  > {
  readonly ipv6Prefix: number;
  readonly check: CheckOptions;
}

export interface CheckOptions {
  /** Signs the ids of charges. */
  readonly secret: string;
  /** Each region keeps its own records of checks. */
  readonly regions: readonly (WeightedRegion & { readonly checkRecords: CheckRecords })[];
}

export interface CheckContext {
  /** Nearest first. */
  readonly regions: Regions;
  readonly afterResponse: AfterResponse;
}

export interface Checks {
  check(call: ReadCall, asked: CheckContext): Promise<CheckAnswer>;
  /** Gives all charges back. Throws a ProblemError if the id was used before or is too old. */
  refund(id: string, asked: CheckContext): Promise<void>;
  /** Brings every charge to this cost, and gives seats back. Throws as `refund` does. */
  settle(id: string, cost: number, asked: CheckContext): Promise<void>;
}

/** Only the service that called waits for these calls, so they may take long. */
const SETTLE_MS = 5_000;
const PENDING = 'pending';
/** How long a service can give a charge back. The record that an id was spent is kept longer. */
const RETURNABLE_MS = 24 * 3_600_000;

export function createChecks(services: CheckServices): Checks {
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

  const decide = async (call: ReadCall, { regions, afterResponse }: CheckContext): Promise<CheckAnswer> => {
    const startedAtMs = telemetry.clockMs();
    const ledger = createLedger((error) => log.error('charge-not-settled', error));
    const operation = call.isPeek ? 'peek' : 'take';
    const request = { regions, operation, ledger, afterResponse } as const;
    let planned: readonly PlannedCheck[] = [];
    const decision = await decideBy(request, async ({ snapshot }) => {
      const options = { ipv6Prefix: services.ipv6Prefix, nowMs: now(), seatId: randomId };
      const { checks, errors } = await planChecks(snapshot, call, options);
      if (errors.length > 0) throw new DoesNotFit(snapshot, errors);
      planned = checks;
      return { kind: 'checks', checks: checks.map(({ check }) => check) };
    });
    const subjects = subjectsOf(planned);
    if (!call.isPeek) attempt(log, tell, decision, subjects, { regions, afterResponse, startedAtMs });
    return toAnswer(decision, planned, await idOf(ledger, decision, subjects));
  };

  /** If the call does not fit the rules, looks once for newer ones that it fits. */
  const decideBy = async (request: DecisionRequest, plan: MakePlan, mayRefresh = true): Promise<Decision> => {
    try {
      return await limiter.decide(request, plan);
    } catch (error) {
      if (!(error instanceof DoesNotFit)) throw error;
      expectNewer(error.errors, mayRefresh ? await refresh(error.snapshot, request) : 'same');
      return decideBy(request, plan, false);
    }
  };

  /** Counts the call as the gateway counts a request. */
  const tell = (
    decision: Decision,
    subjects: readonly Subject[],
    { regions, afterResponse, startedAtMs }: CheckContext & { readonly startedAtMs: number },
  ) => {
    const region = regions[0].name;
    const incident = incidentOf(decision, undefined);
    report(services, region, decision, incident);
    const results = Map.groupBy(resultsOf(decision), ({ check }) => subjects.find(({ has }) => has(check)));
    telemetry.checked({
      ...{ decision, incident, region, startedAtMs },
      subjects: subjects.map((one) => ({ caller: one.caller, results: results.get(one) ?? [] })),
    });
    telemetry.flush(regions, afterResponse);
  };

  const idOf = async (
    ledger: Ledger,
    { allowed }: Decision,
    subjects: readonly Subject[],
  ): Promise<string | null> => {
    const charges = ledger.charges.flatMap(({ store, check, chargedAtMs }): RegionCharge[] => {
      const region = services.regions.find((one) => one.store === store);
      return region && chargedAtMs !== undefined
        ? [{ region: region.name, check: { ...check, chargedAtMs }, usage: usageOf(check, subjects) }]
        : [];
    });
    return allowed && charges.length > 0 ? ids.write(charges) : null;
  };

  /** Corrects the usage that was noted for these charges. Seats are no units: they were used. */
  const correct = (
    charges: readonly RegionCharge[],
    realCost: number,
    { regions, afterResponse }: CheckContext,
  ) => {
    const spent = charges.filter(({ check, usage }) => usage && check.seatId === undefined);
    for (const [, ofSubject] of Map.groupBy(spent, ({ usage }) => usage?.subject)) {
      const [first] = ofSubject;
      if (!first?.usage) continue;
      const { tenantId, userId, apiKeyId } = first.usage;
      // A rule with several limits has made several charges.
      const byRule = new Map(ofSubject.map(({ check, usage }) => [usage?.ruleId ?? '', check.cost]));
      telemetry.corrected({
        ...{ tenantId, userId, apiKeyId, chargedAtMs: first.check.chargedAtMs },
        charges: [...byRule].map(([ruleId, cost]) => ({ ruleId, cost, realCost })),
      });
    }
    telemetry.flush(regions, afterResponse);
  };

  /** The first call decides and stores its answer for the repeats. */
  const decideOnce = async (key: string, call: ReadCall, asked: CheckContext): Promise<CheckAnswer> => {
    const name = `key:${toBase64Url(await digest('SHA-256', key))}`;
    const said = toBase64Url(await digest('SHA-256', JSON.stringify([call.checks, call.isPeek])));
    const records = recordsOf(name);
    const known = await available(() =>
      records.claim(name, `${said} ${PENDING}`, AbortSignal.timeout(deadlineMs)),
    );
    if (known !== undefined) return answerOf(known, said);
    const drop = () => records.drop(name, AbortSignal.timeout(SETTLE_MS));
    const answer = await decide(call, asked).catch(async (error: unknown) => {
      await drop().catch(() => {});
      throw error;
    });
    // The call was not counted, so the client may try again.
    if (answer.degraded !== null) await drop().catch(() => {});
    else {
      const written = records.write(
        name,
        `${said} ${JSON.stringify(answer)}`,
        AbortSignal.timeout(SETTLE_MS),
      );
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
    const known = await available(() => records.claim(name, 'spent', AbortSignal.timeout(SETTLE_MS)));
    if (known !== undefined) throw badId(409, 'check-spent', 'was refunded or settled before');
    await available(() => records.write(name, 'spent', AbortSignal.timeout(SETTLE_MS)));
    return charges;
  };

  /** Leaves out charges in regions that were removed since. */
  const toPastCharges = (charges: readonly RegionCharge[]): PastCharge[] =>
    charges.flatMap(({ region, check }) => {
      const store = stores.get(region);
      return store ? [{ store, check, chargedAtMs: check.chargedAtMs }] : [];
    });

  const amend = (operation: 'refund' | 'settle', charges: readonly PastCharge[]) =>
    atEachStore(charges, (store, some) =>
      available(() => AMENDMENTS[operation](store, some, AbortSignal.timeout(SETTLE_MS))),
    );

  return {
    check: (call, asked) =>
      call.idempotencyKey === undefined || call.isPeek
        ? decide(call, asked)
        : decideOnce(call.idempotencyKey, call, asked),
    async refund(id, asked) {
      const charges = await spend(id);
      await amend('refund', toPastCharges(charges));
      attempt(log, correct, charges, 0, asked);
    },
    async settle(id, cost, asked) {
      const charges = await spend(id);
      const { seats = [], units = [] } = Object.groupBy(toPastCharges(charges), ({ check }) =>
        check.seatId === undefined ? 'units' : 'seats',
      );
      const { added, refunded } = settlementOf(units, cost);
      await amend('settle', added);
      // The id can be used once, so nothing could give the seats back later.
      await amend('refund', [...refunded, ...seats]);
      attempt(log, correct, charges, cost, asked);
    },
  };
}

/** Throws unless there are newer rules, by which the call may be valid. */
function expectNewer(errors: readonly FieldError[], refreshed: Refreshed): void {
  if (refreshed === 'same') throw invalidBody(errors);
  if (refreshed === 'unknown')
    throw new ProblemError(
      {
        status: 503,
        code: 'rules-unavailable',
        title: 'The rules may be old',
        detail: 'No region confirms the rules of this isolate, or newer ones cannot be loaded.',
        errors,
      },
      RETRY,
    );
}

const RETRY = { 'Retry-After': '1' };

const badId = (status: number, code: string, detail: string) =>
  new ProblemError({
    status,
    code,
    title: 'The check cannot be refunded or settled',
    errors: [{ pointer: '#/id', detail }],
  });

async function available<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof ProblemError) throw error;
    throw new ProblemError(
      {
        status: 503,
        code: 'counters-unavailable',
        title: 'Redis does not answer',
        detail: 'A region that this call needs did not answer.',
      },
      RETRY,
    );
  }
}

function answerOf(known: string, said: string): CheckAnswer {
  const blank = known.indexOf(' ');
  if (known.slice(0, blank) !== said)
    throw new ProblemError({
      status: 422,
      code: 'idempotency-key-reused',
      title: 'The idempotency key was used for another call',
    });
  const rest = known.slice(blank + 1);
  if (rest === PENDING)
    throw new ProblemError(
      {
        status: 409,
        code: 'in-progress',
        title: 'The first call with this idempotency key is still in progress',
      },
      RETRY,
    );
  return JSON.parse(rest) as CheckAnswer;
}

function toAnswer(decision: Decision, planned: readonly PlannedCheck[], id: string | null): CheckAnswer {
  const results = resultsOf(decision);
  const decisive = decisiveResult(denyingResults(results));
  const subjectOf = (counted: RuleCheck) =>
    planned.find(({ check }) => counterOf(check) === counterOf(counted))?.subject ?? null;
  return {
    allowed: decision.allowed,
    id,
    retryAfterMs: (!decision.allowed && decisive?.outcome.retryAfterMs) || null,
    delayMs: decision.allowed ? waitOf(decision) : 0,
    degraded: decision.kind === 'degraded' ? decision.reason : null,
    results: results.map(({ check, outcome }) => ({
      policy: check.rule.policy,
      subject: subjectOf(check),
      allowed: outcome.allowed,
      limit: check.full.limit,
      remaining: outcome.remaining,
      cost: check.cost,
      resetAt: new Date(outcome.resetAtMs).toISOString(),
      retryAfterMs: outcome.allowed ? null : (outcome.retryAfterMs ?? null),
    })),
  };
}
