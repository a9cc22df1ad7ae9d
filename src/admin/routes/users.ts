// Users whose tier or tenant is not the default one.
import * as z from 'zod';
import { users } from '../../rules/tables/schema.ts';
import { addCollection } from '../collection/collection.ts';
import { isPlainId } from '../collection/declaration.ts';
import { contains, equals } from '../collection/filters.ts';
import { userBodies } from '../schemas.ts';
import type { AddRoutes } from './index.ts';

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
