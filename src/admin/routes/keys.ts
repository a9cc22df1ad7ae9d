// API keys. A key is shown once, in the answer to its creation; from then on only how it begins.
import * as z from 'zod';
import { API_KEY_RANDOM_BYTES, createApiKey, hashApiKey, prefixOf } from '../../core/matching/api-key.ts';
import type { Values } from '../../rules/tables/body-schemas.ts';
import { apiKeys } from '../../rules/tables/schema.ts';
import { addCollection } from '../collection/collection.ts';
import { type Creation, isUuid } from '../collection/declaration.ts';
import { expectFuture } from '../collection/expiry.ts';
import { equals } from '../collection/filters.ts';
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
      prefix: z.string().optional().describe('Exactly so: how the key begins.'),
    },
    where: ({ userId, tenantId, tier, prefix }) => [
      equals(apiKeys.userId, userId),
      equals(apiKeys.tenantId, tenantId),
      equals(apiKeys.tier, tier),
      equals(apiKeys.prefix, prefix),
    ],
    prepare(values) {
      expectFuture(values, services.now());
      return addKey(values);
    },
  });

async function addKey(values: Values): Promise<Creation> {
  const key = await createApiKey(crypto.getRandomValues(new Uint8Array(API_KEY_RANDOM_BYTES)));
  return { values: { ...values, hash: await hashApiKey(key), prefix: prefixOf(key) }, shownOnce: { key } };
}
