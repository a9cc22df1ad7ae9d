// Picks the fields of a body that are written into a row. Read-only fields may come back unchanged.

import type { BodySchemas, Values } from '../../authoring/bodies.ts';
import { invalidBody, ProblemError } from '../../http/internal-problems.ts';
import type { Row, Target } from '../../rules/tables/repository.ts';
import { fieldErrors } from '../problems.ts';
import { changedSince, toJson, toShown } from './collection.ts';
import type { Collection } from './declaration.ts';

export interface RowChange {
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
export function takeChanges({ collection, target, before, given }: RowChange): TakenChange {
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
  throw invalidBody(
    changed.map(([field]) => ({
      pointer: `#/${field}`,
      detail: `cannot be changed: it is ${JSON.stringify(shown[field])}. Leave it out, or give it as it is`,
    })),
  );
}

// Applies a patch: only the given fields change, and the resulting row must be valid as a whole.

/** If several clients patch a row at once, one of them succeeds in each attempt. */
const MAX_ATTEMPTS = 20;

export interface Patch {
  readonly collection: Collection;
  readonly target: Target;
  readonly given: Values;
  /** Throws if there is no such row. */
  readonly find: (id: string) => Promise<Row>;
  readonly save: Save;
}

/** Undefined if the row has changed since `before` was read. */
export type Save = (target: Target, before: Row, values: Values) => Promise<Row | undefined>;

/** Retries if the row changes between read and write, because the merged row must be validated again. */
export async function applyPatch({ collection, target, given, find, save }: Patch): Promise<Row> {
  const { bodies } = collection;
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt += 1) {
    const row = await find(target.id);
    const { values } = takeChanges({ collection, target, before: row, given });
    const changes = changesOf(bodies, toShown(bodies, row), values);
    if (Object.keys(changes).length === 0) return row;
    const patched = await save({ ...target, revisions: [row.revision] }, row, changes);
    if (patched) return patched;
  }
  throw new ProblemError({ status: 409, code: 'changed-since', title: 'Too many are changing it at once' });
}

/** The given fields, and the fields that change with them. No other field is written. */
function changesOf(bodies: BodySchemas, shown: Values, given: Values): Values {
  const written = Object.entries(shown).filter(([field]) => bodies.isWritten(field));
  const changed = Object.entries(given).map(([field, value]) => [field, toJson(value)]);
  const merged = Object.fromEntries([...written, ...changed]);
  const result = bodies.replace.safeParse(merged);
  if (!result.success) throw invalidBody(fieldErrors(result.error, merged));
  const isOther = ([field, value]: [string, unknown]) =>
    JSON.stringify(value) !== JSON.stringify(shown[field]);
  return Object.fromEntries(Object.entries(result.data).filter(isOther));
}
