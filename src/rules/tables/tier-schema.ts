// The schema of a tier, derived from its table.
import { createInsertSchema } from 'drizzle-zod';
import * as z from 'zod';
import { LARGEST_LIMIT, MAX_TIMES } from '../../core/matching/rule.ts';
import { plainText } from './plain-text.ts';
import { tiers } from './schema.ts';

export const tierName = z
  .string()
  .regex(/^[a-z0-9][a-z0-9-]{0,62}$/, 'must be lower-case letters, digits and hyphens, at most 63')
  .describe('Unique; never changes.');

export const tierFields = createInsertSchema(tiers, {
  displayName: plainText(128),
  priceCents: z.int32().min(0).describe('The price of a month, in cents.'),
  limits: z
    .record(
      z.string().min(1).max(64),
      z.union([
        z.int().min(1).max(LARGEST_LIMIT),
        z.strictObject({ times: z.int().min(1).max(MAX_TIMES), of: z.string().min(1).max(63) }),
        z.null(),
      ]),
    )
    .describe(
      'Limits by name, for the limitName of rules. Null means unlimited; { times, of } is a multiple of that of another tier.',
    ),
  isDefault: z
    .boolean()
    .describe(
      'Whether callers without a tier have this one. Setting it makes the former default tier an ordinary one.',
    ),
}).pick({ displayName: true, priceCents: true, limits: true, isDefault: true });
