// Applies a patch: only the given fields change, and the resulting row must be valid as a whole.
import type { BodySchemas, Values } from '../../rules/tables/body-schemas.ts';
import type { Row, Target } from '../../rules/tables/repository.ts';
import { AdminError, invalidBody } from '../problems.ts';
import { toJson, toShown } from './answers.ts';
import { takeChanges } from './changes.ts';
import type { Collection } from './declaration.ts';

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
  throw new AdminError({ status: 409, code: 'changed-since', title: 'Too many are changing it at once' });
}

/** The given fields, and the fields that change with them. No other field is written. */
function changesOf(bodies: BodySchemas, shown: Values, given: Values): Values {
  const written = Object.entries(shown).filter(([field]) => bodies.isWritten(field));
  const changed = Object.entries(given).map(([field, value]) => [field, toJson(value)]);
  const merged = Object.fromEntries([...written, ...changed]);
  const result = bodies.replace.safeParse(merged);
  if (!result.success) throw new AdminError(invalidBody(result.error, merged));
  const isOther = ([field, value]: [string, unknown]) =>
    JSON.stringify(value) !== JSON.stringify(shown[field]);
  return Object.fromEntries(Object.entries(result.data).filter(isOther));
}
