// Callers whose tier, tenant or key has changed lately, as isolates read them. Isolates and KV may still hold the old
// record, but never under the new revision.

import { versionOf } from '../../core/matching/stored-snapshot.ts';
import { object, recordOf, type Shape, text } from '../../core/shape.ts';

export interface CallerRevisions {
  /** A new epoch means: forget all callers. */
  readonly epoch: string;
  /** By `key:HASH` or `user:ID`. */
  readonly revisions: Readonly<Record<string, string>>;
}

export const NO_REVISIONS: CallerRevisions = { epoch: '0', revisions: {} };

const callerRevisions: Shape<CallerRevisions> = object({ epoch: text, revisions: recordOf(text) });

export async function decodeRevisions(version: string, text: string): Promise<CallerRevisions | undefined> {
  if ((await versionOf(text)) !== version) return undefined;
  return callerRevisions(JSON.parse(text), 'callers', []);
}
