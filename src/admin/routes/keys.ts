// API keys. Weir shows a key once, in the answer to its creation, and later only its beginning.
import { eq, sql } from 'drizzle-orm';
import * as z from 'zod';
import { API_KEY_RANDOM_BYTES, createApiKey, hashApiKey, prefixOf } from '../../core/matching/api-key.ts';
import type { Values } from '../../rules/tables/body-schemas.ts';
import type { Database } from '../../rules/tables/database.ts';
import { apiKeys, users } from '../../rules/tables/schema.ts';
import { addCollection } from '../collection/collection.ts';
import { type Brought, type Creation, isUuid } from '../collection/declaration.ts';
import { expectFuture } from '../collection/expiry.ts';
import { beginsAlike, containsAny, equals } from '../collection/filters.ts';
import { keyBodies } from '../schemas.ts';
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
