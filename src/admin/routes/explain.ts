// "Why is this request limited?": which rules apply to it, which do not, and why. It reads the rules from Postgres, so
// it also shows changes that are not in force yet.

import * as z from 'zod';
import {
  CLAIM_USES,
  compileResource,
  type Explanation,
  explain,
  LIMIT_SOURCES,
  REASONS_AGAINST,
  type RuleExplanation,
} from '../../authoring/explain.ts';
import { UNKNOWN_CALLER } from '../../core/matching/caller.ts';
import type { RequestFacts } from '../../core/matching/counted-by.ts';
import { countedIp } from '../../core/matching/ip.ts';
import { canonicalPath } from '../../core/matching/path.ts';
import { noSeat, type PlannedRequest, planRequest } from '../../core/matching/plan.ts';
import { isOwnPath, OWN_PREFIX, slotOf } from '../../core/matching/resource.ts';
import { LISTS, LONGEST_CLAIM_NAME, SCOPES } from '../../core/matching/rule.ts';
import { compileSnapshot, ENFORCEMENTS } from '../../core/matching/snapshot.ts';
import { movingUntilMs } from '../../core/regions/placement.ts';
import { invalidBody, ProblemError } from '../../http/internal-requests.ts';
import { LONGEST_KEY } from '../../identity/api-key.ts';
import {
  type ReadContent,
  readContent,
  type StoredContent,
  type StoredRule,
} from '../../rules/publishing/content.ts';
import type { AdminApp, AdminServices } from '../app.ts';
import {
  completeCaller,
  findKeyId,
  limitLeft,
  peekChecks,
  shownCaller,
  shownLimit,
  toLeft,
  toShownCaller,
} from '../explanation.ts';
import { addOperation } from '../operation.ts';

// The body and the answer of `explain`.

/** The most rules shown that do not apply: enough to find the expected one. */
const MAX_AGAINST = 1_000;

const id = z.string().min(1).max(256);

const explainBody = z
  .strictObject({
    method: z
      .string()
      .regex(/^[A-Z]{1,20}$/, 'must be upper-case letters')
      .default('GET'),
    path: z.string().startsWith('/').max(8192).describe('In the form in which a client would send it.'),
    ip: z.string().max(64).optional().describe('Left out: what counts the address stays open.'),
    userId: id.optional(),
    apiKeyId: id.optional().describe('The id or the name of a key.'),
    apiKey: z
      .string()
      .min(1)
      .max(LONGEST_KEY)
      .optional()
      .describe(
        'The key itself, instead of its id. Weir looks it up by its hash, and never logs or shows it.',
      ),
    tenantId: id.optional().describe('The default is that of the key or user.'),
    tier: z.string().max(63).optional().describe('The default is that of the key, user or tenant.'),
    host: z.string().max(253).toLowerCase().optional().describe('For rules and routes that name hosts.'),
    headers: z
      .record(z.string().regex(/^[A-Za-z0-9-]{1,64}$/), z.string().regex(/^[\x20-\x7e]{0,1024}$/))
      .optional()
      .describe('The headers that rules count by.'),
    claims: z
      .record(z.string().max(LONGEST_CLAIM_NAME), z.string().max(256))
      .optional()
      .describe('Claims of the token, if rules count by them or take limits from them.'),
    country: z.string().max(8).optional(),
    asn: z.string().max(16).optional(),
    colo: z.string().max(8).optional(),
    region: z.string().max(32).optional().describe('If left out, all regions together.'),
  })
  .superRefine(({ apiKey, apiKeyId }, context) => {
    if (apiKey !== undefined && apiKeyId !== undefined)
      context.addIssue({
        code: 'custom',
        path: ['apiKey'],
        message: 'cannot go with apiKeyId: one of them is enough',
      });
  })
  .meta({ id: 'ExplainRequest' });

