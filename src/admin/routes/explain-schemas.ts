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
