// Rules: what is limited, and how.

import { eq, sql } from 'drizzle-orm';
import * as z from 'zod';
import { normalizeHost, originProblemHere } from '../../authoring/route-schema.ts';
import { unknownRegions } from '../../authoring/rule-problems.ts';
import { ALGORITHM_IDS } from '../../core/counting/algorithms/registry.ts';
import { SCOPES, type SharesByRegion } from '../../core/matching/rule.ts';
import { invalidBody } from '../../http/internal-problems.ts';
import { bytesOfRoute, bytesOfRule } from '../../rules/publishing/snapshot-size.ts';
import { routes, rules } from '../../rules/tables/tables.ts';
import type { AdminServices } from '../app.ts';
import { addCollection } from '../collection/collection.ts';
import { contains, equals, flag, isUuid } from '../collection/declaration.ts';
import { isSame } from '../import/document.ts';
import { routeBodies, ruleBodies } from '../schemas.ts';
import type { AddRoutes } from './index.ts';

export const addRuleRoutes: AddRoutes = (app, services) =>
  addCollection(app, services, {
    path: 'rules',
    noun: 'rule',
    bodies: ruleBodies,
    table: rules,
    id: rules.id,
    idField: 'id',
    bytesOf: bytesOfRule,
    isId: isUuid,
    // In the order of creation, which cannot change between two pages. A priority can.
    order: [rules.ordinal, rules.id],
    filters: {
      scope: z.enum(SCOPES).optional(),
      algorithm: z.enum(ALGORITHM_IDS).optional(),
      enabled: flag.optional(),
      resource: z.string().optional().describe('The exact text.'),
      tier: z.string().optional().describe('Rules that name this tier.'),
      q: z.string().optional().describe('A part of the name; upper and lower case are the same.'),
    },
    where: ({ scope, algorithm, enabled, resource, tier, q }) => [
      equals(rules.scope, scope),
      equals(rules.algorithm, algorithm),
      enabled === undefined ? undefined : eq(rules.enabled, enabled === 'true'),
      resource === undefined
        ? undefined
        : sql`(${rules.resource} = ${resource} or ${resource} = any(${rules.resources}))`,
      tier === undefined ? undefined : sql`${tier} = any(${rules.tiers})`,
      contains(rules.name, q),
    ],
    expect: ({ shares }, before) => {
      // Unchanged shares may name a region that was removed.
      if (!isSame(shares, before?.shares)) expectRegions(services, shares as SharesByRegion | null);
    },
    concerns: 'itself',
  });

function expectRegions({ regions }: AdminServices, shares: SharesByRegion | null | undefined): void {
  const unknown = unknownRegions(
    shares,
    regions.map(({ name }) => name),
  );
  if (unknown.length === 0) return;
  throw invalidBody(unknown.map(({ pointer, detail }) => ({ pointer: `#/${pointer}`, detail })));
}

// Routes: which origin the requests of a host and a prefix go to.

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
  throw invalidBody([{ pointer: '#/origin', detail }]);
}
