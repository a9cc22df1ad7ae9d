// Forgets what was counted of a subject: for a caller that was limited by mistake.
import { createRoute } from '@hono/zod-openapi';
import * as z from 'zod';
import { groupOf, subjectKey } from '../../core/counting/keys.ts';
import { countersOf } from '../../core/matching/compiled-rule.ts';
import { countedIp, parseIpRange } from '../../core/matching/ip.ts';
import { SCOPES, type Scope } from '../../core/matching/rule.ts';
import type { SnapshotContent } from '../../core/matching/snapshot.ts';
import { readContent } from '../../rules/publishing/content.ts';
import { isUuid } from '../collection/declaration.ts';
import { AdminError, problemResponses } from '../problems.ts';
import { publishChange } from '../publish-change.ts';
import type { AdminApp, AdminServices } from '../services.ts';

/** `unknown` is whom Cloudflare has named no address of. */
export const isCountedIp = (subject: string) =>
  subject === 'unknown' || countedIp(subject) !== undefined || isIpv6Prefix(subject);

const isIpv6Prefix = (subject: string) =>
  subject.includes(':') && subject.includes('/') && parseIpRange(subject) !== undefined;

function subjectProblem(scope: Scope, subject: string | undefined): string | undefined {
  if (scope === 'global') return undefined;
  if (subject === undefined) return 'is needed';
  if (scope === 'ip' && !isCountedIp(subject))
    return 'must be an IP address, or an IPv6 prefix as it is counted';
  return scope === 'apiKey' && !isUuid(subject) ? 'must be the id of a key, not the key' : undefined;
}

const resetBody = z
  .strictObject({
    scope: z.enum(SCOPES),
    subject: z
      .string()
      .min(1)
      .max(256)
      .optional()
      .describe('The id of the tenant, user or key; or the IP address. Needed unless the scope is global.'),
  })
  .superRefine(({ scope, subject }, context) => {
    const message = subjectProblem(scope, subject);
    if (message) context.addIssue({ code: 'custom', path: ['subject'], message });
  })
  .meta({ id: 'CounterReset' });

const resetResult = z
  .strictObject({
    scope: z.enum(SCOPES),
    subject: z.string().describe('As it is counted: IPv6 by its prefix.'),
    regions: z.array(z.strictObject({ name: z.string(), reset: z.boolean() })),
    warnings: z.array(z.string()),
  })
  .meta({ id: 'CounterResetResult' });

const NOT_TOLD = 'isolates could not be told: those that remember a denial may deny until its retry time';

const resetCounters = createRoute({
  method: 'post',
  path: '/counters/reset',
  tags: ['operations'],
  security: [{ bearer: [] }],
  summary: 'Forget all that was counted of a subject, in every region',
  request: { body: { required: true, content: { 'application/json': { schema: resetBody } } } },
  responses: {
    200: {
      description: 'Forgotten where `reset` is true',
      content: { 'application/json': { schema: resetResult } },
    },
    ...problemResponses(400, 413, 415),
  },
});

export function addCounterRoutes(app: AdminApp, services: AdminServices): void {
  app.openapi(resetCounters, async (c) => {
    const { scope, subject: given } = c.req.valid('json');
    const subject = countedSubject(scope, services.ipv6Prefix, given);
    const { content } = await readContent(services.database);
    const keys = await keysOf(scope, subject, content);
    const regions = await Promise.all(
      services.regions.map((region) => reset(region, keys, services.deadlineMs)),
    );
    if (!regions.some((region) => region.reset)) throw unavailable();
    // A new announcement, because isolates remember whom they have denied.
    const { version } = await publishChange(services, []);
    return c.json({ scope, subject, regions, warnings: version === undefined ? [NOT_TOLD] : [] }, 200);
  });
}

/** As the gateway counts it. What is no address is taken as it is: it may be a counted prefix, or `unknown`. */
function countedSubject(scope: Scope, ipv6Prefix: number, subject = ''): string {
  if (scope === 'global') return 'all';
  return scope === 'ip' ? (countedIp(subject, ipv6Prefix)?.ip ?? subject) : subject;
}

/** Rules of other scopes count the IP of callers that have no id of their kind. */
async function keysOf(scope: Scope, subject: string, { rules }: SnapshotContent): Promise<string[]> {
  const counting = rules.filter((rule) => (scope === 'ip' ? rule.scope !== 'global' : rule.scope === scope));
  const counters = counting.flatMap(countersOf);
  const groups = new Set(counters.map((rule) => groupOf(rule.algorithm, rule.counterId, rule.ordinal)));
  return Promise.all(['', ...groups].map((group) => subjectKey(scope, subject, group)));
}

async function reset(
  { name, store }: AdminServices['regions'][number],
  keys: readonly string[],
  deadlineMs: number,
): Promise<{ name: string; reset: boolean }> {
  try {
    await store.reset([...new Set(keys)], AbortSignal.timeout(deadlineMs));
    return { name, reset: true };
  } catch {
    return { name, reset: false };
  }
}

const unavailable = () =>
  new AdminError({
    status: 503,
    code: 'counters-unavailable',
    title: 'No region answers',
    detail: 'Nothing was forgotten, as far as Weir knows.',
  });
