// Checks that saved rows still fit into a snapshot.

import { inMebibytes, MAX_SAVED_BYTES, readPublishedBytes } from '../rules/publishing/snapshot-room.ts';
import type { Database } from '../rules/tables/database.ts';
import { AdminError } from './problems.ts';

/** Accepts every change that does not grow the snapshot, so that a full one can be reduced. */
export async function expectRoom(database: Database, grownBy: number): Promise<void> {
  if (grownBy <= 0) return;
  const bytes = (await readPublishedBytes(database)) + grownBy;
  if (bytes > MAX_SAVED_BYTES) throw tooLarge(bytes);
}

export const tooLarge = (bytes: number) =>
  new AdminError({
    status: 409,
    code: 'rules-too-large',
    title: 'All rules, tiers and lists together would be too large',
    detail:
      `By ${bytes - MAX_SAVED_BYTES} bytes: at most ${inMebibytes(MAX_SAVED_BYTES)} fit into what the edge loads. ` +
      'Name fewer subjects, or delete or switch off what is not needed.',
  });
