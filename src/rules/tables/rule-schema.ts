// What a rule may say, derived from its table: for the admin route, and for every row on its way to the edge.
import { createInsertSchema } from 'drizzle-zod';
import * as z from 'zod';
import {
  ALGORITHM_IDS,
  type AlgorithmId,
  idsWith,
  traitsOf,
} from '../../core/counting/algorithms/registry.ts';
import { problemOf } from '../../core/counting/check.ts';
import { resourceProblem } from '../../core/matching/resource.ts';
import {
  LARGEST_LIMIT,
  LONGEST_WINDOW_SECONDS,
  type Rule,
  SHORTEST_LEASE_SECONDS,
} from '../../core/matching/rule.ts';
import { plainText } from './plain-text.ts';
import { rules } from './schema.ts';
import { shareProblems } from './share-problems.ts';

const SOME_LEASE = 'x'.repeat(16);

const whole = (most: number) => z.int().min(1).max(most);
const names = (describe: string) => z.array(z.string().min(1).max(256)).max(1000).describe(describe);

const shares = z.record(z.string(), z.number().min(0));

/** The fields of a rule that people write, each by itself; `checkRule` looks at them together. */
export const ruleFields = createInsertSchema(rules, {
  name: plainText(128).min(1).describe('Unique. Shown to denied callers.'),
  resource: z
    .string()
    .max(1024)
    .superRefine((resource, context) => {
      const problem = resourceProblem(resource);
      if (problem) context.addIssue({ code: 'custom', message: problem });
    })
    .describe('A path (/login), a template (/users/:id), a prefix (/api/*) or everything (/*).'),
  methods: z
    .array(z.string().regex(/^[A-Z]{1,20}$/, 'must be upper-case letters'))
    .max(20)
    .describe('None: every method. GET includes HEAD.'),
  tiers: names('None: callers of every tier.'),
  subjects: names('None: every subject of the scope. An override names whom it is made for.'),
  algorithm: z.enum(ALGORITHM_IDS),
  limit: whole(LARGEST_LIMIT).nullable().describe('Needed unless there is a limitName.'),
  limitName: z
    .string()
    .min(1)
    .max(64)
    .nullable()
    .describe('A named limit of the caller’s tier; it comes before limit.'),
  windowSeconds: whole(LONGEST_WINDOW_SECONDS),
  burst: whole(LARGEST_LIMIT)
    .nullable()
    .describe('Capacity of token-bucket, leaky-bucket and gcra; the limit if left out.'),
  buckets: whole(100).nullable().describe('Of sliding-window-buckets.'),
  cost: whole(1_000_000_000).describe('What one request takes.'),
  costFromOrigin: z
    .boolean()
    .describe('The origin tells the real cost in a header; the difference is settled.'),
  refundOnError: z
    .boolean()
    .describe('Give back what was charged if the request certainly did not reach the origin.'),
  maxDelayMs: whole(30_000).nullable().describe('The longest that throttle makes a request wait.'),
  priority: z.int32().describe('Lower comes first.'),
  blockSeconds: whole(LONGEST_WINDOW_SECONDS).nullable().describe('Keeps a violator out for so long.'),
  status: z.int().min(400).max(599).describe('Of the answer to a denied request.'),
  message: z.string().max(1024).nullable().describe('For people, in the answer to a denied request.'),
  shares: shares
    .nullable()
    .describe(
      'Parts of the limit by region, in proportion; one that is not named has none. Null: as configured.',
    ),
  spill: z.boolean().describe('What other regions have of the limit can be used where the caller is.'),
  central: z.boolean().describe('Each subject is counted in one region only, which has the whole limit.'),
}).omit({ id: true, ordinal: true, revision: true, createdAt: true, updatedAt: true });

type Fields = z.infer<typeof ruleFields>;
export type RuleFields = { readonly [Field in keyof Fields]?: Fields[Field] | undefined };

/** What could never match, or what the counters would refuse, is refused here, long before a request comes. */
export function checkRule(rule: RuleFields, context: z.core.$RefinementCtx<unknown>): void {
  for (const [field, message] of problemsOf(rule))
    context.addIssue({ code: 'custom', path: [field], message, input: rule[field] });
}

type Problem = [field: keyof RuleFields, message: string];

