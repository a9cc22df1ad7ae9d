// "Why is this request limited?": which rules apply to it, which do not, and why. It reads the rules from Postgres, so
// it also shows changes that are not in force yet.

import { createRoute } from '@hono/zod-openapi';
import * as z from 'zod';
import { explain, REASONS_AGAINST } from '../../authoring/explain.ts';
import { CALENDAR_WINDOWS } from '../../core/counting/calendar.ts';
import type { Outcome } from '../../core/counting/check.ts';
import type { RequestFacts } from '../../core/matching/counted-by.ts';
import { countedIp } from '../../core/matching/ip.ts';
import { canonicalPath } from '../../core/matching/path.ts';
import { isOwnPath, OWN_PREFIX } from '../../core/matching/resource.ts';
import { ACTIONS, LISTS, SCOPES } from '../../core/matching/rule.ts';
import { ENFORCEMENTS } from '../../core/matching/snapshot.ts';
import { movingUntilMs } from '../../core/regions/placement.ts';
import { ProblemError } from '../../http/internal-problems.ts';
import { readContent, type StoredContent } from '../../rules/publishing/content.ts';
import type { AdminApp, AdminServices } from '../app.ts';
import {
  type Applying,
  completeCaller,
  isAllowing,
  isApplying,
  isMultiplying,
  outcomeName,
  type Peeked,
  peek,
  reasonsAgainst,
} from '../explanation.ts';
import { problemResponses } from '../problems.ts';

// The body and the answer of `explain`.

/** The most rules shown that do not apply: enough to find the expected one. */
export const MAX_AGAINST = 1_000;

const id = z.string().min(1).max(256);