const explanationBody = z
  .strictObject({
    path: z.string().describe('The canonical form, as rules and the origin see it.'),
    method: z.string(),
    caller: shownCaller,
    region: z.string().nullable().describe('Null means all regions together.'),
    enforcement: z
      .enum(ENFORCEMENTS)
      .describe(
        'log means that rules only record what they would have done, by the settings or by a variable.',
      ),
    listed: z.enum(LISTS).nullable().describe('The list that the caller is on. Rules do not apply then.'),
    allowedBy: z
      .array(z.strictObject({ id: z.string(), name: z.string() }))
      .describe('Rules with the action allow. They count nothing, and put broader rules aside.'),
    multipliedBy: z
      .array(z.strictObject({ id: z.string(), name: z.string(), times: z.number() }))
      .describe('Rules with the action multiply. They multiply limits of their scope and resource.'),
    applies: z
      .array(
        z.strictObject({
          id: z.string(),
          ...shownLimit,
          limitFrom: z.enum(LIMIT_SOURCES),
          claim: z
            .strictObject({ name: z.string(), value: z.string().nullable(), use: z.enum(CLAIM_USES) })
            .nullable()
            .describe(
              'The claim that the rule takes its limit from. capped: it is larger than limitMax, which is the limit. missing, ' +
                'unusable: the limit is from elsewhere. Null if the rule asks for none.',
            ),
          times: z.number().nullable().describe('The factor of the limit. Null if it is not multiplied.'),
          cost: z.int().describe('How many units the request takes.'),
          subject: z
            .strictObject({ scope: z.enum([...SCOPES, 'by']), id: z.string().nullable() })
            .describe(
              'Who is counted. If the caller has no id of the rule’s scope, that is the IP. For a rule that counts `by` parts: ' +
                'their values, separated by slashes. @ and the IP stand for an id that the caller does not have. ' +
                'The id is null if it depends on the address, and the question names none.',
            ),
          bound: z
            .int()
            .nullable()
            .describe(
              'What all values that a client chooses may use together. Null if the client chooses none.',
            ),
          left: limitLeft
            .nullable()
            .describe(
              'Null if the counters did not answer, if it depends on the address, or if the caller is on a list.',
            ),
          leased: z
            .int()
            .nullable()
            .describe(
              'Units that the answering isolate has charged in advance and not used. `remaining` does not include them. ' +
                'Null if this limit is never leased, or if the caller is on a list.',
            ),
          moving: z
            .strictObject({ until: z.iso.datetime().nullable() })
            .nullable()
            .describe(
              'The rule moves to other regions. Until then (null: until every region knows it) a caller ' +
                'in several regions at once may get less than the limit.',
            ),
        }),
      )
      .describe('One entry for each limit. A rule can have several.'),
    doesNotApply: z.array(
      z.strictObject({
        id: z.string(),
        name: z.string(),
        reason: z.enum([...REASONS_AGAINST, 'rejected']),
        detail: z.string(),
      }),
    ),
    doesNotApplyCount: z.int().describe(`The number of all such rules. At most ${MAX_AGAINST} are shown.`),
  })
  .meta({ id: 'Explanation' });

export function addExplainRoutes(app: AdminApp, services: AdminServices): void {
  addOperation(
    app,
    {
      id: 'explainRequest',
      call: 'POST /explain',
      group: 'operations',
      summary: 'Which rules apply to a request, which do not, and why',
      description: 'Charges nothing. A token of the role read may ask, too.',
      body: explainBody,
      says: 'Explained',
      answer: explanationBody,
    },
    async ({ body }) => {
      const { database, now } = services;
      const { path, matchPath } = parsePath(body.path);
      const regions = findRegions(services, body.region);
      const apiKeyId = body.apiKeyId && (await findKeyId(database, body.apiKeyId, badKey));
      const caller = {
        ...parseIp(body.ip, services.ipv6Prefix),
        ...(await completeCaller(database, { ...body, apiKeyId }, now())),
        claims: body.claims,
      };
      const read = await readContent(database, now());
      const facts = factsOf(body);
      const request = { matchPath, method: body.method, caller, nowMs: now(), seatId: noSeat, facts };
      const explanation = explain(read.content, request);
      const { content } = read;
      const peeked = await peek({ ...services, regions }, content, request);
      const findings = { peeked, content, leasedOf: services.leasedOf, nowMs: now() };
      const against = reasonsAgainst(explanation, read, { matchPath, hasAddress: body.ip !== undefined });
      const { rules, listed, tier } = explanation;
      return {
        path,
        method: body.method,
        caller: toShownCaller(caller, tier),
        region: body.region ?? null,
        enforcement: services.isLogOnly ? 'log' : (content.settings?.enforcement ?? 'on'),
        listed: listed ?? null,
        allowedBy: withReason(rules, 'allows').map(({ ruleId, name }) => ({ id: ruleId, name })),
        multipliedBy: withReason(rules, 'multiplies').map(({ ruleId, name, times }) => ({
          ...{ id: ruleId, name, times },
        })),
        applies: withReason(rules, 'applies').flatMap((rule) => toShown(rule, findings)),
        doesNotApply: against.slice(0, MAX_AGAINST),
        doesNotApplyCount: against.length,
      };
    },
  );
}

type WithReason<R extends RuleExplanation['reason']> = Extract<RuleExplanation, { readonly reason: R }>;

