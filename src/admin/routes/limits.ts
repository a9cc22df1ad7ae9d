// The limits of one caller by the rules in force, and what is left of each. It charges nothing.
import * as z from 'zod';
import { type Caller, subjectOf, UNKNOWN_CALLER } from '../../core/matching/caller.ts';
import { planLimitsOf, type RuleCheck } from '../../core/matching/plan.ts';
import { LISTS, SCOPES } from '../../core/matching/rule.ts';
import { invalidRequest, ProblemError } from '../../http/internal-requests.ts';
import type { AdminApp, AdminServices } from '../app.ts';
import {
  completeCaller,
  findKeyId,
  ipOrPrefix,
  limitLeft,
  peekChecks,
  shownCaller,
  shownLimit,
  toLeft,
  toShownCaller,
} from '../explanation.ts';
import { addOperation } from '../operation.ts';
import { notFound } from '../problems.ts';

const CALLER_SCOPES = ['user', 'apiKey', 'tenant', 'ip'] as const;
type CallerScope = (typeof CALLER_SCOPES)[number];

const limitsBody = z
  .strictObject({
    caller: shownCaller,
    rulesVersion: z.string(),
    listed: z.enum(LISTS).nullable().describe('The list that the caller is on. Limits do not apply then.'),
    limits: z.array(
      z.strictObject({
        ruleId: z.string(),
        ...shownLimit,
        resource: z.string(),
        methods: z.array(z.string()),
        scope: z
          .enum(SCOPES)
          .describe('The scope of the rule. If it is not that of the subject, the rule counts the IP.'),
        isOverride: z.boolean().describe('Whether the rule names its subjects.'),
        validUntil: z.iso.datetime().nullable(),
        subject: z.strictObject({ scope: z.enum(SCOPES), id: z.string() }).describe('Who is counted.'),
        left: limitLeft.nullable().describe('Null if no region answers, or if the caller is on a list.'),
      }),
    ),
    dependsOnAddress: z
      .array(
        z.strictObject({ ruleId: z.string(), ...shownLimit, resource: z.string(), scope: z.enum(SCOPES) }),
      )
      .describe(
        'Limits that count the IP address of a request: by their scope, or because the caller has no id of that scope. ' +
          'Ask for the address to see what is left. Empty for an address.',
      ),
  })
  .meta({ id: 'CallerLimits' });

export function addLimitRoutes(app: AdminApp, services: AdminServices): void {
  addOperation(
    app,
    {
      id: 'readLimits',
      call: 'GET /limits',
      group: 'operations',
      summary: 'The current limits of a caller, and what is left of each',
      description:
        'By the rules in force, over all regions. Charges nothing. Limits that count the address are listed apart.',
      query: z.strictObject({
        scope: z.enum(CALLER_SCOPES),
        subject: z
          .string()
          .min(1)
          .max(256)
          .describe('The id of the user or tenant, the id or name of the key, or the IP address.'),
      }),
      says: 'The limits',
      answer: limitsBody,
      problems: [404],
    },
    async ({ query }) => {
      const nowMs = services.now();
      const caller = await findCaller(services, query.scope, query.subject);
      const rules = await services.rulesInForce();
      if (!rules) throw NO_RULES;
      const planned = await planLimitsOf(rules, caller, nowMs);
      // The IP of a user, a key or a tenant is not known here.
      const checks = planned.filter((check) => !countsUnknownIp(check, caller));
      const byAddress = planned.filter((check) => countsUnknownIp(check, caller) && !check.rule.isBound);
      const outcomes = await peekChecks(services, checks, nowMs);
      return {
        caller: toShownCaller(caller, rules.tierOf(caller)),
        rulesVersion: rules.version,
        listed: rules.listed(caller, nowMs) ?? null,
        limits: checks.map((check, i) => ({ ...toLimit(check, caller), left: toLeft(outcomes?.[i]) })),
        dependsOnAddress: byAddress.map(toNamedLimit),
      };
    },
  );
}

async function findCaller(services: AdminServices, scope: CallerScope, subject: string): Promise<Caller> {
  const { database, ipv6Prefix, now } = services;
  if (scope === 'ip') {
    const counted = ipOrPrefix(subject, ipv6Prefix);
    if (counted) return counted;
    throw badSubject('must be an IPv4 or IPv6 address');
  }
  const id = scope === 'apiKey' ? await findKeyId(database, subject, badSubject) : subject;
  const described = { [`${scope}Id`]: id };
  const caller = { ...UNKNOWN_CALLER, ...(await completeCaller(database, described, now())) };
  if (scope === 'apiKey' && caller.apiKeyId === undefined) throw notFound('key');
  return caller;
}

/** Rules count callers without an id of their scope by IP. */
function countsUnknownIp({ rule }: RuleCheck, caller: Caller): boolean {
  const { scope, id } = subjectOf(rule.scope, caller);
  return scope === 'ip' && id === UNKNOWN_CALLER.ip;
}

const toNamedLimit = ({ rule, full, windowMs }: RuleCheck) => ({
  ruleId: rule.id,
  name: rule.name,
  policy: rule.policy,
  resource: rule.resources.join(', '),
  action: rule.action,
  scope: rule.scope,
  limit: full.limit,
  windowSeconds: windowMs / 1_000,
  window: rule.window,
});

const toLimit = (check: RuleCheck, caller: Caller) => ({
  ...toNamedLimit(check),
  methods: check.rule.methods,
  isOverride: check.rule.subjects.length > 0,
  validUntil: check.rule.validUntilMs === null ? null : new Date(check.rule.validUntilMs).toISOString(),
  subject: subjectOf(check.rule.scope, caller),
});

const badSubject = (detail: string) => invalidRequest([{ pointer: 'subject', detail }]);

const NO_RULES = new ProblemError({
  status: 503,
  code: 'rules-unavailable',
  title: 'This isolate has no rules yet',
  detail: 'Neither Redis nor KV has given it any.',
});
