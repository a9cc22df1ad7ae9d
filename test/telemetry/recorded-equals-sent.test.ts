// What is recorded equals what was sent, for random rules: several limits, costs, shadow rules, refunds, real costs.
import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { CheckResult } from '../../src/core/decision.ts';
import type { RuleCheck } from '../../src/core/matching/plan.ts';
import { createCheck } from '../limiter/limiter-harness.ts';
import { rounds } from '../rounds.ts';
import { openTelemetry, START_MS } from './harness.ts';

const HOUR_MS = 3_600_000;
const SCOPES = ['ip', 'user', 'apiKey', 'tenant', 'global'] as const;

const ruleShape = fc.record({
  scope: fc.constantFrom(...SCOPES),
  limits: fc.integer({ min: 1, max: 4 }),
  cost: fc.integer({ min: 1, max: 9 }),
  isShadow: fc.boolean(),
  hasBound: fc.boolean(),
  costFromOrigin: fc.boolean(),
  refundOnError: fc.boolean(),
});
type RuleShape = typeof ruleShape extends fc.Arbitrary<infer T> ? T : never;

const requestShape = fc.record({
  caller: fc.nat({ max: 3 }),
  /** Which rules apply, and which of their limits deny, as bits. */
  applies: fc.nat({ max: 31 }),
  denies: fc.array(fc.constantFrom(0, 0, 0, 1, 2, 3, 15), { minLength: 5, maxLength: 5 }),
  remaining: fc.constantFrom(0, 100),
  /** The real cost; null: the origin was not reached. */
  end: fc.oneof(fc.constant('as charged' as const), fc.constant('refunded' as const), fc.nat({ max: 20 })),
  minutesLater: fc.constantFrom(0, 0, 0, 1, 70),
  isCheck: fc.boolean(),
});
type RequestShape = typeof requestShape extends fc.Arbitrary<infer T> ? T : never;

const callerOf = (number: number) => ({
  ...{ ip: `10.0.0.${number}`, address: `10.0.0.${number}` },
  ...(number > 0 && { userId: `user ${number % 2}`, apiKeyId: `key ${number}`, tenantId: 'acme' }),
});
type TestCaller = { ip: string; userId?: string; apiKeyId?: string; tenantId?: string };
const subjectOf = (scope: RuleShape['scope'], caller: TestCaller) => {
  const ids = { ip: caller.ip, user: caller.userId, apiKey: caller.apiKeyId, tenant: caller.tenantId };
  const id = scope === 'global' ? 'all' : ids[scope];
  return id === undefined ? `ip ${caller.ip}` : `${scope} ${id}`;
};

/** One result for each limit, and one for the bound. */
function resultsFor(rule: RuleShape, number: number, denied: number, remaining: number) {
  const count = rule.limits + (rule.hasBound ? 1 : 0);
  return Array.from({ length: count }, (_, i): CheckResult<RuleCheck> => {
    const { scope, cost, costFromOrigin, refundOnError } = rule;
    const fields = { id: `r${number}`, name: `rule ${number}`, scope, cost, costFromOrigin, refundOnError };
    const isBound = i === rule.limits;
    const check = createCheck({ ...fields, ...(isBound && { isBound: true as const }) });
    const allowed = (denied & (1 << i)) === 0;
    return {
      check: { ...check, cost, isShadow: rule.isShadow, key: `${check.key} ${i}` },
      outcome: { allowed, remaining, resetAtMs: 1, retryAfterMs: 0, granted: 0, delayMs: 0 },
    };
  });
}

const add = (sums: Map<string, number>, name: string, amount: number) => {
  const sum = (sums.get(name) ?? 0) + amount;
  if (sum === 0) sums.delete(name);
  else sums.set(name, sum);
};
const startOf = (ms: number, period: number) => Math.floor(ms / period) * period;

it('usage, denials and metrics of random requests and checks are what was sent', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(ruleShape, { minLength: 5, maxLength: 5 }),
      fc.array(requestShape, { maxLength: 30 }),
      async (rules, requests) => {
        const opened = openTelemetry();
        const sent = new Map<string, number>();
        for (const request of requests) {
          opened.state.nowMs += request.minutesLater * 60_000;
          play(opened, rules, request, sent);
        }
        await opened.flush();
        expect(Object.fromEntries(recorded(opened))).toEqual(Object.fromEntries(sent));
      },
    ),
    { numRuns: rounds(300) },
  );
});

