// Which rules denied which subjects, and how much each caller used: sums in memory by period and name. The number of
// rows is bounded. The isolate adds the rest to a row named `other`: names are lost, counts are not.

import { createBoundedCache } from '../bounded-cache.ts';
import { windowAt } from '../counting/calendar.ts';
import { capacityOf } from '../counting/capacity.ts';
import type { CheckResult } from '../decision.ts';
import type { CallerIds } from '../matching/caller.ts';
import type { RuleCheck } from '../matching/plan.ts';
import type { Scope } from '../matching/rule.ts';
import { OTHER } from './metrics.ts';

/** Who was counted. */
interface Subject {
  readonly scope: Scope;
  readonly subject: string;
}

interface DenyingRule {
  readonly ruleId: string;
  readonly ruleName: string;
  /** Route and id of the first of these requests. Only the sample in the log names them. */
  readonly route: string;
  readonly requestId?: string | undefined;
}

/** Who was denied: as whom the rule counted the caller, and who that is. */
export interface DeniedCaller extends Subject, CallerIds {}

export interface Denial extends DeniedCaller, DenyingRule {
  /** The minute. */
  readonly atMs: number;
  count: number;
}

interface CountingRule {
  /** '' for all of a caller's requests, whatever rules applied. */
  readonly ruleId: string;
}

/** The usage of admitted requests. */
export interface Usage extends CallerIds, CountingRule {
  /** The hour. */
  readonly atMs: number;
  requests: number;
  cost: number;
}

export const MINUTE_MS = 60_000;
export const HOUR_MS = 3_600_000;
/** Subjects, or callers, that an isolate tells apart in one period. */
export const MAX_NAMED = 2_000;
/** Reached only while neither the queue nor Postgres accepts rows. */
const MAX_ROWS = 6_000;

interface SumsOptions<Who, Rule, Amounts> {
  readonly periodMs: number;
  /** Tells one from the other. */
  readonly nameOf: (who: Who) => string;
  readonly isSame: (a: Who, b: Who) => boolean;
  /** Stands for all who are not told apart. */
  readonly unnamed: (who: Who) => Who;
  /** The same with less detail. It has room of its own, and stands for all whose details find no room. */
  readonly coarse?: (who: Who) => Who;
  /** Stands for all rules while there are too many rows. */
  readonly otherRule: (rule: Rule) => Rule;
  readonly zero: Amounts;
}

/** The rows of one caller in one period, by rule. */
interface Group<Who, Row> {
  readonly key: string;
  readonly atMs: number;
  readonly who: Who;
  readonly rows: Map<string, Row>;
}

/** Rows by period, by the subject or caller that they are about, and by rule. */
function createSums<Who extends object, Rule extends CountingRule, Amounts extends object>({
  periodMs,
  nameOf,
  isSame,
  unnamed,
  coarse = (who) => who,
  otherRule,
  zero,
}: SumsOptions<Who, Rule, Amounts>) {
  type Row = Who & Rule & Amounts & { readonly atMs: number };
  let size = 0;
  /** Those that have rows. */
  let groups = new Map<string, Group<Who, Row>>();
  /** Who has rows of their own in this period: with less detail, and with all of it. */
  const named = new Set<string>();
  const detailed = new Set<string>();
  let namedAtMs = Number.NaN;
  /** The last one, because the next request often comes from the same caller. */
  let last: { readonly asked: Who; readonly group: Group<Who, Row> } | undefined;

  const groupOf = (key: string, atMs: number, who: Who): Group<Who, Row> =>
    groups.get(key) ?? { key, atMs, who, rows: new Map() };

  const unnamedGroup = (atMs: number, who: Who) => {
    const nobody = unnamed(who);
    return groupOf(`${atMs}\t${nameOf(nobody)}`, atMs, nobody);
  };
  const find = (atMs: number, who: Who): Group<Who, Row> => {
    if (namedAtMs !== atMs) for (const names of [named, detailed]) names.clear();
    namedAtMs = atMs;
    const known = coarse(who);
    const key = `${atMs}\t${nameOf(known)}`;
    if (!hasRoom(named, key)) return unnamedGroup(atMs, who);
    const detailedKey = known === who ? key : `${atMs}\t${nameOf(who)}`;
    if (known === who || !hasRoom(detailed, detailedKey)) return groupOf(key, atMs, known);
    return groupOf(detailedKey, atMs, who);
  };
  const rowOf = (group: Group<Who, Row>, rule: Rule): Row => {
    const { key, atMs, who, rows } = group;
    const row = rows.get(rule.ruleId) ?? { ...who, ...rule, ...zero, atMs };
    if (!rows.has(rule.ruleId)) size += 1;
    rows.set(rule.ruleId, row);
    groups.set(key, group);
    return row;
  };
  /** A few rows for everything that comes while the table is full, dated like its oldest row. */
  const restRow = ({ who }: Group<Who, Row>, rule: Rule): Row => {
    const [oldest] = groups.values();
    return rowOf(unnamedGroup(oldest?.atMs ?? namedAtMs, who), otherRule(rule));
  };

  return {
    /** The number of rows. */
    get size() {
      return size;
    },
    /** The row for this moment, which the caller adds to. */
    rowAt(nowMs: number, who: Who, rule: Rule): Row {
      const atMs = Math.floor(nowMs / periodMs) * periodMs;
      if (last?.group.atMs !== atMs || !isSame(last.asked, who))
        last = { asked: who, group: find(atMs, who) };
      const { group } = last;
      return group.rows.get(rule.ruleId) ?? (size < MAX_ROWS ? rowOf(group, rule) : restRow(group, rule));
    },
    /** Removes and returns all rows. */
    take(): Row[] {
      const taken = [...groups.values()].flatMap(({ rows }) => [...rows.values()]);
      groups = new Map();
      last = undefined;
      size = 0;
      return taken;
    },
  };
}