const withReason = <R extends RuleExplanation['reason']>(rules: readonly RuleExplanation[], reason: R) =>
  rules.filter((rule): rule is WithReason<R> => rule.reason === reason);

/** What is left of each limit, by `nameOfLimit`, in the regions that answer. Charges nothing. */
async function peek(
  services: Pick<AdminServices, 'regions' | 'deadlineMs'>,
  content: StoredContent,
  request: PlannedRequest,
) {
  const rules = content.rules.filter(({ enabled }) => enabled !== false);
  const plan = await planRequest(compileSnapshot('', { ...content, rules }), request);
  const checks = plan.kind === 'listed' ? [] : plan.checks.filter(({ rule }) => !rule.isBound);
  const outcomes = await peekChecks(services, checks, request.nowMs);
  return new Map(
    checks.map((check, i) => [
      nameOfLimit(check.rule.id, check.rule.windowSeconds),
      { check, outcome: outcomes?.[i] },
    ]),
  );
}

/** Of a rule that counts by several parts, one of them is the address. */
const countsUnknownIp = ({ scope, id: counted }: WithReason<'applies'>['subject']): boolean =>
  scope === 'by'
    ? counted.split('/').includes(`@${UNKNOWN_CALLER.ip}`)
    : scope === 'ip' && counted === UNKNOWN_CALLER.ip;

/** No two limits of a rule have the same window. */
const nameOfLimit = (ruleId: string, windowSeconds: number): string => `${ruleId} ${windowSeconds}`;

/** The facts of the described request beside its path and caller. */
function factsOf({ host = '', headers = {}, ...places }: z.infer<typeof explainBody>): RequestFacts {
  const byName = new Headers(headers);
  return { host: () => host, header: (name) => byName.get(name), place: (kind) => places[kind] ?? '' };
}

interface Findings {
  readonly peeked: Awaited<ReturnType<typeof peek>>;
  readonly content: StoredContent;
  readonly leasedOf: AdminServices['leasedOf'];
  readonly nowMs: number;
}

function toShown(
  { ruleId, name, limits, cost, subject, boundTimes }: WithReason<'applies'>,
  { peeked, content, leasedOf, nowMs }: Findings,
) {
  const stored = content.rules.find(({ id }) => id === ruleId);
  const untilMs = stored && movingUntilMs(stored, content.split, nowMs);
  const until = untilMs !== undefined && Number.isFinite(untilMs) ? new Date(untilMs).toISOString() : null;
  const dependsOnAddress = countsUnknownIp(subject);
  return limits.map(({ limit, limitFrom, claim, times, windowSeconds, window, policy }) => {
    const { check, outcome } = peeked.get(nameOfLimit(ruleId, windowSeconds)) ?? {};
    return {
      ...{ id: ruleId, name, policy, action: stored?.action ?? 'reject' },
      ...{ limit, limitFrom, times: times ?? null },
      claim: claim ? { ...claim, value: claim.value ?? null } : null,
      windowSeconds: check ? check.windowMs / 1_000 : windowSeconds,
      ...{ window, cost, subject: dependsOnAddress ? { scope: subject.scope, id: null } : subject },
      bound: boundTimes === undefined ? null : limit * boundTimes,
      left: dependsOnAddress ? null : toLeft(outcome),
      leased: dependsOnAddress || !check ? null : (leasedOf(check) ?? null),
      moving: untilMs === undefined ? null : { until },
    };
  });
}

function parsePath(text: string): { path: string; matchPath: string } {
  // Parses like the front door, so that a query and the changes of the URL parser have the same effect here.
  const url = URL.parse(`https://weir.invalid${text}`);
  const canonical = url ? canonicalPath(url.pathname) : { ok: false as const, reason: 'is not a path' };
  if (!canonical.ok) throw badPath(canonical.reason);
  if (isOwnPath(canonical.matchPath)) throw badPath(`is under ${OWN_PREFIX}, which rules do not apply to`);
  return canonical;
}

function parseIp(text: string | undefined, ipv6Prefix: number): { ip: string; address: string } {
  const counted = text === undefined ? UNKNOWN_CALLER : countedIp(text, ipv6Prefix);
  if (!counted) throw invalidBody([{ pointer: '#/ip', detail: 'must be an IPv4 or IPv6 address' }]);
  return counted;
}

function findRegions({ regions }: AdminServices, name: string | undefined) {
  if (name === undefined) return regions;
  const found = regions.find((region) => region.name === name);
  if (found) return [found];
  const detail = `must be one of ${regions.map((region) => region.name).join(', ')}`;
  throw invalidBody([{ pointer: '#/region', detail }]);
}

const badKey = (detail: string) => invalidBody([{ pointer: '#/apiKeyId', detail }]);

