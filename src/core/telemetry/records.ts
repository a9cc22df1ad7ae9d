// Which rules denied which subjects, and how much each caller used: sums in memory by period and name. The number of
// rows is bounded. The isolate adds the rest to a row named `other`: names are lost, counts are not.

import { createBoundedCache } from '../bounded-cache.ts';
import { windowAt } from '../counting/calendar.ts';
import { capacityOf } from '../counting/capacity.ts';
import type { CheckResult } from '../decision.ts';
import type { RuleCheck } from '../matching/plan.ts';
import type { Scope } from '../matching/rule.ts';
import { OTHER } from './metrics.ts';

export interface Denial {
  /** The minute. */
  readonly atMs: number;
  readonly ruleId: string;
  readonly ruleName: string;
  readonly scope: Scope;
  readonly subject: string;
  /** The route of the first of these requests. */
  readonly route: string;
  count: number;
}

/** The usage of admitted requests. An id that a caller does not have is ''. */
export interface Usage {
  /** The hour. */
  readonly atMs: number;
  readonly tenantId: string;
  readonly userId: string;
  readonly apiKeyId: string;
  /** '' for all of a caller's requests, whatever rules applied. */
  readonly ruleId: string;
  requests: number;
  cost: number;
}

export const MINUTE_MS = 60_000;
export const HOUR_MS = 3_600_000;
/** Subjects that an isolate tells apart in one period. */
export const MAX_NAMED = 2_000;
/** Reached only while neither the queue nor Postgres accepts rows. */
const MAX_ROWS = 6_000;

export interface Sums<Row, Fields> {
  readonly size: number;
  add(fields: Fields): void;
  /** Removes and returns all rows. */
  take(): Row[];
}

/** Decides which names have rows of their own in a period. */
function createNames() {
  let atMs = Number.NaN;
  const names = new Set<string>();
  return (periodMs: number, name: string): boolean => {
    if (periodMs !== atMs) names.clear();
    atMs = periodMs;
    if (names.has(name)) return true;
    if (names.size >= MAX_NAMED) return false;
    names.add(name);
    return true;
  };
}

const startOf = (nowMs: number, periodMs: number) => Math.floor(nowMs / periodMs) * periodMs;

export type DenialFields = Omit<Denial, 'atMs' | 'count'> & { readonly nowMs: number };

export function createDenialSums(): Sums<Denial, DenialFields> {
  let rows = new Map<string, Denial>();
  const isKept = createNames();

  const rowOf = (fields: Omit<Denial, 'count'>): Denial => {
    const key = `${fields.atMs}\t${fields.ruleId}\t${fields.scope}\t${fields.subject}`;
    const known = rows.get(key);
    if (known) return known;
    const isRest = fields.ruleId === OTHER;
    if (rows.size >= MAX_ROWS && !isRest) return rowOf(overflowRow(rows, fields));
    const row = { ...fields, count: 0 };
    rows.set(key, row);
    return row;
  };

  return {
    get size() {
      return rows.size;
    },
    add({ nowMs, ...fields }) {
      const atMs = startOf(nowMs, MINUTE_MS);
      const isNamed = isKept(atMs, `${fields.ruleId}\t${fields.scope}\t${fields.subject}`);
      rowOf(isNamed ? { ...fields, atMs } : { ...fields, atMs, subject: OTHER }).count += 1;
    },
    take() {
      const taken = [...rows.values()];
      rows = new Map();
      return taken;
    },
  };
}

/** The row for everything that comes while the table is full, dated like its oldest entry. */
function overflowRow(rows: ReadonlyMap<string, Denial>, { atMs, route }: Omit<Denial, 'count'>) {
  const [oldest] = rows.values();
  const rest = { ruleId: OTHER, ruleName: OTHER, scope: 'global', subject: OTHER } as const;
  return { ...rest, route, atMs: oldest?.atMs ?? atMs };
}

export interface UsageFields extends Pick<Usage, 'tenantId' | 'userId' | 'apiKeyId' | 'requests'> {
  readonly nowMs: number;
  /** The caller's usage under each rule, and its total. */
  readonly costs: readonly Pick<Usage, 'ruleId' | 'cost'>[];
}

type UsageOfCaller = Map<string, Usage>;
type Used = Omit<Usage, 'requests' | 'cost'>;
type Who = Pick<Usage, 'tenantId' | 'userId' | 'apiKeyId'>;

/** The rows that a caller is counted in for an hour. */
interface Found {
  readonly atMs: number;
  readonly key: string;
  readonly who: Who;
}

export function createUsageSums(): Sums<Usage, UsageFields> {
  let size = 0;
  /** By hour and caller, then by rule. */
  let callers = new Map<string, UsageOfCaller>();
  const isKept = createNames();
  const nobody: Who = { tenantId: OTHER, userId: OTHER, apiKeyId: OTHER };
  /**
   * The caller of the last request. Callers without a name count as one caller, so the next request often has the same
   * one. Comparing costs less than building the key again.
   */
  let last: Found = { atMs: Number.NaN, key: '', who: nobody };

  const keyOfOther = (atMs: number) => `${atMs}\t${OTHER}`;

  const create = (key: string, used: Used): Usage => {
    const rows = callers.get(key) ?? new Map<string, Usage>();
    callers.set(key, rows);
    const row = { ...used, requests: 0, cost: 0 };
    rows.set(used.ruleId, row);
    size += 1;
    return row;
  };

  /** At most two rows: each request counts once under '', and once for each of its rules under `other`. */
  const overflowRow = ({ ruleId, atMs }: Used): Usage => {
    const [first] = callers.values();
    const [oldest] = first?.values() ?? [];
    const rest = { ...nobody, ruleId: ruleId === '' ? '' : OTHER, atMs: oldest?.atMs ?? atMs };
    const key = keyOfOther(rest.atMs);
    return callers.get(key)?.get(rest.ruleId) ?? create(key, rest);
  };

  const find = (atMs: number, who: Who): Found => {
    const name = `${atMs}\t${who.tenantId}\t${who.userId}\t${who.apiKeyId}`;
    const isNamed = isKept(atMs, name);
    return isNamed ? { atMs, key: name, who } : { atMs, key: keyOfOther(atMs), who: nobody };
  };

  const createRow = (key: string, used: Used) => (size >= MAX_ROWS ? overflowRow(used) : create(key, used));

  return {
    get size() {
      return size;
    },
    add({ nowMs, requests, costs, tenantId, userId, apiKeyId }) {
      const atMs = startOf(nowMs, HOUR_MS);
      const isLast =
        last.atMs === atMs &&
        last.who.tenantId === tenantId &&
        last.who.userId === userId &&
        last.who.apiKeyId === apiKeyId;
      if (!isLast) last = find(atMs, { tenantId, userId, apiKeyId });
      const { key, who } = last;
      for (const { ruleId, cost } of costs) {
        const row = callers.get(key)?.get(ruleId) ?? createRow(key, { ...who, ruleId, atMs });
        row.requests += requests;
        row.cost += cost;
      }
    },
    take() {
      const taken = [...callers.values()].flatMap((rows) => [...rows.values()]);
      callers = new Map();
      size = 0;
      return taken;
    },
  };
}

// Subjects that have reached a threshold of a rule with `alertAt`. An isolate notes each threshold of a subject once in
// a window. Other isolates may note it, too: Postgres keeps the first one.

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