/** Adds the name if there is room. False: there is none. */
function hasRoom(names: Set<string>, name: string): boolean {
  if (!names.has(name) && names.size >= MAX_NAMED) return false;
  names.add(name);
  return true;
}

export type DenialSums = ReturnType<typeof createDenialSums>;

export const createDenialSums = () =>
  createSums({
    periodMs: MINUTE_MS,
    nameOf: ({ scope, subject, ...ids }: DeniedCaller) => `${scope}\0${subject}\0${nameOfIds(ids)}`,
    isSame: (a, b) => a.scope === b.scope && a.subject === b.subject && areSameIds(a, b),
    unnamed: ({ scope, ...ids }) => ({ scope, subject: OTHER, ...otherIds(ids) }),
    coarse: withoutIds,
    otherRule: ({ route, requestId }: DenyingRule) => ({ ruleId: OTHER, ruleName: OTHER, route, requestId }),
    zero: { count: 0 },
  });

export type UsageSums = ReturnType<typeof createUsageSums>;

export const createUsageSums = () =>
  createSums({
    periodMs: HOUR_MS,
    nameOf: nameOfIds,
    isSame: areSameIds,
    unnamed: () => ({ tenantId: OTHER, userId: OTHER, apiKeyId: OTHER }),
    // Each request counts once under '', and once for each of its rules.
    otherRule: ({ ruleId }: CountingRule) => ({ ruleId: ruleId === '' ? '' : OTHER }),
    zero: { requests: 0, cost: 0 },
  });

/** No id contains a NUL, because Postgres could not store it. */
const nameOfIds = ({ tenantId, userId, apiKeyId }: CallerIds) => `${tenantId}\0${userId}\0${apiKeyId}`;

const areSameIds = (a: CallerIds, b: CallerIds): boolean =>
  a.tenantId === b.tenantId && a.userId === b.userId && a.apiKeyId === b.apiKeyId;

const NOBODY: CallerIds = { tenantId: '', userId: '', apiKeyId: '' };

const otherOr = (id: string): string => (id === '' ? '' : OTHER);

const otherIds = ({ tenantId, userId, apiKeyId }: CallerIds): CallerIds => ({
  tenantId: otherOr(tenantId),
  userId: otherOr(userId),
  apiKeyId: otherOr(apiKeyId),
});

const ID_OF_SCOPE: Readonly<Partial<Record<Scope, keyof CallerIds>>> = {
  tenant: 'tenantId',
  user: 'userId',
  apiKey: 'apiKeyId',
};

/** Keeps the id that is the subject. The same object if the caller has no other id. */
function withoutIds(who: DeniedCaller): DeniedCaller {
  if (areSameIds(who, NOBODY)) return who;
  const { scope, subject } = who;
  const own = ID_OF_SCOPE[scope];
  const known = { scope, subject, ...otherIds(who), ...(own && { [own]: who[own] }) };
  return areSameIds(known, who) ? who : known;
}

