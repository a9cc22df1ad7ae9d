// All collections of the admin route. A new one is a declaration here.

import { eq, inArray, sql } from 'drizzle-orm';
import * as z from 'zod';
import type { Values } from '../authoring/bodies.ts';
import { normalizeHost } from '../authoring/route-schema.ts';
import { unknownRegions } from '../authoring/rule-problems.ts';
import { ALGORITHM_IDS } from '../core/counting/algorithms/registry.ts';
import { originProblemHere } from '../core/matching/origin-routes.ts';
import { LISTED_KINDS, LISTS, RULE_SCOPES, type SharesByRegion } from '../core/matching/rule.ts';
import { invalidBody } from '../http/internal-requests.ts';
import {
  API_KEY_RANDOM_BYTES,
  createApiKey,
  hasFormOfWeir,
  hashApiKey,
  isWellFormedKey,
  prefixOf,
  prefixOfHash,
} from '../identity/api-key.ts';
import {
  bytesOfListEntry,
  bytesOfRoute,
  bytesOfRule,
  bytesOfTenant,
  bytesOfTier,
} from '../rules/publishing/snapshot-size.ts';
import { apiKeys, listEntries, routes, rules, tenants, tiers, users } from '../rules/tables/tables.ts';
import type { AdminServices } from './app.ts';
import {
  beginsAlike,
  type Collection,
  type Creation,
  contains,
  equals,
  expectFuture,
  filter,
  isOn,
  type MissingRow,
} from './collection/declaration.ts';
import {
  keyBodies,
  listBodies,
  normalizeListed,
  routeBodies,
  ruleBodies,
  sha256,
  tenantBodies,
  tierBodies,
  userBodies,
} from './schemas.ts';

/** A document of 10 MiB has far fewer entries. */
const MANY_ENTRIES = 100_000;

/** What is limited, and how. */
export const RULES: Collection = {
  path: 'rules',
  noun: 'rule',
  bodies: ruleBodies,
  table: rules,
  id: rules.id,
  bytesOf: bytesOfRule,
  // In the order of creation, which cannot change between two pages. A priority can.
  order: [rules.ordinal, rules.id],
  filters: {
    scope: equals(rules.scope, z.enum(RULE_SCOPES)),
    algorithm: equals(rules.algorithm, z.enum(ALGORITHM_IDS)),
    enabled: isOn(rules.enabled),
    resource: filter(
      'The exact text.',
      (resource) => sql`(${rules.resource} = ${resource} or ${resource} = any(${rules.resources}))`,
    ),
    tier: filter('Rules that name this tier.', (tier) => sql`${tier} = any(${rules.tiers})`),
    tenant: filter('Rules that name this tenant.', (tenant) => sql`${tenant} = any(${rules.tenants})`),
    q: contains('the name', rules.name),
  },
  fits: {
    field: 'shares',
    errors: (shares, { regions }) =>
      unknownRegions(
        shares as SharesByRegion | null | undefined,
        regions.map(({ name }) => name),
      ).map(({ pointer, detail }) => ({ pointer: `/${pointer}`, detail })),
  },
  concerns: 'itself',
  inDocuments: { mostEntries: 20_000, unique: [{ field: 'name' }], keeps: ['ordinal', 'createdAt'] },
};

/** Which origin the requests of a host and a resource go to. */
export const ROUTES: Collection = {
  path: 'routes',
  noun: 'route',
  bodies: routeBodies,
  table: routes,
  id: routes.id,
  bytesOf: bytesOfRoute,
  order: [routes.createdAt, routes.id],
  filters: {
    host: filter('The exact text; upper and lower case are the same.', (host) =>
      eq(routes.host, normalizeHost(host)),
    ),
    origin: equals(routes.origin, 'The exact text.'),
    enabled: isOn(routes.enabled),
    q: contains('the name', routes.name),
  },
  fits: {
    field: 'origin',
    errors(origin, { origins }) {
      const detail = typeof origin === 'string' ? originProblemHere(origin, origins) : undefined;
      return detail === undefined ? [] : [{ pointer: '/origin', detail }];
    },
  },
  concerns: 'itself',
  inDocuments: {
    mostEntries: 1_000,
    unique: [
      { field: 'name' },
      {
        field: 'resource',
        of: ({ enabled, host, resource }) => (enabled === false ? undefined : `${host}${resource}`),
        error: 'is that of another route of this host, which is switched on',
      },
    ],
    keeps: ['createdAt'],
  },
};

/** What callers pay for. A tier has named limits, which rules can use. */
export const TIERS: Collection = {
  path: 'tiers',
  noun: 'tier',
  bodies: tierBodies,
  table: tiers,
  id: tiers.name,
  bytesOf: bytesOfTier,
  order: [tiers.name],
  filters: {},
  concerns: 'all',
  inDocuments: {
    mostEntries: 1_000,
    unique: [
      {
        field: 'isDefault',
        of: ({ isDefault }) => (isDefault === true ? 'default' : undefined),
        error: 'is set for another tier already: there can be one default',
      },
    ],
  },
};