const badPath = (detail: string) =>
  new ProblemError({
    status: 400,
    code: 'bad-path',
    title: 'Ambiguous path',
    errors: [{ pointer: '#/path', detail }],
  });

// Why the others do not apply.

type Against = Exclude<RuleExplanation, WithReason<'applies' | 'allows' | 'multiplies'>>;
const AGAINST: ReadonlySet<string> = new Set(REASONS_AGAINST);

/** Rejected rules first, then rules whose resource matches, then all others. */
function reasonsAgainst(
  { rules, tier }: Explanation,
  { content, rejected }: ReadContent,
  { matchPath, hasAddress }: { readonly matchPath: string; readonly hasAddress: boolean },
) {
  const byId = new Map(content.rules.map((rule) => [rule.id, rule]));
  const isNear = ({ ruleId }: Against) =>
    resourcesIn(byId.get(ruleId)).some((resource) => compileResource(resource)(matchPath));
  const against = rules.filter((rule): rule is Against => AGAINST.has(rule.reason));
  const isOpen = ({ ruleId, reason }: Against) =>
    !hasAddress && byId.get(ruleId)?.scope === 'ip' && (reason === 'subject' || reason === 'percent');
  const [near, far] = [against.filter(isNear), against.filter((rule) => !isNear(rule))];
  return [
    ...rejected.map(({ id, name, problems }) => ({
      id,
      name,
      reason: 'rejected' as const,
      detail: `It is not valid: ${problems.join('; ')}.`,
    })),
    ...[...near, ...far].map((rule) => ({
      id: rule.ruleId,
      name: rule.name,
      reason: rule.reason,
      detail: isOpen(rule) ? DEPENDS_ON_ADDRESS : detailOf(rule, byId, tier),
    })),
  ];
}

const DEPENDS_ON_ADDRESS = 'It is for some addresses only, so it depends on the address.';

function detailOf(against: Against, byId: ReadonlyMap<string, StoredRule>, tier: string | undefined): string {
  const rule = byId.get(against.ruleId);
  switch (against.reason) {
    case 'disabled':
      return 'It is switched off.';
    case 'time':
      return `It applies ${spanOf(rule)}.`;
    case 'percent':
      return `It applies to ${rule?.percent} % of its subjects, and this one is not among them.`;
    case 'resource':
      return `It is for ${resourcesIn(rule).join(', ')}.`;
    case 'host':
      return `It is for the hosts ${rule?.hosts.join(', ')}.`;
    case 'route':
      return `It is for the routes ${rule?.routes.join(', ')}.`;
    case 'method':
      return `It is for ${rule?.methods.join(', ')}.`;
    case 'tier':
      return `It is for callers of ${rule?.tiers.join(', ')}; this one is of ${tier ?? 'no tier'}.`;
    case 'tenant':
      return `It is for callers of the tenants ${rule?.tenants.slice(0, MAX_NAMED).join(', ')}.`;
    case 'subject':
      return `It names others (${rule?.subjects.length}) of scope ${rule?.scope}.`;
    case 'outranked':
      return outranked(rule, byId.get(against.winnerId));
    case 'replaced':
      return replaced(rule, byId.get(against.winnerId));
    case 'unlimited':
      return `It has no limit for callers of ${tier ?? 'no tier'}, or none for this tenant.`;
  }
}

/** A rule can name a thousand. */
const MAX_NAMED = 20;

const spanOf = (rule: StoredRule | undefined): string =>
  [
    ...(rule?.validFromMs == null ? [] : [`from ${new Date(rule.validFromMs).toISOString()}`]),
    ...(rule?.validUntilMs == null ? [] : [`until ${new Date(rule.validUntilMs).toISOString()}`]),
  ].join(' ');

const resourcesIn = (rule: StoredRule | undefined): readonly string[] => rule?.resources ?? [];

function outranked(rule: StoredRule | undefined, winner: StoredRule | undefined): string {
  const why =
    rule?.priority === winner?.priority
      ? 'says more about the caller, or is the first of two alike'
      : `has priority ${winner?.priority}, this one ${rule?.priority}`;
  return `Of the same scope and resource, ${winner?.name} comes before it: it ${why}.`;
}

function replaced(rule: StoredRule | undefined, winner: StoredRule | undefined): string {
  const slots = resourcesIn(rule).map(slotOf);
  const isSame = resourcesIn(winner).some((resource) => slots.includes(slotOf(resource)));
  const does = winner?.action === 'allow' ? 'allows' : 'replaces it for';
  return `${winner?.name} ${does} ${resourcesIn(winner).join(', ')}${isSame ? '' : ', which is narrower'}.`;
}
