// Routes: which origin the requests of a host and a prefix go to.
import { eq } from 'drizzle-orm';
import * as z from 'zod';
import { originProblemHere } from '../../core/matching/origin-problems.ts';
import { normalizeHost } from '../../core/matching/route-fields.ts';
import { bytesOfRoute } from '../../rules/publishing/snapshot-room.ts';
import { routes } from '../../rules/tables/route-table.ts';
import { addCollection } from '../collection/collection.ts';
import { isUuid } from '../collection/declaration.ts';
import { contains, equals, flag } from '../collection/filters.ts';
import { AdminError } from '../problems.ts';
import { routeBodies } from '../schemas.ts';
import type { AdminServices } from '../services.ts';
import type { AddRoutes } from './index.ts';

export const addRouteRoutes: AddRoutes = (app, services) =>
  addCollection(app, services, {
    path: 'routes',
    noun: 'route',
    bodies: routeBodies,
    table: routes,
    id: routes.id,
    idField: 'id',
    bytesOf: bytesOfRoute,
    isId: isUuid,
    order: [routes.createdAt, routes.id],
    filters: {
      host: z.string().optional().describe('The exact text; upper and lower case are the same.'),
      origin: z.string().optional().describe('The exact text.'),
      enabled: flag.optional(),
      q: z.string().optional().describe('A part of the name; upper and lower case are the same.'),
    },
    where: ({ host, origin, enabled, q }) => [
      typeof host === 'string' ? eq(routes.host, normalizeHost(host)) : undefined,
      equals(routes.origin, origin),
      enabled === undefined ? undefined : eq(routes.enabled, enabled === 'true'),
      contains(routes.name, q),
    ],
    expect: ({ origin }, before) => {
      // An unchanged origin may name a binding that no longer exists.
      if (typeof origin === 'string' && origin !== before?.origin) expectOriginHere(services, origin);
    },
    concerns: 'itself',
  });

function expectOriginHere({ origins }: AdminServices, origin: string): void {
  const detail = originProblemHere(origin, origins);
  if (detail === undefined) return;
  throw new AdminError({
    status: 400,
    code: 'invalid-body',
    title: 'The body is not valid',
    errors: [{ pointer: '#/origin', detail }],
  });
}
