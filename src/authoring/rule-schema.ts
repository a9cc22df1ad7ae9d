// The schema of a rule, derived from its table: for the admin route, and for every row that is published.
import { createInsertSchema } from 'drizzle-zod';
import * as z from 'zod';
import { ALGORITHM_IDS } from '../core/counting/algorithms/registry.ts';
import { CALENDAR_WINDOWS } from '../core/counting/calendar.ts';
import { POLICY } from '../core/matching/compiled-rule.ts';
import { MAX_PARTS, PART } from '../core/matching/counted-by.ts';
import {
  algorithmByDefault,
  type FlatRule,
  PEOPLE_DEFAULTS,
  RULE_DEFAULTS,
  toRule,
} from '../core/matching/flat-rule.ts';
import { EVERY_HOST } from '../core/matching/origin-routes.ts';
import { resourceProblem } from '../core/matching/resource.ts';
import {
  LARGEST_COST,
  LARGEST_LIMIT,
  LEAST_TIMES,
  LONGEST_CLAIM_NAME,
  LONGEST_WINDOW_SECONDS,
  MAX_BOUND_TIMES,
  MAX_COSTS_OF_A_RULE,
  MAX_HOSTS_OF_A_RULE,
  MAX_LIMITS_OF_A_RULE,
  MAX_RESOURCES_OF_A_RULE,
  MAX_TIMES,
  PER,
  RULE_SCOPES,
  type Rule,
} from '../core/matching/rule.ts';
import { rules } from '../rules/tables/tables.ts';
import { isWhole, moment, NOT_WHOLE, plainText } from './bodies.ts';
import { inNumbers, orRate } from './rate.ts';
import { hostField, refused } from './route-schema.ts';
import { checkRule } from './rule-problems.ts';
import { timeZoneProblem } from './time-zone.ts';

const whole = (most: number) => z.int().min(1).max(most);
const names = (describe: string) =>
  z.array(z.string().min(1).max(256).refine(isWhole, NOT_WHOLE)).max(1000).describe(describe);

const resource = z
  .string()
  .max(1024)
  .superRefine(refused(resourceProblem))
  .describe(
    'A path (/login), a template (/users/:id), a prefix (/api/*), names that begin alike (/search*) or everything (/*).',
  );
const methods = z
  .array(z.string().regex(/^[A-Z]{1,20}$/, 'must be upper-case letters'))
  .max(20)
  .describe('An empty list means every method. GET includes HEAD.');
const PARTS = 'must be user, apiKey, tenant, ip, country, asn, colo, header:NAME, claim:NAME or param:NAME';

const host = hostField.refine((text) => text !== EVERY_HOST, 'is left out to mean every host');

const limitName = z.string().min(1).max(64);
const limitClaim = plainText(LONGEST_CLAIM_NAME).min(1);

const timeZone = z.string().max(64).superRefine(refused(timeZoneProblem));

const oneLimit = z.strictObject({
  limit: whole(LARGEST_LIMIT).optional(),
  limitName: limitName.optional(),
  limitClaim: limitClaim.optional(),
  limitMax: whole(LARGEST_LIMIT).optional(),
  windowSeconds: whole(LONGEST_WINDOW_SECONDS).optional().describe('Required unless there is a window.'),
  window: z.enum(CALENDAR_WINDOWS).optional(),
  timeZone: timeZone.optional(),
  anchorDay: whole(31).optional(),
  algorithm: z
    .enum(ALGORITHM_IDS)
    .optional()
    .describe('The default is that of the rule, with a window fixed-window.'),
  burst: whole(LARGEST_LIMIT).optional(),
  buckets: whole(100).optional(),
});
const severalOf = <T extends z.ZodType>(one: T) =>
  z
    .array(one)
    .max(MAX_LIMITS_OF_A_RULE)
    .describe('Several limits that hold together, instead of limit and windowSeconds.');

/** `limit` and `limits` as people write them. `inNumbers` reads them. */
export const writtenLimits = {
  limit: orRate(whole(LARGEST_LIMIT))
    .nullable()
    .describe(
      'Required unless there is a limitName, or limits. A text such as `20 / minute` or `100 / 15 minutes` also ' +
        'names windowSeconds, which is then left out. Its units are seconds, minutes, hours and days.',
    ),
  limits: severalOf(
    oneLimit
      .extend({ limit: orRate(whole(LARGEST_LIMIT)).optional() })
      .transform(inNumbers)
      .meta({ id: 'WrittenLimit' }),
  ),
};

