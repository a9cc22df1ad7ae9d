// "Who would this have denied?": the effect of another limit of a rule on the last day, as far as the records show it.

import { eq } from 'drizzle-orm';
import * as z from 'zod';
import {
  type CountedLimit,
  deniesWithinMs,
  hasAdmissionBounds,
  mostAdmitted,
  mostAdmittedInAny,
} from '../../authoring/admission-bounds.ts';
import { ALGORITHM_IDS, type AlgorithmId } from '../../core/counting/algorithms/registry.ts';
import { capacityOf } from '../../core/counting/capacity.ts';
import {
  EVERY_SCOPE,
  isUncounted,
  LARGEST_LIMIT,
  LONGEST_WINDOW_SECONDS,
  type Scope,
} from '../../core/matching/rule.ts';
import { HOUR_MS } from '../../core/telemetry/records.ts';
import { invalidRequest } from '../../http/internal-requests.ts';
import { rules } from '../../rules/tables/tables.ts';
import { readWouldDeny } from '../../telemetry/would-deny.ts';
import type { AdminApp, AdminServices } from '../app.ts';
import { isUuid } from '../collection/declaration.ts';
import { addOperation } from '../operation.ts';
import { notFound } from '../problems.ts';

const DAY_MS = 24 * HOUR_MS;
/** The most callers that the answer names. */
const MAX_CALLERS = 20;

const whole = (most: number) => z.coerce.number().int().min(1).max(most);
const count = z.int().min(0);

const effectBody = z
  .strictObject({
    from: z.iso.datetime(),
    to: z.iso.datetime(),
    limit: z.int(),
    windowSeconds: z.int().describe('0 for days, weeks or months of the calendar.'),
    unknown: z
      .string()
      .nullable()
      .describe('Why nothing can be known. Null if the fields below are known from the records.'),
    admitted: count.describe('Units that the rule admitted, of all callers.'),
    denied: count.describe('Requests that the rule denied.'),
    unnamedAdmitted: count.describe(
      'How many of these units belong to addresses, which usage does not record. The fields below leave them out.',
    ),
    unnamedDenied: count.describe('Denied requests of a flood whose callers were not told apart.'),
    atLeast: count.describe('Units that this limit would certainly have denied.'),
    surelyDenied: count.describe('The number of callers of these units.'),
    perhapsDenied: count
      .nullable()
      .describe(
        'Callers who sent enough to be denied if they sent it at once; and addresses, of which Weir records only denials. ' +
          'Null if not known.',
      ),
    surelyNotDenied: count
      .nullable()
      .describe('Callers who sent too little to be denied. Null if not known.'),
    callers: z
      .array(
        z.strictObject({
          scope: z.string(),
          subject: z.string(),
          admitted: count,
          denied: count,
          atLeast: count,
        }),
      )
      .describe(`At most ${MAX_CALLERS}, those with the most units beyond the limit first.`),
  })
  .meta({ id: 'LimitEffect' });

type Rule = typeof rules.$inferSelect;

export function addWouldDenyRoutes(app: AdminApp, { database, now }: AdminServices): void {
  addOperation(
    app,
    {
      id: 'readWouldDeny',
      call: 'GET /rules/{id}/would-deny',
      group: 'rules',
      summary: 'Whom another limit would have denied in the last day',
      description:
        'Usage is recorded by hour and denials by minute, so these are bounds: when in an hour requests came is not ' +
        'known. As if counters were empty at the start, the whole limit held for every caller and could be used in any ' +
        'region, and callers had sent what they did. Requests that other rules denied are not counted.',
      params: z.object({ id: z.string().describe('The id of the rule.') }),
      query: z.strictObject({
        limit: whole(LARGEST_LIMIT),
        windowSeconds: whole(LONGEST_WINDOW_SECONDS).optional().describe('The default is that of the rule.'),
        burst: whole(LARGEST_LIMIT).optional().describe('The default is the limit.'),
        algorithm: z.enum(ALGORITHM_IDS).optional().describe('The default is that of the rule.'),
      }),
      says: 'What is certain, and what cannot be known',
      answer: effectBody,
      problems: [404],
    },
    async ({ params: { id }, query }) => {
      const [rule] = isUuid(id) ? await database.select().from(rules).where(eq(rules.id, id)) : [];
      if (!rule) throw notFound('rule');
      const windowSeconds = query.windowSeconds ?? rule.windowSeconds ?? (rule.window === null ? null : 0);
      if (windowSeconds === null) throw NO_WINDOW;
      const algorithm = query.algorithm ?? (rule.algorithm as AlgorithmId | null);
      const from = new Date(Math.floor((now() - DAY_MS) / HOUR_MS) * HOUR_MS);
      const to = new Date(now());
      const { limit, burst } = query;
      const told = { from: from.toISOString(), to: to.toISOString(), limit, windowSeconds };
      const unknown = windowSeconds === 0 ? BY_THE_CALENDAR : unknownBecause(rule, algorithm);
      if (unknown !== undefined || algorithm === null || rule.scope === EVERY_SCOPE)
        return { ...told, ...NOTHING, unknown: unknown ?? '' };
      const counted = { algorithm, limit, windowMs: windowSeconds * 1_000, extra: burst };
      const question = toQuestion({ ...rule, scope: rule.scope }, counted, { from, to });
      const effect = await readWouldDeny(database, { ...question, from, to });
      // Weir records no admitted requests of addresses, so one without denials may have been near the limit.
      const unsure = rule.scope === 'ip' && { perhapsDenied: null, surelyNotDenied: null };
      return { ...told, ...effect, ...unsure, unknown: null };
    },
  );
}

const BY_THE_CALENDAR =
  'The rule counts by days, weeks or months of the calendar, and only one day is looked at. Name windowSeconds to ask nevertheless.';

/** Why the records say nothing about this rule; undefined if they do. */
function unknownBecause(rule: Rule, algorithm: AlgorithmId | null): string | undefined {
  if (isUncounted(rule) || algorithm === null) return 'The rule has no limit.';
  if (rule.action === 'log')
    return 'A rule that only logs leaves no records. Its metrics tell how often it would have denied.';
  if (!hasAdmissionBounds(algorithm))
    return 'The records tell how many requests there were, not how many were open at once.';
  if (rule.by.length > 0 || rule.per.length > 0)
    return 'The rule has several counters for a caller, and the records do not tell them apart.';
  return undefined;
}

function toQuestion(
  rule: Rule & { readonly scope: Scope },
  counted: CountedLimit,
  { from, to }: { from: Date; to: Date },
) {
  const costs = [rule.cost, ...rule.costs.map(({ cost }) => cost)];
  return {
    ruleId: rule.id,
    scope: rule.scope,
    leastCost: Math.min(...costs),
    mostCost: Math.max(...costs),
    mostAnHour: mostAdmittedInAny(counted, HOUR_MS),
    mostInAll: mostAdmitted(counted, { fromMs: from.getTime(), toMs: to.getTime() }),
    capacity: capacityOf(counted),
    withinMs: deniesWithinMs(counted),
    limit: MAX_CALLERS,
  };
}

const NOTHING = {
  admitted: 0,
  denied: 0,
  unnamedAdmitted: 0,
  unnamedDenied: 0,
  atLeast: 0,
  surelyDenied: 0,
  perhapsDenied: null,
  surelyNotDenied: null,
  callers: [],
};

const NO_WINDOW = invalidRequest([
  { pointer: 'windowSeconds', detail: 'is needed, because the rule has none of its own' },
]);
