// "Why is this request limited?": which rules apply to it, which do not, and why. It reads the rules from Postgres, so
// it also shows changes that are not in force yet.
import { createRoute } from '@hono/zod-openapi';
import type * as z from 'zod';
import type { Outcome } from '../../core/counting/check.ts';
import { canonicalPath } from '../../core/matching/canonical-path.ts';
import type { RequestFacts } from '../../core/matching/counted-by.ts';
import { explain } from '../../core/matching/explain.ts';
import { countedIp } from '../../core/matching/ip.ts';
import { isOwnPath, OWN_PREFIX } from '../../core/matching/resource.ts';
import { movingUntilMs } from '../../core/regions/placement.ts';
import { readContent, type StoredContent } from '../../rules/publishing/content.ts';
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
import { AdminError, problemResponses } from '../problems.ts';
import type { AdminApp, AdminServices } from '../services.ts';
import { explainBody, explanationBody, MAX_AGAINST } from './explain-schemas.ts';

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
  new AdminError({
    status: 400,
    code,
    title: code === 'bad-path' ? 'Ambiguous path' : 'The body is not valid',
    errors: [{ pointer: `#/${field}`, detail }],
  });
