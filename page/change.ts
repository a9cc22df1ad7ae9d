// A change in the history, and what people call the thing that was changed. Pure.

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

/** A rule, a key: not its table. */
export const kindOf = ({ entity }: Change): string => SINGULAR[entity] ?? entity.replace(/s$/, '');

/** Its id is shown only if it has no name. */
export function nameOf({ before, after, entityId }: Change): string {
  const row = after ?? before ?? {};
  const name = row['name'] ?? row['value'];
  return typeof name === 'string' && name !== '' ? name : entityId;
}
