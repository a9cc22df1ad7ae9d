// Tiers: what callers pay for. A tier has named limits, which rules can use.

import { bytesOfTier } from '../../rules/publishing/snapshot-room.ts';
import { tiers } from '../../rules/tables/schema.ts';
import { addCollection } from '../collection/collection.ts';
import { isPlainId } from '../collection/declaration.ts';
import { tierBodies } from '../schemas.ts';
import type { AddRoutes } from './index.ts';

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