function problemsOf(rule: RuleFields): Problem[] {
  const { algorithm, limit, limitName, windowSeconds } = rule;
  const problems: Problem[] = [...shareProblems(rule)];
  if (limit == null && limitName == null) problems.push(['limit', 'is needed, or else a limitName']);
  if (rule.scope === 'global' && rule.subjects?.length)
    problems.push(['subjects', 'cannot be named when everybody is counted together']);
  if (rule.maxDelayMs != null && rule.action !== 'throttle')
    problems.push(['maxDelayMs', 'belongs to the action throttle']);
  if (algorithm === undefined || windowSeconds === undefined) return problems;
  const traits = traitsOf(algorithm);
  for (const field of ['burst', 'buckets'] as const)
    if (rule[field] != null && traits.extra !== field)
      problems.push([field, `belongs to ${idsWith(({ extra }) => extra === field).join(', ')}`]);
  if (rule.action === 'throttle' && !traits.hasQueue) {
    const [id] = idsWith(({ hasQueue }) => hasQueue === true);
    problems.push(['action', `throttle belongs to ${id}, the algorithm that has a queue`]);
  }
  if (rule.action === 'throttle' && rule.costFromOrigin)
    problems.push(['costFromOrigin', 'cannot go with throttle: a queue is paid for when it is entered']);
  if (traits.holdsLeases) problems.push(...leaseProblems(rule));
  if (limit == null) return problems;
  if (limit >= 1 && (rule.cost ?? 1) > (rule.burst ?? limit))
    problems.push(['cost', 'is more than the limit can ever hold: no request would pass']);
  const problem = limitProblem({ algorithm, windowSeconds, burst: rule.burst, buckets: rule.buckets }, limit);
  if (problem) problems.push(['limit', problem]);
  return problems;
}

/** A connection that is open is held, not spent. */
function* leaseProblems({ costFromOrigin, countDenied, windowSeconds = 0 }: RuleFields): Iterable<Problem> {
  if (windowSeconds < SHORTEST_LEASE_SECONDS)
    yield ['windowSeconds', `must be at least ${SHORTEST_LEASE_SECONDS} for connections`];
  if (costFromOrigin) yield ['costFromOrigin', 'makes no sense for connections'];
  if (countDenied) yield ['countDenied', 'makes no sense for connections'];
}

export interface Counting {
  readonly algorithm: AlgorithmId;
  readonly windowSeconds: number;
  readonly burst?: number | null | undefined;
  readonly buckets?: number | null | undefined;
}

/** Why the counters would refuse this limit, or undefined. */
export function limitProblem({ algorithm, windowSeconds, burst, buckets }: Counting, limit: number) {
  const extra = burst ?? buckets ?? undefined;
  const windowMs = windowSeconds * 1000;
  const check = { key: '', id: '', algorithm, limit, windowMs, extra, cost: 1, leaseId: SOME_LEASE };
  // People know windows in seconds.
  return problemOf(check)?.replace(/limit times windowMs.*/, 'is too large for so long a window');
}

/** A row on its way to the edge, where nobody asks whether it is enabled. */
const ruleRow = z
  .object({
    ...ruleFields.omit({ enabled: true }).required().shape,
    // A name from before control characters were refused takes no limit out of force.
    name: z.string().min(1).max(128),
    id: z.string(),
    ordinal: z.int(),
  })
  .superRefine(checkRule) satisfies z.ZodType<Rule>;

export interface RejectedRow {
  readonly id: string;
  readonly name: string;
  readonly problems: readonly string[];
}

/** A bad row never takes the others down: it is put aside with the reason. */
export function parseRules(rows: readonly unknown[]): { rules: Rule[]; rejected: RejectedRow[] } {
  const rules: Rule[] = [];
  const rejected: RejectedRow[] = [];
  for (const row of rows) {
    const parsed = ruleRow.safeParse(row);
    if (parsed.success) rules.push(parsed.data);
    else
      rejected.push({
        id: textOf(row, 'id'),
        name: textOf(row, 'name'),
        problems: parsed.error.issues.map(describe),
      });
  }
  return { rules, rejected };
}

const describe = (issue: z.core.$ZodIssue) => `${issue.path.join('.')}: ${issue.message}`;

function textOf(row: unknown, field: string): string {
  const value = row !== null && typeof row === 'object' ? (row as Record<string, unknown>)[field] : undefined;
  return typeof value === 'string' ? value : `(no ${field})`;
}
