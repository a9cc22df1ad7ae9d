// The allow and deny lists.
import { inArray } from 'drizzle-orm';
import * as z from 'zod';
import { LISTED_KINDS, LISTS } from '../../core/matching/rule.ts';
import { bytesOfListEntry } from '../../rules/publishing/snapshot-room.ts';
import { listEntries } from '../../rules/tables/schema.ts';
import { addCollection } from '../collection/collection.ts';
import { isUuid } from '../collection/declaration.ts';
import { expectFuture } from '../collection/expiry.ts';
import { equals } from '../collection/filters.ts';
import { listBodies, normalizeListed } from '../schemas.ts';
import type { AddRoutes } from './index.ts';

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
