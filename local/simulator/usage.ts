// How much of their limits callers can use, and how often a region asks another one: by traffic, algorithm and size.
// The ideal is one counter with the whole limit, right beside the callers.

import { createMemoryCounters, runChecks } from '../../src/core/counting/counters.ts';
import type { Decision } from '../../src/core/decision.ts';
import type { RuleCheck } from '../../src/core/matching/plan.ts';
import type { CountCall } from '../../src/core/ports/region.ts';
import { operationOf, type SentCall } from './isolate.ts';
import type { Scenario } from './scenario.ts';
import type { Arrival, SubjectPlan, Traffic } from './traffic.ts';

export interface Used {
  requests: number;
  admitted: number;
  ideal: number;
  farCalls: number;
}

/** By traffic, algorithm and size, joined by spaces. Only where nothing was in the way, and one plain rule applied. */
export interface Usage {
  readonly farCalls: number;
  readonly byKind: ReadonlyMap<string, Used>;
}

export interface UsageCount {
  noteCall(call: SentCall): void;
  noteRequest(
    subject: SubjectPlan,
    checks: readonly RuleCheck[],
    arrival: Arrival,
  ): { decided(decision: Decision): void };
  total(): Usage;
}

const nobody = { decided: () => {} };

export function createUsage({ kind }: Scenario): UsageCount {
  let farCalls = 0;
  const byKind = new Map<string, Used>();
  const byKey = new Map<string, Used>();
  const ideal = createMemoryCounters();

  const usedBy = (traffic: Traffic, check: RuleCheck): Used => {
    const name = `${traffic} ${check.algorithm} ${check.limit}/${check.windowMs / 1_000}s`;
    const used = byKind.get(name) ?? { requests: 0, admitted: 0, ideal: 0, farCalls: 0 };
    byKind.set(name, used);
    return used;
  };

  return {
    noteCall({ caller, region, method, args }) {
      if (caller.place === region) return;
      farCalls += 1;
      const key = operationOf(method) ? (args[0] as CountCall).checks[0]?.key : undefined;
      const used = key === undefined ? undefined : byKey.get(key);
      if (used) used.farCalls += 1;
    },
    noteRequest({ traffic }, checks, { atMs }) {
      const [check, ...others] = kind === 'quiet' ? checks : [];
      if (!check || others.length > 0 || !isPlain(check)) return nobody;
      const used = byKey.get(check.key) ?? usedBy(traffic, check);
      byKey.set(check.key, used);
      used.requests += 1;
      used.ideal += Number(runChecks('take', [check], atMs, ideal).outcomes[0]?.allowed);
      return {
        decided(decision) {
          if (decision.kind === 'counted') used.admitted += Number(decision.allowed);
        },
      };
    },
    total: () => ({ farCalls, byKind }),
  };
}

/** Otherwise the ideal would have to refund the same charges. */
const isPlain = ({ rule, full, cost }: RuleCheck) =>
  rule.spill && !rule.central && !rule.refundOnError && (full.extra ?? full.limit) >= cost;
