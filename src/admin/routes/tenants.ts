// Tenants: customers whose users and keys are counted together by rules of the scope `tenant`.
import * as z from 'zod';
import { tenants } from '../../rules/tables/schema.ts';
import { addCollection } from '../collection/collection.ts';
import { isPlainId } from '../collection/declaration.ts';
import { containsAny, equals } from '../collection/filters.ts';
import { tenantBodies } from '../schemas.ts';
import type { AddRoutes } from './index.ts';

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
