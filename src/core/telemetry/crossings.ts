// Subjects that have reached a threshold of a rule with `alertAt`. An isolate notes each threshold of a subject once in
// a window. Other isolates may note it, too: Postgres keeps the first one.
import { createBoundedCache } from '../bounded-cache.ts';
import { windowAt } from '../counting/calendar.ts';
import { capacityOf } from '../counting/capacity.ts';
import type { CheckResult } from '../decision.ts';
import type { RuleCheck } from '../matching/plan.ts';
import type { Scope } from '../matching/rule.ts';

export interface Crossing {
  readonly ruleId: string;
  readonly ruleName: string;
  readonly scope: Scope;
  readonly subject: string;
  readonly percent: number;
  /** Windows are counted from the epoch or by the calendar, by the clock of the counters, whatever the algorithm. */
  readonly windowStartMs: number;
  readonly windowSeconds: number;
  readonly limit: number;
  readonly used: number;
  readonly atMs: number;
}

export interface Crossings {
  readonly size: number;
  add(result: CheckResult<RuleCheck>, who: { scope: Scope; id: string }, nowMs: number): void;
  /** Removes and returns all crossings. */
  take(): Crossing[];
}

/** The isolate notes further crossings later, with the next request of their subject. */
const MAX_CROSSINGS = 1_000;
/** If the isolate forgets a subject, it notes the subject again, and Postgres drops the repeat. */
const MAX_TOLD = 5_000;

export function createCrossings(): Crossings {
  let rows: Crossing[] = [];
  /** By rule, window and subject: the highest threshold that was noted. */
  const told = createBoundedCache<number>(MAX_TOLD);
  return {
    get size() {
      return rows.length;
    },
    add({ check, outcome }, { scope, id: subject }, nowMs) {
      const { rule, windowMs } = check;
      const limit = capacityOf({ algorithm: check.algorithm, ...check.full });
      const used = Math.max(0, limit - outcome.remaining);
      // A request that must wait has met the limit, though a smaller one might still pass.
      const isUsedUp = !outcome.allowed && outcome.retryAfterMs !== undefined;
      const reached = rule.alertAt.filter((percent) => isUsedUp || used * 100 >= percent * limit);
      if (reached.length === 0) return;
      const { startMs: windowStartMs, endMs } = windowAt(nowMs, check);
      const key = `${rule.id}\t${windowMs}\t${windowStartMs}\t${scope}\t${subject}`;
      const known = told.get(key, nowMs) ?? 0;
      const fresh = reached.filter((percent) => percent > known);
      if (fresh.length === 0 || rows.length + fresh.length > MAX_CROSSINGS) return;
      told.set(key, Math.max(...fresh), endMs);
      const common = { ruleId: rule.id, ruleName: rule.name, scope, subject, windowStartMs, limit, used };
      for (const percent of fresh)
        rows.push({ ...common, percent, windowSeconds: windowMs / 1_000, atMs: nowMs });
    },
    take() {
      const taken = rows;
      rows = [];
      return taken;
    },
  };
}