const costs = z
  .array(
    z
      .strictObject({ resource, methods: methods.optional(), cost: whole(LARGEST_COST) })
      .meta({ id: 'RouteCost' }),
  )
  .max(MAX_COSTS_OF_A_RULE)
  .describe(
    'Costs of requests to some resources. The most specific entry wins; all other requests cost `cost`.',
  );

const shares = z.record(z.string(), z.number().min(0));

/** The fields of a rule that people write, each by itself; `checkRule` looks at them together. */
export const ruleFields = createInsertSchema(rules, {
  name: plainText(128).min(1).describe('Unique. For operators; clients read the policy.'),
  policy: z
    .string()
    .regex(POLICY, 'must be lower-case letters, digits and any of . _ -, at most 63')
    .nullable()
    .describe('The name that clients read. Null means that Weir makes it from the resource and the scope.'),
  resource: resource.nullable().describe('Required unless there are resources.'),
  resources: z
    .array(resource)
    .max(MAX_RESOURCES_OF_A_RULE)
    .describe('Several resources that share the limits of the rule, instead of resource.'),
  methods,
  scope: z
    .enum(RULE_SCOPES)
    .describe(
      'Who is counted. all: the rule counts nothing and reaches rules of every scope, for allow and multiply only.',
    ),
  tiers: names('None: callers of every tier.'),
  tenants: names(
    'None: callers of every tenant. Names callers of any scope by their tenant; acme-*: all that begin so.',
  ),
  subjects: names(
    'None: every subject of the scope. An override names whom it is made for; acme-*: all that begin so.',
  ),
  per: z
    .array(z.enum(PER))
    .max(PER.length)
    .describe('route: each of the resources has its own counter. method: each method has its own counter.'),
  by: z
    .array(z.string().regex(PART, PARTS))
    .max(MAX_PARTS)
    .describe(
      'Count by these parts together instead of by the scope. If the client chooses a part (header, param), all that one ' +
        'subject of the scope sends is also counted, up to boundTimes the limit.',
    ),
  boundTimes: whole(MAX_BOUND_TIMES).describe('See by.'),
  hosts: z
    .array(host)
    .max(MAX_HOSTS_OF_A_RULE)
    .describe(
      'An empty list means every host. An entry is api.example.com, or *.example.com for all names below it.',
    ),
  routes: names('Names of routes; none: whatever route a request takes.'),
  algorithm: z
    .enum(ALGORITHM_IDS)
    .nullable()
    .describe(
      'Null only if the action is allow or multiply. The default is sliding-window-counter, with a window fixed-window.',
    ),
  limit: whole(LARGEST_LIMIT).nullable().describe('Required unless there is a limitName, or limits.'),
  limitName: limitName
    .nullable()
    .describe('A named limit of the caller’s tenant, or else of its tier. It comes before limit.'),
  limitClaim: limitClaim
    .nullable()
    .describe(
      'The claim that has the limit of the caller, as a whole number. It comes before limitName and limit. Needs limit, ' +
        'for callers without such a claim, and limitMax.',
    ),
  limitMax: whole(LARGEST_LIMIT)
    .nullable()
    .describe('The most that limitClaim can give. A larger number counts as this one.'),
  windowSeconds: whole(LONGEST_WINDOW_SECONDS)
    .nullable()
    .describe('Required unless there is a window, or limits.'),
  window: z
    .enum(CALENDAR_WINDOWS)
    .nullable()
    .describe(
      'A day, a week from Monday or a month of the calendar, instead of windowSeconds. For fixed-window only.',
    ),
  timeZone: timeZone
    .nullable()
    .describe('The time zone of the window, such as Europe/Berlin. Null means UTC.'),
  anchorDay: whole(31)
    .nullable()
    .describe(
      'The day on which a month begins. A month without that day begins on its last day. Null means the anchorDay of the ' +
        'tenant in rules of scope tenant, else the first.',
    ),
  burst: whole(LARGEST_LIMIT)
    .nullable()
    .describe('The capacity of token-bucket, leaky-bucket and gcra. The default is the limit.'),
  buckets: whole(100).nullable().describe('The number of buckets, for sliding-window-buckets.'),
  limits: severalOf(oneLimit.meta({ id: 'RuleLimit' })),
  cost: whole(LARGEST_COST).describe('How many units one request takes.'),
  costs,
  costFromOrigin: z
    .boolean()
    .describe('The origin names the real cost in a header, and Weir settles the difference.'),
  refundOnError: z
    .boolean()
    .describe('Give the charge back if the request certainly did not reach the origin.'),
  times: z
    .number()
    .min(LEAST_TIMES)
    .max(MAX_TIMES)
    .nullable()
    .describe(
      'The factor of multiply, for limits of rules of its scope whose resource is the same or narrower.',
    ),
  replaces: z
    .boolean()
    .describe('Where this rule applies, rules of the same scope whose resource contains this one do not.'),
  maxDelayMs: whole(30_000).nullable().describe('The longest that throttle makes a request wait.'),
  priority: z.int32().describe('Lower comes first.'),
  blockSeconds: whole(LONGEST_WINDOW_SECONDS)
    .nullable()
    .describe('Denies a caller that exceeds the limit for this long.'),
  status: z.int().min(400).max(599).describe('The status of the answer to a denied request.'),
  message: z.string().max(1024).nullable().describe('For people, in the answer to a denied request.'),
  alertAt: z
    .array(whole(100))
    .max(5)
    .describe(
      'Percentages of the limit, such as 80 and 100. Weir calls ALERT_WEBHOOK when a subject reaches one.',
    ),
  shares: shares
    .nullable()
    .describe(
      'Parts of the limit by region, in proportion. A region that is not named has none. Null means the configured shares.',
    ),
  spill: z.boolean().describe('A caller can also use the parts of other regions.'),
  percent: z
    .int()
    .min(0)
    .max(100)
    .describe('The rule applies to this percentage of its subjects, always the same ones.'),
  validFrom: moment.nullable().describe('The rule does not apply before. Null means from the start.'),
  validUntil: moment
    .nullable()
    .describe('The rule does not apply from then on. Null means that it never ends.'),
  central: z.boolean().describe('One region counts a subject, with the whole limit.'),
  lease: z
    .boolean()
    .describe(
      'A busy isolate may charge several units at once and use them from memory. That is exact, and takes fewer calls.',
    ),
}).omit({ id: true, ordinal: true, revision: true, createdAt: true, updatedAt: true });