function play(
  { telemetry, state }: ReturnType<typeof openTelemetry>,
  rules: readonly RuleShape[],
  request: RequestShape,
  sent: Map<string, number>,
) {
  const caller = callerOf(request.caller);
  const applied = rules.flatMap((rule, number) =>
    request.applies & (1 << number)
      ? [{ rule, number, results: resultsFor(rule, number, request.denies[number] ?? 0, request.remaining) }]
      : [],
  );
  const isDenied = (one: (typeof applied)[number]) => one.results.some(({ outcome }) => !outcome.allowed);
  const allowed = !applied.some((one) => !one.rule.isShadow && isDenied(one));
  const results = applied.flatMap((one) => one.results);
  const rulesInForce = { rulesVersion: 'v1', isStale: false };
  const decision = { kind: 'counted' as const, allowed, nowMs: START_MS, results, ...rulesInForce };
  const told = { decision, region: 'us', startedAtMs: state.nowMs };
  if (request.isCheck) telemetry.checked({ ...told, subjects: [{ caller, results }] });
  else telemetry.decided({ ...told, route: 'default', caller });

  const result = allowed ? 'admitted' : 'denied';
  add(sent, request.isCheck ? `calls ${result}` : `requests ${result}`, 1);
  for (const one of applied) {
    const passed = request.remaining === 0 ? 'near-limit' : 'admitted';
    const worst = isDenied(one) ? (one.rule.isShadow ? 'would-deny' : 'denied') : passed;
    add(sent, `checks rule ${one.number} ${worst}`, 1);
    if (worst === 'denied')
      add(sent, `${startOf(state.nowMs, 60_000)} r${one.number} ${subjectOf(one.rule.scope, caller)}`, 1);
  }
  if (!allowed) return;
  const { end, isCheck } = request;
  const counted = applied.filter(({ rule }) => !rule.isShadow);
  const realCost = (rule: RuleShape) => {
    if (end === 'as charged') return rule.cost;
    if (end === 'refunded') return isCheck || rule.refundOnError ? 0 : rule.cost;
    return isCheck || rule.costFromOrigin ? end : rule.cost;
  };
  if (isCheck && end !== 'as charged') {
    const { tenantId = '', userId = '', apiKeyId = '' }: TestCaller = caller;
    const charges = counted.map(({ rule, number }) => ({
      ...{ ruleId: `r${number}`, cost: rule.cost, realCost: realCost(rule) },
    }));
    telemetry.corrected({ tenantId, userId, apiKeyId, chargedAtMs: state.nowMs, charges });
  } else if (!isCheck) {
    const cost = typeof end === 'number' ? end : undefined;
    const isRefunded = end === 'refunded';
    const answer = { decision, caller, route: 'default', startedAtMs: state.nowMs, status: 200 };
    telemetry.answered({ ...answer, cost, isRefunded });
  }
  const { tenantId = '', userId = '', apiKeyId = '' }: TestCaller = caller;
  const who = `${startOf(state.nowMs, HOUR_MS)} ${tenantId}/${userId}/${apiKeyId}`;
  for (const { rule, number } of counted) {
    add(sent, `usage ${who} r${number} requests`, 1);
    add(sent, `usage ${who} r${number} cost`, realCost(rule));
  }
  // A request that no rule counts uses one unit.
  const total = counted.length === 0 ? 1 : Math.max(...counted.map(({ rule }) => realCost(rule)));
  add(sent, `usage ${who} all requests`, 1);
  add(sent, `usage ${who} all cost`, total);
}

/** In the form of `sent`. */
function recorded({ records, flushed }: ReturnType<typeof openTelemetry>): Map<string, number> {
  const found = new Map<string, number>();
  for (const { denials, usage } of records) {
    for (const { atMs, ruleId, scope, subject, count } of denials)
      add(found, `${atMs} ${ruleId} ${scope} ${subject}`, count);
    for (const { atMs, tenantId, userId, apiKeyId, ruleId, requests, cost } of usage) {
      const name = `usage ${atMs} ${tenantId}/${userId}/${apiKeyId} ${ruleId || 'all'}`;
      add(found, `${name} requests`, requests);
      add(found, `${name} cost`, cost);
    }
  }
  for (const [series, amount] of Object.entries(flushed())) {
    const [metric, ...labels] = series.split('\t');
    if (metric === 'checks') add(found, `checks ${labels.join(' ')}`, amount);
    if (metric === 'requests') add(found, `requests ${labels[2]}`, amount);
    if (metric === 'checkCalls') add(found, `calls ${labels[1]}`, amount);
  }
  return found;
}
