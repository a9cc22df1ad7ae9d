// The body and the answer of `explain`.
import * as z from 'zod';
import { CALENDAR_WINDOWS } from '../../core/matching/calendar.ts';
import { REASONS_AGAINST } from '../../core/matching/explain.ts';
import { ACTIONS, LISTS, SCOPES } from '../../core/matching/rule.ts';
import { ENFORCEMENTS } from '../../core/matching/settings.ts';

/** The most rules shown that do not apply: enough to find the expected one. */
export const MAX_AGAINST = 1_000;

const id = z.string().min(1).max(256);

export const explainBody = z
  .strictObject({
    method: z
      .string()
      .regex(/^[A-Z]{1,20}$/, 'must be upper-case letters')
      .default('GET'),
    path: z.string().startsWith('/').max(8192).describe('As a client would send it.'),
    ip: z.string().max(64).optional(),
    userId: id.optional(),
    apiKeyId: z.guid().optional(),
    apiKey: z
      .string()
      .min(1)
      .max(256)
      .optional()
      .describe(
        'The key itself, in place of its id. It is looked up by its hash, and never logged or shown.',
      ),
    tenantId: id.optional().describe('Left out: that of the key or user.'),
    tier: z.string().max(63).optional().describe('Left out: that of the key, user or tenant.'),
    host: z.string().max(253).toLowerCase().optional().describe('For rules and routes of some hosts.'),
    headers: z
      .record(z.string().regex(/^[A-Za-z0-9-]{1,64}$/), z.string().regex(/^[\x20-\x7e]{0,1024}$/))
      .optional()
      .describe('Those that rules count by.'),
    claims: z
      .record(z.string().max(64), z.string().max(256))
      .optional()
      .describe('Of the token, if rules count by them.'),
    country: z.string().max(8).optional(),
    asn: z.string().max(16).optional(),
    colo: z.string().max(8).optional(),
    region: z.string().max(32).optional().describe('Left out: all of them together.'),
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
  retryAfterMs: z.int().nullable().describe('Null: no wait will ever help.'),
});

export const explanationBody = z
  .strictObject({
    path: z.string().describe('The canonical form, as rules and the origin see it.'),
    method: z.string(),
    caller: z.strictObject({
      ip: z.string().describe('As it is counted.'),
      userId: z.string().nullable(),
      apiKeyId: z.string().nullable(),
      tenantId: z.string().nullable(),
      tier: z.string().nullable(),
    }),
    region: z.string().nullable().describe('Null: all of them together.'),
    enforcement: z
      .enum(ENFORCEMENTS)
      .describe('log: rules only record what they would have done; the settings or a variable say so.'),
    listed: z.enum(LISTS).nullable().describe('The list that the caller is on: rules do not matter then.'),
    allowedBy: z
      .array(z.strictObject({ id: z.string(), name: z.string() }))
      .describe('Rules with the action allow: they count nothing and put broader ones aside.'),
    multipliedBy: z
      .array(z.strictObject({ id: z.string(), name: z.string(), times: z.number() }))
      .describe(
        'Rules with the action multiply: limits of their scope and resource are so many times as large.',
      ),
    applies: z
      .array(
        z.strictObject({
          id: z.string(),
          name: z.string(),
          policy: z.string().describe('The name of this limit that clients read.'),
          action: z.enum(ACTIONS).describe('log: the rule denies nobody, and only records.'),
          limit: z.int(),
          limitFrom: z.enum(['rule', 'tier']),
          times: z.number().nullable().describe('What it is multiplied by; null: nothing.'),
          windowSeconds: z
            .int()
            .describe('Of a calendar window: how long it is now, if the counters answer.'),
          window: z
            .enum(CALENDAR_WINDOWS)
            .nullable()
            .describe('Of the calendar; null: aligned to the epoch.'),
          cost: z.int().describe('What the request takes of it.'),
          subject: z
            .strictObject({ scope: z.enum([...SCOPES, 'by']), id: z.string() })
            .describe(
              'Who is counted: the IP, if the caller has no id of the rule’s scope. Of a rule that counts `by` parts, their ' +
                'values, with a slash between two of them; @ and the IP for an id that the caller does not have.',
            ),
          bound: z
            .int()
            .nullable()
            .describe(
              'What all values that a client chooses may use together; null: the client chooses none.',
            ),
          left: left.nullable().describe('Null: the counters did not answer, or the caller is on a list.'),
          leased: z
            .int()
            .nullable()
            .describe(
              'Units that the isolate that answers has charged in advance and not used: they are not in `remaining`. ' +
                'Null: this limit is never leased, or the caller is on a list.',
            ),
          moving: z
            .strictObject({ until: z.iso.datetime().nullable() })
            .nullable()
            .describe(
              'It is counted in other regions than before: until then (null: until every region has been told) a caller ' +
                'in several regions at once may get less than the limit.',
            ),
        }),
      )
      .describe('One for each limit: a rule can have several.'),
    doesNotApply: z.array(
      z.strictObject({
        id: z.string(),
        name: z.string(),
        reason: z.enum([...REASONS_AGAINST, 'rejected']),
        detail: z.string(),
      }),
    ),
    doesNotApplyCount: z.int().describe(`Of all of them; at most ${MAX_AGAINST} are shown.`),
  })
  .meta({ id: 'Explanation' });
