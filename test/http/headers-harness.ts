// Decisions to make headers from, and the headers as an independent parser reads them.

import { type BareItem, type Item, parseList } from 'structured-headers';
import { createCounter, type RuleFields } from '../../local/rules.ts';
import type { Outcome } from '../../src/core/counting/check.ts';
import {
  type CheckResult,
  type CountedDecision,
  type Decision,
  denyingResults,
} from '../../src/core/decision.ts';
import type { RuleCheck } from '../../src/core/matching/plan.ts';
import type { CompiledRule } from '../../src/core/matching/snapshot.ts';
import { setDecisionHeaders } from '../../src/gateway/headers.ts';
import { refusal } from '../../src/gateway/refusals.ts';

export const NOW_MS = 1_800_000_000_000;

let lastOrdinal = 0;
export function createRule(fields: RuleFields = {}): CompiledRule {
  lastOrdinal += 1;
  const id = String(lastOrdinal);
  const names = { id, name: `rule ${id}`, policy: fields.name ?? `rule ${id}` };
  return createCounter({ ...names, ordinal: lastOrdinal, ...fields });
}

export function createCheck(fields: RuleFields = {}): RuleCheck {
  const rule = createRule(fields);
  const extra = rule.burst ?? rule.buckets ?? undefined;
  return {
    rule,
    key: 'weir:{ip:=192.0.2.1}',
    id: rule.counterId,
    algorithm: rule.algorithm,
    limit: rule.limit ?? 1,
    full: { limit: rule.limit ?? 1, extra },
    windowMs: rule.windowSeconds * 1000,
    cost: rule.cost,
    extra,
    countDenied: rule.countDenied,
    blockMs: rule.blockSeconds === null ? undefined : rule.blockSeconds * 1000,
    isShadow: rule.action === 'log',
  };
}

export type Result = CheckResult<RuleCheck>;

/** Allowed, unless a wait is given. `undefined` as the wait means for ever. */
export function createResult(rule: RuleFields, outcome: Partial<Outcome> = {}): Result {
  const allowed = !('retryAfterMs' in outcome);
  return {
    check: createCheck(rule),
    outcome: {
      allowed,
      remaining: allowed ? 5 : 0,
      resetAtMs: NOW_MS + 60_000,
      retryAfterMs: 0,
      granted: 0,
      delayMs: 0,
      ...outcome,
    },
  };
}

export const createDecision = (results: readonly Result[], nowMs = NOW_MS): CountedDecision => ({
  kind: 'counted',
  allowed: denyingResults(results).length === 0,
  nowMs,
  results,
  rulesVersion: 'v1',
  isStale: false,
});

export function headersOf(results: readonly Result[], nowMs = NOW_MS): Headers {
  return headersOfDecision(createDecision(results, nowMs), { isDevelopment: false });
}

/** Retry-After is in the refusal. */
export function headersOfDecision(decision: Decision, options: { readonly isDevelopment: boolean }): Headers {
  const headers = new Headers();
  const retryAfter = decision.allowed ? null : refusal(decision).headers.get('Retry-After');
  if (retryAfter !== null) headers.set('Retry-After', retryAfter);
  setDecisionHeaders(headers, decision, options);
  return headers;
}

export interface Policy {
  readonly name: BareItem;
  readonly parameters: Readonly<Record<string, BareItem>>;
}

/** A field as a list of strings with parameters. Throws on anything else. */
export function policiesIn(headers: Headers, field: 'RateLimit-Policy' | 'RateLimit'): Policy[] {
  return parseList(headers.get(field) ?? '').map((member) => {
    const [name, parameters] = member as Item;
    if (typeof name !== 'string') throw new Error(`${field} has a member that is not a string`);
    return { name, parameters: Object.fromEntries(parameters) };
  });
}