type Fields = z.infer<typeof ruleFields>;
export type RuleFields = { readonly [Field in keyof Fields]?: Fields[Field] | undefined };

/** The defaults of fields that people may leave out of this rule. */
export const writtenDefaults = (rule: { readonly window?: unknown }) => ({
  ...WRITTEN_DEFAULTS,
  algorithm: algorithmByDefault(rule),
});

/** The same for a rule without a calendar. */
export const WRITTEN_DEFAULTS = { ...toWritten(RULE_DEFAULTS), ...PEOPLE_DEFAULTS, enabled: true };

function toWritten({ validFromMs: validFrom, validUntilMs: validUntil, ...others }: typeof RULE_DEFAULTS) {
  return { ...others, validFrom, validUntil };
}

/** A row to publish. The edge gets enabled rules only, so `enabled` is left out. */
const ruleRow = z
  .object({
    ...ruleFields.omit({ enabled: true }).required().shape,
    // Allows names with control characters: an old rule with such a name must stay in force.
    name: z.string().min(1).max(128),
    validFrom: z.date().nullable(),
    validUntil: z.date().nullable(),
    id: z.string(),
    ordinal: z.int(),
  })
  .superRefine(checkRule)
  .transform(({ validFrom, validUntil, ...rule }) => ({
    ...rule,
    validFromMs: validFrom?.getTime() ?? null,
    validUntilMs: validUntil?.getTime() ?? null,
  })) satisfies z.ZodType<FlatRule>;

export interface RejectedRow {
  readonly id: string;
  readonly name: string;
  readonly problems: readonly string[];
}

/** Puts bad rows aside with the reason, so that they never take the others down. */
export function parseRules(rows: readonly unknown[]): { rules: Rule[]; rejected: RejectedRow[] } {
  const rules: Rule[] = [];
  const rejected: RejectedRow[] = [];
  for (const row of rows) {
    const parsed = ruleRow.safeParse(row);
    if (parsed.success) rules.push(toRule(parsed.data));
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
