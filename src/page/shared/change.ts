// A change in the history, and the name that people have for the changed item. Pure.

export type Row = Readonly<Record<string, unknown>>;

export interface Change {
  readonly id: number;
  readonly changeId: number;
  readonly at: string;
  readonly actor: string;
  readonly entity: string;
  readonly entityId: string;
  readonly action: 'created' | 'changed' | 'deleted';
  readonly before: Row | null;
  readonly after: Row | null;
}

const SINGULAR: Readonly<Record<string, string>> = { lists: 'list entry' };

/** The word for one item, such as a rule or a key, instead of its table's name. */
export const kindOf = ({ entity }: Change): string => SINGULAR[entity] ?? entity.replace(/s$/, '');

/** Shows the id only if the item has no name. */
export function nameOf({ before, after, entityId }: Change): string {
  const row = after ?? before ?? {};
  const name = row['name'] ?? row['value'];
  return typeof name === 'string' && name !== '' ? name : entityId;
}
