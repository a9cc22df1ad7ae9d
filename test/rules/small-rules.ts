// The smallest possible rule.
import { createRule as createAnyRule } from '../../local/rules.ts';
import type { PublishedRule } from '../../src/core/matching/snapshot.ts';

export const createRule = (id: string): PublishedRule =>
  createAnyRule({ id, limit: 5, counterId: `counter-${id}` });
