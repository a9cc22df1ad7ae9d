// Publishes after a change in Postgres, and collects the warnings for the person who made it.

import { ProblemError } from '../http/internal-requests.ts';
import type { Announced, Publication } from '../rules/publishing/publish.ts';
import {
  inMebibytes,
  MAX_SAVED_BYTES,
  readPublishedBytes,
  SnapshotTooLarge,
} from '../rules/publishing/snapshot-size.ts';
import type { Database } from '../rules/tables/repository.ts';
import type { AdminServices } from './app.ts';
import { postgresProblem } from './problems.ts';

const MAX_WARNINGS = 20;

/** The ids of the rules that were changed, or all if the change may concern any of them. */
export type Concerns = readonly string[] | 'all';

export interface PublishedChange {
  /** Undefined: not published yet. */
  readonly version: string | undefined;
  readonly warnings: readonly string[];
}

/**
 * Never fails: the change is saved, so the cron run can publish it later. The answer shows the warnings about the rules
 * in `concerns`.
 */
export async function publishChange(
  { publish, log }: Pick<AdminServices, 'publish' | 'log'>,
  concerns: Concerns,
): Promise<PublishedChange> {
  try {
    const publication = await publish(concerns === 'all' ? {} : { concerns });
    const warnings = shorten(warningsIn(publication, concerns), ': POST /publish tells them all');
    return { version: publication.version, warnings };
  } catch (error) {
    log.error('publish-failed', error);
    const warning = `saved, but not yet published: ${reasonOf(error)}; the cron run will, within a minute by default`;
    return { version: undefined, warnings: [warning] };
  }
}

function reasonOf(error: unknown): string {
  if (error instanceof SnapshotTooLarge) return error.message;
  const { status, title } = postgresProblem(error);
  return status === 503 ? title : 'The rules could not be handed to the edge';
}

export const versionHeader = ({ version }: PublishedChange): Record<string, string> =>
  version === undefined ? {} : { 'X-Weir-Rules-Version': version };

/** The warnings that a change would cause, for a preview. */
export const warningsBeforehand = (
  foreseen: Pick<Publication, 'rejected' | 'warnings'>,
): PublishedChange => ({
  version: undefined,
  warnings: shorten(warningsIn({ ...foreseen, regions: [] }, 'all'), ''),
});

function warningsIn(
  { rejected, warnings, regions }: Pick<Publication, 'rejected' | 'warnings' | 'regions'>,
  concerns: Concerns,
): string[] {
  const concerned = new Set(concerns);
  const isConcerned = (id: string) => concerns === 'all' || concerned.has(id);
  return [
    ...rejected
      .filter(({ id }) => isConcerned(id))
      .map(({ name, problems }) => `not in force: ${name}: ${problems.join('; ')}`),
    ...warnings.filter((warning) => warning.ruleIds.some(isConcerned)).map(({ message }) => message),
    ...regions.filter(({ announced }) => !announced).map(untold),
  ];
}

const untold = ({ name, problem }: Announced): string =>
  problem === undefined
    ? `region ${name} could not be told; it follows within a minute`
    : `region ${name} was not told: its Redis cannot run Weir's script (${problem})`;

/** An import can cause thousands of warnings. */
function shorten(warnings: readonly string[], whereAll: string): string[] {
  if (warnings.length <= MAX_WARNINGS) return [...warnings];
  return [...warnings.slice(0, MAX_WARNINGS), `and ${warnings.length - MAX_WARNINGS} more${whereAll}`];
}

// Checks that saved rows still fit into a snapshot.

/** Accepts every change that does not grow the snapshot, so that a full one can be reduced. */
export async function expectRoom(database: Database, grownBy: number): Promise<void> {
  if (grownBy <= 0) return;
  const bytes = (await readPublishedBytes(database)) + grownBy;
  if (bytes > MAX_SAVED_BYTES) throw tooLarge(bytes);
}

export const tooLarge = (bytes: number) =>
  new ProblemError({
    status: 409,
    code: 'rules-too-large',
    title: 'All rules, tiers and lists together would be too large',
    detail:
      `By ${bytes - MAX_SAVED_BYTES} bytes: at most ${inMebibytes(MAX_SAVED_BYTES)} fit into what the edge loads. ` +
      'Name fewer subjects, or delete or switch off what is not needed.',
  });
