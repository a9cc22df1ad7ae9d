// API keys. Weir shows a key once, in the answer to its creation, and later only its beginning.

import { eq, inArray, sql } from 'drizzle-orm';
import * as z from 'zod';
import type { Values } from '../../authoring/bodies.ts';
import { LISTED_KINDS, LISTS } from '../../core/matching/rule.ts';
import { API_KEY_RANDOM_BYTES, createApiKey, hashApiKey, prefixOf } from '../../identity/api-key.ts';
import { bytesOfListEntry, bytesOfTier } from '../../rules/publishing/snapshot-size.ts';
import type { Database } from '../../rules/tables/repository.ts';
import { apiKeys, listEntries, tenants, tiers, users } from '../../rules/tables/tables.ts';
import { addCollection } from '../collection/collection.ts';
import {
  type Brought,
  beginsAlike,
  type Creation,
  contains,
  containsAny,
  equals,
  expectFuture,
  isPlainId,
  isUuid,
} from '../collection/declaration.ts';
import { keyBodies, listBodies, normalizeListed, tenantBodies, tierBodies, userBodies } from '../schemas.ts';
import type { AddRoutes } from './index.ts';

export const addKeyRoutes: AddRoutes = (app, services) =>
  addCollection(app, services, {
    path: 'keys',
    noun: 'key',
    bodies: keyBodies,
    table: apiKeys,
    id: apiKeys.id,
    idField: 'id',
    isId: isUuid,
    order: [apiKeys.createdAt, apiKeys.id],
    filters: {
      userId: z.string().optional(),
      tenantId: z.string().optional(),
      tier: z.string().optional(),
      prefix: z
        .string()
        .optional()
        .describe('The first characters of the key. It may be more characters than Weir keeps.'),
      q: z
        .string()
        .max(256)
        .optional()
        .describe(
          'A part of the name, of the kept characters of the key, or of the id of the user or tenant; upper and lower case are the same.',
        ),
    },
    where: ({ userId, tenantId, tier, prefix, q }) => [
      equals(apiKeys.userId, userId),
      equals(apiKeys.tenantId, tenantId),
      equals(apiKeys.tier, tier),
      beginsAlike(apiKeys.prefix, prefix),
      containsAny([apiKeys.name, apiKeys.prefix, apiKeys.userId, apiKeys.tenantId], q),
    ],
    prepare(values) {
      expectFuture(values, services.now());
      return addKey(values);
    },
    bring: ({ userId }) => missingUser(services.database, userId),
  });

/** If the user of a new key does not exist, creates it, so that it can get a tier or tenant. */
async function missingUser(database: Database, userId: unknown): Promise<Brought | undefined> {
  if (typeof userId !== 'string') return undefined;
  const [known] = await database.select({ id: users.id }).from(users).where(eq(users.id, userId));
  if (known) return undefined;
  return {
    statement: sql`insert into ${users} (id) values (${userId}) on conflict do nothing`,
    warning: `there was no user ${userId}: it was created, without a tier and a tenant`,
  };
}

async function addKey(values: Values): Promise<Creation> {
  const key = await createApiKey(crypto.getRandomValues(new Uint8Array(API_KEY_RANDOM_BYTES)));
  return { values: { ...values, hash: await hashApiKey(key), prefix: prefixOf(key) }, shownOnce: { key } };
}

// Users whose tier or tenant is not the default one.

export const addUserRoutes: AddRoutes = (app, services) =>
  addCollection(app, services, {
    path: 'users',
    noun: 'user',
    bodies: userBodies,
    table: users,
    id: users.id,
    idField: 'id',
    isId: isPlainId,
    order: [users.id],
    filters: {
      tier: z.string().optional(),
      tenantId: z.string().optional(),
      q: z.string().max(256).optional().describe('A part of the id; upper and lower case are the same.'),
    },
    where: ({ tier, tenantId, q }) => [
      equals(users.tier, tier),
      equals(users.tenantId, tenantId),
      contains(users.id, q),
    ],
  });

// Tenants: customers whose users and keys are counted together by rules of the scope `tenant`.

export const addTenantRoutes: AddRoutes = (app, services) =>
  addCollection(app, services, {
    path: 'tenants',
    noun: 'tenant',
    bodies: tenantBodies,
    table: tenants,
    id: tenants.id,
    idField: 'id',
    isId: isPlainId,
    order: [tenants.id],
    filters: {
      tier: z.string().optional(),
      q: z
        .string()
        .max(256)
        .optional()
        .describe('A part of the id or the name; upper and lower case are the same.'),
    },
    where: ({ tier, q }) => [equals(tenants.tier, tier), containsAny([tenants.id, tenants.name], q)],
  });

// Tiers: what callers pay for. A tier has named limits, which rules can use.

export const addTierRoutes: AddRoutes = (app, services) =>
  addCollection(app, services, {
    path: 'tiers',
    noun: 'tier',
    bodies: tierBodies,
    table: tiers,
    id: tiers.name,
    idField: 'name',
    describeId: 'The name of the tier.',
    bytesOf: bytesOfTier,
    isId: isPlainId,
    order: [tiers.name],
    filters: {},
    where: () => [],
    concerns: 'all',
  });

// The allow and deny lists.

export const addListRoutes: AddRoutes = (app, services) =>
  addCollection(app, services, {
    path: 'lists',
    noun: 'list entry',
    bodies: listBodies,
    table: listEntries,
    id: listEntries.id,
    idField: 'id',
    bytesOf: bytesOfListEntry,
    isId: isUuid,
    order: [listEntries.createdAt, listEntries.id],
    filters: {
      list: z.enum(LISTS).optional(),
      kind: z.enum(LISTED_KINDS).optional(),
      value: z.string().optional().describe('The same address or range, in any spelling; or the same id.'),
    },
    where: ({ list, kind, value }) => [
      equals(listEntries.list, list),
      equals(listEntries.kind, kind),
      typeof value === 'string' ? inArray(listEntries.value, spellingsOf(value)) : undefined,
    ],
    async prepare(values) {
      expectFuture(values, services.now());
      return { values };
    },
  });

const spellingsOf = (value: string) => [value, ...LISTED_KINDS.map((kind) => normalizeListed(kind, value))];