/** Customers whose users and keys are counted together by rules of the scope `tenant`. */
const TENANTS: Collection = {
  path: 'tenants',
  noun: 'tenant',
  bodies: tenantBodies,
  table: tenants,
  id: tenants.id,
  bytesOf: bytesOfTenant,
  order: [tenants.id],
  filters: {
    tier: equals(tenants.tier),
    q: contains('the id or the name', tenants.id, tenants.name),
  },
  concerns: 'itself',
  inDocuments: { mostEntries: MANY_ENTRIES },
};

/** Users whose tier or tenant is not the default one. */
const USERS: Collection = {
  path: 'users',
  noun: 'user',
  bodies: userBodies,
  table: users,
  id: users.id,
  order: [users.id],
  filters: {
    tier: equals(users.tier),
    tenantId: equals(users.tenantId),
    q: contains('the id', users.id),
  },
  inDocuments: { mostEntries: MANY_ENTRIES },
};

/** API keys. Weir shows a key that it makes once, in the answer to its creation, and later only its beginning. */
const KEYS: Collection = {
  path: 'keys',
  noun: 'key',
  bodies: keyBodies,
  table: apiKeys,
  id: apiKeys.id,
  order: [apiKeys.createdAt, apiKeys.id],
  filters: {
    userId: equals(apiKeys.userId),
    tenantId: equals(apiKeys.tenantId),
    tier: equals(apiKeys.tier),
    prefix: beginsAlike(
      apiKeys.prefix,
      'The first characters of the key. It may be more characters than Weir keeps.',
    ),
    sha256: filter(sha256.describe('The hash of the key.'), (hash) => eq(apiKeys.hash, hash.toLowerCase())),
    q: contains(
      'the name, of the kept characters of the key, or of the id of the user or tenant',
      ...[apiKeys.name, apiKeys.prefix, apiKeys.userId, apiKeys.tenantId],
    ),
  },
  async prepare(values, nowMs): Promise<Creation> {
    expectFuture(values, nowMs);
    const { key, sha256, ...others } = values;
    if (typeof key === 'string') return { values: { ...others, ...(await storedOf(key)) } };
    if (typeof sha256 === 'string')
      return { values: { ...others, hash: sha256, prefix: prefixOfHash(sha256) } };
    const made = await createApiKey(crypto.getRandomValues(new Uint8Array(API_KEY_RANDOM_BYTES)));
    return { values: { ...others, ...(await storedOf(made)) }, shownOnce: { key: made } };
  },
  addMissing: missingUser,
  inDocuments: { mostEntries: MANY_ENTRIES },
};

/** What Weir stores of a key. It may come from another Weir. */
async function storedOf(key: string): Promise<Values> {
  const hash = await hashApiKey(key);
  if (await isWellFormedKey(key)) return { hash, prefix: prefixOf(key) };
  if (!hasFormOfWeir(key)) return { hash, prefix: prefixOfHash(hash) };
  throw invalidBody([{ pointer: '#/key', detail: 'begins like a key of Weir, and has a mistake in it' }]);
}

/** If the user of a new key does not exist, creates it, so that it can get a tier or tenant. */
async function missingUser({ userId }: Values, { database }: AdminServices): Promise<MissingRow | undefined> {
  if (typeof userId !== 'string') return undefined;
  const [known] = await database.select({ id: users.id }).from(users).where(eq(users.id, userId));
  if (known) return undefined;
  return {
    statement: sql`insert into ${users} (id) values (${userId}) on conflict do nothing`,
    warning: `there was no user ${userId}: it was created, without a tier and a tenant`,
  };
}

/** The allow and deny lists. */
export const LIST_ENTRIES: Collection = {
  path: 'lists',
  noun: 'list entry',
  bodies: listBodies,
  table: listEntries,
  id: listEntries.id,
  bytesOf: bytesOfListEntry,
  order: [listEntries.createdAt, listEntries.id],
  filters: {
    list: equals(listEntries.list, z.enum(LISTS)),
    kind: equals(listEntries.kind, z.enum(LISTED_KINDS)),
    value: filter('The same address or range, in any spelling; or the same id.', (value) =>
      inArray(listEntries.value, [value, ...LISTED_KINDS.map((kind) => normalizeListed(kind, value))]),
    ),
  },
  prepare(values, nowMs) {
    expectFuture(values, nowMs);
    return { values };
  },
  inDocuments: {
    mostEntries: MANY_ENTRIES,
    key: [listEntries.list, listEntries.kind, listEntries.value],
  },
};

/** Those that an import compares row by row, and an export always has. */
export const PLANNED = [TIERS, RULES, ROUTES] as const;
/** Those of a full export, of which there can be many. Each refers only to those before it, and to tiers. */
export const CALLERS = [TENANTS, USERS, KEYS, LIST_ENTRIES] as const;
export const COLLECTIONS: readonly Collection[] = [...[RULES, TIERS, ...CALLERS, ROUTES]];
