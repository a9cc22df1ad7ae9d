// The bodies of the admin route, derived from the tables: what people may write into each table, and what they see of
// it.
import * as z from 'zod';
import {
  type BodySchemas,
  bodySchemas,
  identifier,
  moment,
  plainText,
  type Values,
} from '../authoring/bodies.ts';
import { inNumbers } from '../authoring/rate.ts';
import { checkRoute, normalizeRoute, ROUTE_FIELD_DEFAULTS, routeFields } from '../authoring/route-schema.ts';
import { checkRule } from '../authoring/rule-problems.ts';
import { ruleFields, WRITTEN_DEFAULTS, writtenLimits } from '../authoring/rule-schema.ts';
import { namedLimits, tierFields, tierName } from '../authoring/tier-schema.ts';
import { algorithmByDefault } from '../core/matching/flat-rule.ts';
import { formatIpRange, ipRangeProblem, parseIpRange } from '../core/matching/ip.ts';
import { LISTED_KINDS, LISTS } from '../core/matching/rule.ts';
import { ENFORCEMENTS, FILE_EXTENSIONS } from '../core/matching/snapshot.ts';
import { canBeKey, prefixOfHash, WHAT_CAN_BE_KEY } from '../identity/api-key.ts';

const tierOf = z.string().max(63).nullable().describe('The name of a tier. Null means the default tier.');
const tenantOf = identifier.nullable().describe('The id of a tenant.');
const documentId = (noun: string) =>
  z.guid().toLowerCase().optional().describe(`Without an id, the name identifies the ${noun}.`);
const expiresAt = moment.nullable().describe('From then on it has no effect. Null if it never expires.');

export const ruleBodies: BodySchemas = bodySchemas({
  name: 'Rule',
  shownId: z.uuid(),
  fields: ruleFields.required().shape,
  written: { fields: writtenLimits, read: inNumbers },
  defaults: { ...WRITTEN_DEFAULTS, algorithm: algorithmByDefault },
  madeUp: ['name'],
  inDocument: { id: documentId('rule'), name: ruleFields.shape.name },
  check: checkRule,
});

export const routeBodies: BodySchemas = bodySchemas({
  name: 'Route',
  shownId: z.uuid(),
  fields: routeFields.required().shape,
  defaults: ROUTE_FIELD_DEFAULTS,
  madeUp: ['name'],
  inDocument: { id: documentId('route'), name: routeFields.required().shape.name },
  check: checkRoute,
  normalize: normalizeRoute,
});

export const tierBodies: BodySchemas = bodySchemas({
  name: 'Tier',
  writtenId: { name: tierName },
  fields: tierFields.shape,
  defaults: { displayName: '', priceCents: 0, limits: {}, isDefault: false },
});

export const tenantBodies: BodySchemas = bodySchemas({
  name: 'Tenant',
  writtenId: { id: identifier },
  fields: {
    name: plainText(128),
    tier: tierOf,
    anchorDay: z
      .int()
      .min(1)
      .max(31)
      .nullable()
      .describe(
        'The day on which its months begin, in rules of scope tenant with a window of a month. Null means the first.',
      ),
    limits: namedLimits.describe(
      'Limits of its own by name, for the limitName of rules: for all its callers, before those of tiers. Null means ' +
        'unlimited; { times, of } is a multiple of that of a tier.',
    ),
  },
  defaults: { name: '', tier: null, anchorDay: null, limits: {} },
});

export const userBodies: BodySchemas = bodySchemas({
  name: 'User',
  writtenId: { id: identifier.describe('The id in the subject of the JWT.') },
  fields: { tier: tierOf, tenantId: tenantOf },
  defaults: { tier: null, tenantId: null },
});

const prefix = z
  .string()
  .describe(
    'The first characters of the key; of a key of your own, sha256: and the first digits of its hash.',
  );

export const sha256 = z
  .string()
  .toLowerCase()
  .regex(/^[0-9a-f]{64}$/, 'must be a SHA-256 in 64 hexadecimal digits');

const keyFields = {
  name: plainText(128).describe('For people; Weir does not use it.'),
  userId: identifier.nullable().describe('The user that it belongs to.'),
  tenantId: tenantOf,
  tier: tierOf,
  expiresAt,
  disabled: z.boolean().describe('Weir treats a disabled key as unknown.'),
};

/** A key of many that are imported at once. */
export const importedKey = z
  .strictObject({
    sha256: sha256.describe('The hash of the key.'),
    ...z.strictObject(keyFields).partial().shape,
  })
  .meta({ id: 'ImportedKey' });

export const keyBodies: BodySchemas = bodySchemas({
  name: 'ApiKey',
  shownId: z.uuid(),
  fields: keyFields,
  defaults: { name: '', userId: null, tenantId: null, tier: null, expiresAt: null, disabled: false },
  shown: { prefix },
  atCreation: {
    key: z
      .string()
      .refine(canBeKey, WHAT_CAN_BE_KEY)
      .optional()
      .describe(
        'A key that your clients have already. Weir hashes it at once, and never stores or shows it.',
      ),
    sha256: sha256.optional().describe('The hash of such a key, instead of the key.'),
  },
  inDocument: {
    id: z.uuid(),
    hash: sha256.describe('The hash of the key. Weir does not store the key itself.'),
    prefix: prefix.optional(),
  },
  shownOnce: {
    key: z
      .string()
      .optional()
      .describe(
        'The key that Weir has made. It shows the key only once, and stores only its hash. Absent if you gave one.',
      ),
  },
  check({ key, sha256 }: Values, context) {
    if (key === undefined || sha256 === undefined) return;
    const message = 'cannot go with key: one of them is enough';
    context.addIssue({ code: 'custom', path: ['sha256'], message, input: sha256 });
  },
  // Entries of documents have a hash.
  normalize: (entry: Values) =>
    typeof entry['hash'] === 'string' ? { prefix: prefixOfHash(entry['hash']), ...entry } : entry,
});

export const listBodies: BodySchemas = bodySchemas({
  name: 'ListEntry',
  shownId: z.uuid(),
  fields: {
    list: z.enum(LISTS).describe('The deny list wins over the allow list.'),
    kind: z.enum(LISTED_KINDS),
    value: identifier.describe('An IP address or a CIDR range; or the id of an API key, user or tenant.'),
    reason: z.string().max(1024).describe('For people; Weir does not use it.'),
    expiresAt,
  },
  defaults: { reason: '', expiresAt: null },
  check({ kind, value }, context) {
    const problem =
      kind === 'ip' ? ipRangeProblem(value) : kind === 'apiKey' ? keyIdProblem(value) : undefined;
    if (problem) context.addIssue({ code: 'custom', path: ['value'], message: problem, input: value });
  },
  normalize: (entry) => ({ ...entry, value: normalizeListed(entry.kind, entry.value) }),
});

/** The one spelling of a listed value. */
export function normalizeListed(kind: (typeof LISTED_KINDS)[number], value: string): string {
  const range = kind === 'ip' ? parseIpRange(value) : undefined;
  if (range) return formatIpRange(range);
  return kind === 'apiKey' ? value.toLowerCase() : value;
}

const keyIdProblem = (value: string) =>
  z.uuid().safeParse(value).success ? undefined : 'must be the id of an API key, not the key itself';

export const settingsFields = {
  enforcement: z
    .enum(ENFORCEMENTS)
    .describe('With log, every rule only records what it would have done. Lists still hold.'),
  fileExtensions: z
    .enum(FILE_EXTENSIONS)
    .describe('ignored: rules for /login also hold for /login.json. part: /login.json is another name.'),
};
