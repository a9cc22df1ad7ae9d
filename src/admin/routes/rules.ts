// Rules: what is limited, and how.
import { eq, sql } from 'drizzle-orm';
import * as z from 'zod';
import { ALGORITHM_IDS } from '../../core/counting/algorithms/registry.ts';
import { SCOPES, type SharesByRegion } from '../../core/matching/rule.ts';
import { bytesOfRule } from '../../rules/publishing/snapshot-room.ts';
import { rules } from '../../rules/tables/schema.ts';
import { unknownRegions } from '../../rules/tables/share-problems.ts';
import { addCollection } from '../collection/collection.ts';
import { isUuid } from '../collection/declaration.ts';
import { contains, equals, flag } from '../collection/filters.ts';
import { isSame } from '../import/document-values.ts';
import { AdminError } from '../problems.ts';
import { ruleBodies } from '../schemas.ts';
import type { AdminServices } from '../services.ts';
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
  throw new AdminError({
    status: 400,
    code: 'invalid-body',
    title: 'The body is not valid',
    errors: unknown.map(({ pointer, detail }) => ({ pointer: `#/${pointer}`, detail })),
  });
}
