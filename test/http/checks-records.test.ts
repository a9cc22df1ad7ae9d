// Records of checks: a check that was charged is answered, even if Weir fails to record it.
import { expect, it } from 'vitest';
import { createChargeIds } from '../../src/checks/charge-id.ts';
import { createChecks } from '../../src/checks/checks.ts';
import type { Decision } from '../../src/core/decision.ts';
import type { CheckedCall, CorrectedUsage } from '../../src/core/ports/telemetry.ts';
import type { Services } from '../../src/gateway/services.ts';
import { createIncidentCounts } from '../../src/http/log.ts';
import { createRegion } from '../limiter/fake-regions.ts';
import { createSource, snapshotOf } from '../limiter/limiter-harness.ts';
import { createRuleCheck } from '../limiter/rule-checks.ts';
import { SILENT, SILENT_LOG } from '../telemetry/silent.ts';
import { createDecision, createResult, type Result } from './headers-harness.ts';

const uncounted: Decision = { kind: 'degraded', allowed: true, reason: 'timeout', fallback: 'open' };

/** Records in memory, in the only region. */
const checkRecords = { claim: async () => undefined, write: async () => {}, drop: async () => {} };

function open(checked: (call: CheckedCall) => void, decision = uncounted) {
  const bugs: unknown[] = [];
  const corrected: CorrectedUsage[] = [];
  const incidentCounts = createIncidentCounts();
  const regions = [createRegion('us', {})] as const;
  const snapshots = createSource();
  const named = { ...snapshotOf('v1'), rulesNamed: () => [] };
  const unused = () => {
    throw new Error('nobody calls this');
  };
  const checks = createChecks({
    limiter: { decide: () => decision, leased: unused, leasedOf: unused },
    log: { ...SILENT_LOG, bug: (error: unknown) => void bugs.push(error) },
    telemetry: { ...SILENT, checked, corrected: (usage: CorrectedUsage) => void corrected.push(usage) },
    snapshots: { ...snapshots, current: () => named },
    check: { tokens: [], secret: 's', regions: [{ name: 'us', share: 1, checkRecords }] },
    ...{ incidentCounts, regions, deadlineMs: 100, now: () => 0, identity: { ipv6Prefix: 64 } },
  } as unknown as Services);
  const ask = (more: object = {}) =>
    checks.check({ rule: 'jobs', subject: 'ann', ...more }, { regions, afterResponse: () => {} });
  const refund = (id: string) => checks.refund({ id }, { regions, afterResponse: () => {} });
  return { ask, refund, corrected, bugs, incidents: () => incidentCounts.list() };
}

it('a check is answered although its record fails, and the log has the bug', async () => {
  const { ask, bugs } = open(() => {
    throw new Error('a bug in telemetry');
  });
  expect(await ask()).toMatchObject({ allowed: true, degraded: 'timeout' });
  expect(bugs).toEqual([new Error('a bug in telemetry')]);
});

it('a check that no region has counted is an incident, and one that only looks is not', async () => {
  const calls: CheckedCall[] = [];
  const { ask, incidents } = open((call) => void calls.push(call));
  await ask({ peek: true });
  expect([calls, incidents()]).toEqual([[], []]);
  await ask();
  expect(calls).toMatchObject([{ region: 'us', incident: { reason: 'timeout', fallback: 'open' } }]);
  expect(incidents()).toMatchObject([{ reason: 'timeout', fallback: 'open', region: 'us' }]);
});

it('a check that a rule throttles is told to wait until its turn, and a denied one when to come back', async () => {
  const answerTo = (...results: Result[]) => open(() => {}, createDecision(results)).ask();
  const throttled = createResult({ action: 'throttle' }, { delayMs: 700 });
  expect(await answerTo(throttled)).toMatchObject({ allowed: true, delayMs: 700, retryAfterMs: null });
  const denied = createResult({}, { retryAfterMs: 900 });
  expect(await answerTo(throttled, denied)).toMatchObject({ allowed: false, delayMs: 0, retryAfterMs: 900 });
});

it('a refund corrects the usage of each subject of the call, once for each rule', async () => {
  const charge = (subject: number, userId: string, ruleId: string) => ({
    region: 'removed since',
    usage: { ruleId, userId, tenantId: '', apiKeyId: '', subject },
    check: { ...createRuleCheck({ cost: 3 }), chargedAtMs: 0 },
  });
  const charges = [
    charge(0, 'ann', 'jobs'),
    charge(0, 'ann', 'jobs'),
    charge(0, 'ann', 'all'),
    charge(1, 'bob', 'jobs'),
  ];
  const { refund, corrected } = open(() => {});
  await refund(await createChargeIds('s').write(charges));
  const spent = (ruleId: string) => ({ ruleId, cost: 3, realCost: 0 });
  expect(corrected).toMatchObject([
    { userId: 'ann', charges: [spent('jobs'), spent('all')] },
    { userId: 'bob', charges: [spent('jobs')] },
  ]);
});