export const explainBody = z
  .strictObject({
    method: z
      .string()
      .regex(/^[A-Z]{1,20}$/, 'must be upper-case letters')
      .default('GET'),
    path: z.string().startsWith('/').max(8192).describe('In the form in which a client would send it.'),
    ip: z.string().max(64).optional(),
    userId: id.optional(),
    apiKeyId: z.guid().optional(),
    apiKey: z
      .string()
      .min(1)
      .max(256)
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
      .record(z.string().max(64), z.string().max(256))
      .optional()
      .describe('Claims of the token, if rules count by them.'),
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

export const left = z.strictObject({
  allowed: z.boolean().describe('Whether this rule would let the request pass now.'),
  remaining: z.int(),
  resetAt: z.iso.datetime(),
  retryAfterMs: z.int().nullable().describe('Null if no wait will ever help.'),
});

export const explanationBody = z
  .strictObject({
    path: z.string().describe('The canonical form, as rules and the origin see it.'),
    method: z.string(),
    caller: z.strictObject({
      ip: z.string().describe('In the form in which it is counted.'),
      userId: z.string().nullable(),
      apiKeyId: z.string().nullable(),
      tenantId: z.string().nullable(),
      tier: z.string().nullable(),
    }),
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
          name: z.string(),
          policy: z.string().describe('The name by which clients know this limit.'),
          action: z.enum(ACTIONS).describe('log means that the rule denies nobody, and only records.'),
          limit: z.int(),
          limitFrom: z.enum(['rule', 'tier']),
          times: z.number().nullable().describe('The factor of the limit. Null if it is not multiplied.'),
          windowSeconds: z
            .int()
            .describe('For a calendar window, its current length, if the counters answer.'),
          window: z
            .enum(CALENDAR_WINDOWS)
            .nullable()
            .describe('A window of the calendar. Null if windows are aligned to the epoch.'),
          cost: z.int().describe('How many units the request takes.'),
          subject: z
            .strictObject({ scope: z.enum([...SCOPES, 'by']), id: z.string() })
            .describe(
              'Who is counted. If the caller has no id of the rule’s scope, that is the IP. For a rule that counts `by` parts: ' +
                'their values, separated by slashes. @ and the IP stand for an id that the caller does not have.',
            ),
          bound: z
            .int()
            .nullable()
            .describe(
              'What all values that a client chooses may use together. Null if the client chooses none.',
            ),
          left: left
            .nullable()
            .describe('Null if the counters did not answer, or if the caller is on a list.'),
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

/** A placeholder: explaining takes no seat. */
export const noSeat = () => '-'.repeat(16);

const explainRequest = createRoute({
  operationId: 'explainRequest',
  method: 'post',
  path: '/explain',
  tags: ['operations'],
  security: [{ bearer: [] }],
  summary: 'Which rules apply to a request, which do not, and why',
  description: 'Charges nothing. A token of the role read may ask, too.',
  request: { body: { required: true, content: { 'application/json': { schema: explainBody } } } },
  responses: {
    200: { description: 'Explained', content: { 'application/json': { schema: explanationBody } } },
    ...problemResponses(400, 413, 415),
  },
});

export function addExplainRoutes(app: AdminApp, services: AdminServices): void {
  const { database, deadlineMs, now, leasedOf } = services;

  app.openapi(explainRequest, async (c) => {
    const body = c.req.valid('json');
    const { path, matchPath } = parsePath(body.path);
    const regions = findRegions(services, body.region);
    const caller = {
      ...parseIp(body.ip, services.ipv6Prefix),
      ...(await completeCaller(database, body, now())),
      claims: body.claims,
    };
    const read = await readContent(database);
    const request = {
      matchPath,
      method: body.method,
      caller,
      nowMs: now(),
      seatId: noSeat,
      facts: factsOf(body),
    };
    const explanation = explain(read.content, request);
    const peeked = await peek({ regions, content: read.content, request, deadlineMs, leasedOf });
    const against = reasonsAgainst(explanation, read, matchPath);
    return c.json(
      {
        path,
        method: body.method,
        caller: {
          ip: caller.ip,
          userId: caller.userId ?? null,
          apiKeyId: caller.apiKeyId ?? null,
          tenantId: caller.tenantId ?? null,
          tier: explanation.tier ?? null,
        },
        region: body.region ?? null,
        enforcement: services.isLogOnly ? 'log' : (read.content.settings?.enforcement ?? 'on'),
        listed: explanation.listed ?? null,
        allowedBy: explanation.rules.filter(isAllowing).map(({ ruleId, name }) => ({ id: ruleId, name })),
        multipliedBy: explanation.rules
          .filter(isMultiplying)
          .map(({ ruleId, name, times }) => ({ id: ruleId, name, times })),
        applies: explanation.rules
          .filter(isApplying)
          .flatMap((rule) => toShown(rule, peeked, storedOf(rule, read.content, now()))),
        doesNotApply: against.slice(0, MAX_AGAINST),
        doesNotApplyCount: against.length,
      },
      200,
    );
  });
}

/** Facts about the rule itself that the explanation does not contain. */
function storedOf({ ruleId }: Applying, { rules, split }: StoredContent, nowMs: number) {
  const rule = rules.find(({ id: known }) => known === ruleId);
  return { action: rule?.action ?? 'reject', moving: movingOf(rule && movingUntilMs(rule, split, nowMs)) };
}

const movingOf = (untilMs: number | undefined) =>
  untilMs === undefined ? null : { until: Number.isFinite(untilMs) ? new Date(untilMs).toISOString() : null };

/** The facts of the described request beside its path and caller. */
function factsOf({ host = '', headers = {}, ...places }: z.infer<typeof explainBody>): RequestFacts {
  const byName = new Headers(headers);
  return { host: () => host, header: (name) => byName.get(name), place: (kind) => places[kind] ?? '' };
}

function toShown(
  { ruleId, name, limits, cost, subject, boundTimes }: Applying,
  peeked: ReadonlyMap<string, Peeked> | undefined,
  { action, moving }: ReturnType<typeof storedOf>,
) {
  return limits.map(({ limit, limitFrom, times, windowSeconds, window, policy }) => {
    const found = peeked?.get(outcomeName(ruleId, windowSeconds));
    const left = toLeft(found?.outcome);
    const bound = boundTimes === undefined ? null : limit * boundTimes;
    const counted = {
      limit,
      limitFrom,
      times: times ?? null,
      windowSeconds: found?.windowSeconds ?? windowSeconds,
      window,
      cost,
      subject,
      bound,
      left,
      leased: found?.leased ?? null,
    };
    return { id: ruleId, name, policy, action, ...counted, moving };
  });
}

export const toLeft = (outcome: Outcome | undefined) =>
  outcome
    ? {
        allowed: outcome.allowed,
        remaining: outcome.remaining,
        resetAt: new Date(outcome.resetAtMs).toISOString(),
        retryAfterMs: outcome.retryAfterMs ?? null,
      }
    : null;

function parsePath(text: string): { path: string; matchPath: string } {
  // Parses like the front door, so that a query and the changes of the URL parser have the same effect here.
  const url = URL.parse(`https://weir.invalid${text}`);
  const canonical = url ? canonicalPath(url.pathname) : { ok: false as const, reason: 'is not a path' };
  if (!canonical.ok) throw badField('bad-path', 'path', canonical.reason);
  if (isOwnPath(canonical.matchPath))
    throw badField('bad-path', 'path', `is under ${OWN_PREFIX}, which rules do not apply to`);
  return canonical;
}

const UNKNOWN = { ip: 'unknown', address: 'unknown' };

function parseIp(text: string | undefined, ipv6Prefix: number): { ip: string; address: string } {
  const counted = text === undefined ? UNKNOWN : countedIp(text, ipv6Prefix);
  if (!counted) throw badField('invalid-body', 'ip', 'must be an IPv4 or IPv6 address');
  return counted;
}

function findRegions({ regions }: AdminServices, name: string | undefined) {
  if (name === undefined) return regions;
  const found = regions.find((region) => region.name === name);
  if (found) return [found];
  throw badField(
    'invalid-body',
    'region',
    `must be one of ${regions.map((region) => region.name).join(', ')}`,
  );
}

const badField = (code: string, field: string, detail: string) =>
  new ProblemError({
    status: 400,
    code,
    title: code === 'bad-path' ? 'Ambiguous path' : 'The body is not valid',
    errors: [{ pointer: `#/${field}`, detail }],
  });
