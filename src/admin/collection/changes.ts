// Picks the fields of a body that are written into a row. Read-only fields may come back unchanged.
import type { Values } from '../../rules/tables/body-schemas.ts';
import type { Row, Target } from '../../rules/tables/repository.ts';
import { AdminError } from '../problems.ts';
import { changedSince, toShown } from './answers.ts';
import type { Collection } from './declaration.ts';

export interface Change {
  readonly collection: Collection;
  readonly target: Target;
  readonly before: Row;
  /** The body after validation. */
  readonly given: Values;
}

export interface TakenChange {
  readonly values: Values;
  /** The change applies only to a row with one of these revisions; undefined: any. */
  readonly revisions: Target['revisions'];
}

/** Throws if the change is not allowed. */
export function takeChanges({ collection, target, before, given }: Change): TakenChange {
  if (target.revisions && !target.revisions.includes(before.revision)) throw changedSince(before);
  const isWritten = ([field]: [string, unknown]) => collection.bodies.isWritten(field);
  const values = Object.fromEntries(Object.entries(given).filter(isWritten));
  const sentBack = Object.entries(given).filter((entry) => !isWritten(entry) && entry[1] !== undefined);
  expectUnchanged(sentBack, toShown(collection.bodies, before));
  collection.expect?.(values, before);
  // A client that sends read-only fields back means exactly the row that it was shown.
  return { values, revisions: sentBack.length > 0 ? [before.revision] : target.revisions };
}

function expectUnchanged(sentBack: readonly [string, unknown][], shown: Values): void {
  const changed = sentBack.filter(([field, value]) => JSON.stringify(value) !== JSON.stringify(shown[field]));
  if (changed.length === 0) return;
  throw new AdminError({
    status: 400,
    code: 'invalid-body',
    title: 'The body is not valid',
    errors: changed.map(([field]) => ({
      pointer: `#/${field}`,
      detail: `cannot be changed: it is ${JSON.stringify(shown[field])}. Leave it out, or give it as it is`,
    })),
  });
}
