// Resets the counters of a subject, for a caller that was limited by mistake.

import * as z from 'zod';
import { groupOf, subjectKey } from '../../core/counting/keys.ts';
import { countersFor, everyVariant, OTHER_METHOD } from '../../core/matching/compiled-rule.ts';
import { escaped, PART, parseSubjectField } from '../../core/matching/counted-by.ts';
import { countedIp, parseIpRange } from '../../core/matching/ip.ts';
import { BY } from '../../core/matching/plan.ts';
import { SCOPES, type Scope } from '../../core/matching/rule.ts';
import type { PublishedRule, SnapshotContent } from '../../core/matching/snapshot.ts';
import { ProblemError } from '../../http/internal-requests.ts';
import { readContent } from '../../rules/publishing/content.ts';
import type { AdminApp, AdminServices } from '../app.ts';
import { isUuid } from '../collection/declaration.ts';
import { addOperation } from '../operation.ts';
import { publishChange } from '../publish-change.ts';

/** `unknown` stands for callers without an address from Cloudflare. */
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
      .describe('The id of the tenant, user or key; or the IP address. Required unless the scope is global.'),
    values: z
      .record(
        z.string().regex(PART, 'must be what a rule counts `by`, such as header:X-Model'),
        z.string().max(1024),
      )
      .default({})
      .describe(
        'The values of parts that rules count `by` besides the subject: {"header:X-Model": "large"}.',
      ),
  })
  .superRefine(({ scope, subject }, context) => {
    const message = subjectProblem(scope, subject);
    if (message) context.addIssue({ code: 'custom', path: ['subject'], message });
  })
  .meta({ id: 'CounterReset' });

const resetResult = z
  .strictObject({
    scope: z.enum(SCOPES),
    subject: z.string().describe('In the form in which it is counted: IPv6 by its prefix.'),
    regions: z.array(z.strictObject({ name: z.string(), reset: z.boolean() })),
    warnings: z.array(z.string()),
  })
  .meta({ id: 'CounterResetResult' });

const NOT_TOLD = 'isolates could not be told: those that remember a denial may deny until its retry time';

export function addCounterRoutes(app: AdminApp, services: AdminServices): void {
  addOperation(
    app,
    {
      id: 'resetCounters',
      call: 'POST /counters/reset',
      group: 'operations',
      summary: 'Reset the counters of a subject, in every region',
      body: resetBody,
      says: 'Reset in regions where `reset` is true',
      answer: resetResult,
    },
    async ({ body: { scope, subject: given, values } }) => {
      const subject = countedSubject(scope, services.ipv6Prefix, given);
      const { content } = await readContent(services.database, services.now());
      const { keys, untold } = await keysOf({ scope, subject, values }, content);
      const regions = await Promise.all(
        services.regions.map(async ({ name, store }) => {
          const done = store.reset([...new Set(keys)], AbortSignal.timeout(services.deadlineMs));
          return {
            name,
            reset: await done.then(
              () => true,
              () => false,
            ),
          };
        }),
      );
      if (!regions.some((region) => region.reset)) throw UNAVAILABLE;
      // Publishes a new announcement, because isolates remember denials.
      const { version } = await publishChange(services, []);
      const warnings = [...untold.map(notForgotten), ...(version === undefined ? [NOT_TOLD] : [])];
      return { scope, subject, regions, warnings };
    },
  );
}

/** The subject as the gateway counts it. A text that is no address stays as it is: a counted prefix, or `unknown`. */
function countedSubject(scope: Scope, ipv6Prefix: number, subject = ''): string {
  if (scope === 'global') return 'all';
  // Postgres writes the ids of keys so.
  if (scope === 'apiKey') return subject.toLowerCase();
  return scope === 'ip' ? (countedIp(subject, ipv6Prefix)?.ip ?? subject) : subject;
}

interface ResetSubject {
  readonly scope: Scope;
  readonly subject: string;
  /** The values of the parts that rules count `by`. */
  readonly values: Readonly<Record<string, string>>;
}

/** Rules of other scopes count the IP of callers that have no id of their kind. */
async function keysOf(forgotten: ResetSubject, { rules }: SnapshotContent) {
  const { scope, subject } = forgotten;
  const counting = rules.filter((rule) => (scope === 'ip' ? rule.scope !== 'global' : rule.scope === scope));
  const parted = counting.filter(({ by }) => by.length > 0);
  const wanted = [
    subjectKey(scope, subject),
    ...counting.flatMap((rule) => groupsOf(rule).map((group) => subjectKey(scope, subject, group))),
    ...parted.flatMap((rule) => {
      const parts = partsOf(rule.by, forgotten);
      return parts === undefined ? [] : groupsOf(rule).map((group) => subjectKey(BY, parts, group));
    }),
  ];
  const untold = parted.filter(({ by }) => partsOf(by, forgotten) === undefined);
  return { keys: await Promise.all(wanted), untold };
}

/** The groups of all counters that a rule can have: for each route and method, and for bounds. */
function groupsOf(rule: PublishedRule): string[] {
  const known = everyVariant(rule);
  const others = known.filter(({ method }) => method).map((one) => ({ ...one, method: OTHER_METHOD }));
  const counters = [...known, ...others].flatMap((variant) => countersFor(rule, variant));
  return counters.map(groupOf);
}

/** The text that `subjectBy` makes from a request; undefined if a value is missing. */
function partsOf(by: readonly string[], { scope, subject, values }: ResetSubject): string | undefined {
  const told = new Map(Object.entries(values).map(([part, value]) => [nameOf(part), escaped(value.trim())]));
  const own = escaped(subject);
  if (scope !== 'global') told.set(scope, own);
  const texts = by.map((part) => {
    const name = nameOf(part);
    // A caller without the id of a part is counted by its IP there.
    if (name === 'ip' || (scope === 'ip' && IS_ID.test(name))) return withIp(told.get('ip'));
    return told.get(name);
  });
  return texts.includes(undefined) ? undefined : texts.join('/');
}

const IS_ID = /^(user|apiKey|tenant|claim:.*)$/;
const withIp = (ip: string | undefined) => (ip === undefined ? undefined : `@${ip}`);

/** Writes names of headers in lower case. */
function nameOf(part: string): string {
  const { kind, name } = parseSubjectField(part);
  return `${kind}:${name}`.replace(/:$/, '');
}

const notForgotten = ({ name, by }: PublishedRule): string =>
  `"${name}" counts by ${by.join(', ')}: what it counted is forgotten only for \`values\` that name all of these`;

const UNAVAILABLE = new ProblemError({
  status: 503,
  code: 'counters-unavailable',
  title: 'No region answers',
  detail: 'Nothing was forgotten, as far as Weir knows.',
});