// A sample of denied requests in full, so that a complaint with the id of a request has an answer. The isolate keeps the
// first requests that a rule denies to a subject, and of all others a fair sample.

/** What a rule knew when it denied a request. */
export interface DenyingCheck extends Subject {
  readonly id: string;
  readonly name: string;
  /** The resource of the rule, never the path: paths and queries can hold names and secrets. */
  readonly resource: string;
  readonly limit: number;
  readonly windowSeconds: number;
  readonly cost: number;
  readonly remaining: number;
  /** Null: no wait will ever help. */
  readonly retryAfterMs: number | null;
}

export interface DeniedRequest extends CallerIds {
  readonly requestId: string;
  readonly atMs: number;
  /** Status and code of the answer. */
  readonly status: number;
  readonly code: string;
  readonly method: string;
  readonly route: string;
  /** The nearest region. */
  readonly region: string;
  /** Empty if no rule has denied the request: its caller is on a list, say. */
  readonly rules: readonly DenyingCheck[];
}

/** Requests between two flushes. Together they are a small part of what denials and usage take at most. */
export const MAX_FIRST_REQUESTS = 24;
export const MAX_OTHER_REQUESTS = 8;
/** The requests of a rule and a subject that count as the first ones. */
const FIRST = 2;

export type DeniedRequests = ReturnType<typeof createDeniedRequests>;

/** `random` gives numbers from 0 to 1. */
export function createDeniedRequests(random: () => number) {
  let first: DeniedRequest[] = [];
  let others: DeniedRequest[] = [];
  let otherCount = 0;
  return {
    get size() {
      return first.length + others.length;
    },
    /** `nth` counts the requests that were denied in the same way. Makes only what is kept. */
    add(nth: number, make: () => DeniedRequest): void {
      if (nth <= FIRST && first.length < MAX_FIRST_REQUESTS) {
        first.push(make());
        return;
      }
      otherCount += 1;
      // Each of them is kept with the same probability, however many come.
      const place = others.length < MAX_OTHER_REQUESTS ? others.length : Math.floor(random() * otherCount);
      if (place < MAX_OTHER_REQUESTS) others[place] = make();
    },
    /** Removes and returns all requests. */
    take(): DeniedRequest[] {
      const taken = [...first, ...others];
      first = [];
      others = [];
      otherCount = 0;
      return taken;
    },
  };
}

// Subjects that have reached a threshold of a rule with `alertAt`. An isolate notes each threshold of a subject once in
// a window. Other isolates may note it, too: Postgres keeps the first one.

export interface Crossing extends Subject {
  readonly ruleId: string;
  readonly ruleName: string;
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
  add(result: CheckResult<RuleCheck>, who: Subject, nowMs: number): void;
  /** Removes and returns all crossings. */
  take(): Crossing[];
}

/** The isolate notes further crossings later, with the next request of their subject. */
const MAX_CROSSINGS = 1_000;
/** If the isolate forgets a subject, it notes the subject again, and Postgres drops the repeat. */
const MAX_NOTED = 5_000;

export function createCrossings(): Crossings {
  let rows: Crossing[] = [];
  /** By rule, window and subject: the highest threshold that was noted. */
  const noted = createBoundedCache<number>(MAX_NOTED);
  return {
    get size() {
      return rows.length;
    },
    add({ check, outcome }, { scope, subject }, nowMs) {
      const { rule, windowMs } = check;
      const limit = capacityOf({ algorithm: check.algorithm, ...check.full });
      const used = Math.max(0, limit - outcome.remaining);
      // A request that must wait has met the limit, though a smaller one might still pass.
      const isUsedUp = !outcome.allowed && outcome.retryAfterMs !== undefined;
      const reached = rule.alertAt.filter((percent) => isUsedUp || used * 100 >= percent * limit);
      if (reached.length === 0) return;
      const { startMs: windowStartMs, endMs } = windowAt(nowMs, check);
      const key = `${rule.id}\t${windowMs}\t${windowStartMs}\t${scope}\t${subject}`;
      const known = noted.get(key, nowMs) ?? 0;
      const fresh = reached.filter((percent) => percent > known);
      if (fresh.length === 0 || rows.length + fresh.length > MAX_CROSSINGS) return;
      noted.set(key, Math.max(...fresh), endMs);
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
