// Publishes: Postgres → validation → KV → announcement in every region. Runs after every change through the admin
// route, in the cron run, and on demand.
import { sql } from 'drizzle-orm';
import type { RejectedRow } from '../../authoring/rule-schema.ts';
import { findWarnings, type RuleWarning } from '../../authoring/warnings.ts';
import type { Rule, SharesByRegion } from '../../core/matching/rule.ts';
import { joinSnapshot, versionOf } from '../../core/matching/stored-snapshot.ts';
import {
  type Announcement,
  type CounterStore,
  CounterStoreError,
  isSameAnnouncement,
  newestAnnouncement,
  parseAnnouncement,
  type RulesPointer,
} from '../../core/ports/region.ts';
import type { WeightedRegion } from '../../core/regions/parts.ts';
import type { Kv } from '../edge/published.ts';
import type { Database } from '../tables/repository.ts';
import { findUnknownSubjects } from './content.ts';
import { copyTo, publishedText, writeCurrent, writePart } from './copies.ts';
import { confirmPlacements, forgetPlacements } from './placements.ts';
import { recordPublication } from './record.ts';
import type { ContentToPublish, RuleReader } from './rule-reader.ts';
import { byteLength, expectPublishable } from './snapshot-size.ts';

/** For the Redis of one region. Writes may take 2 s; reads must be quick. */
const ANNOUNCE_MS = 2_000;
const READ_MS = 500;

export interface PublishOptions {
  readonly database: Database;
  readonly reader: RuleReader;
  readonly kv: Kv;
  readonly now: () => number;
  readonly regions: readonly PublishedRegion[];
  /** The version of the Worker's code, if known: another version may read the same rows differently. */
  readonly deployment?: string | undefined;
  /** Gets the name of the region, too, if a region has failed. */
  readonly onError: (error: unknown, region?: string) => void;
}

interface PublishedRegion extends WeightedRegion {
  readonly pointer: RulesPointer;
  readonly store: Pick<CounterStore, 'probe'>;
}

export interface Publication {
  /** The version of the rules. The same rules have the same version. */
  readonly version: string;
  readonly changed: boolean;
  readonly ruleCount: number;
  readonly rejected: readonly RejectedRow[];
  readonly warnings: readonly RuleWarning[];
  readonly regions: readonly Announced[];
}

/** Whether a region has the announcement. The next cron run writes it to regions that were down. */
export interface Announced {
  readonly name: string;
  readonly announced: boolean;
  /** The server's error, if it cannot run the script. The publisher announces nothing there until it can. */
  readonly problem?: string;
}

export interface HowToPublish {
  /** Write to KV even if the parts should be there: once a day, and when a person asks. */
  readonly again?: boolean;
  /** Only warnings about these rule ids are wanted. Undefined: all of them. */
  readonly concerns?: readonly string[] | undefined;
  /** Set for the cron run: if nothing has changed, the number stays, so that isolates keep their caches. */
  readonly repairs?: Repair;
}

export interface Repair {
  /** The announcement that is known to be in KV. */
  readonly recorded: Announcement | undefined;
}

/**
 * Publishes. If every region now has the announcement of moved rules, publishes once more, so that isolates know when
 * the old placements end.
 */
export async function publish(options: PublishOptions, how: HowToPublish = {}): Promise<Publication> {
  const { publication, unconfirmed } = await publishOnce(options, how);
  if (unconfirmed.length === 0 || publication.regions.some(({ announced }) => !announced)) return publication;
  try {
    await confirmPlacements(options.database, unconfirmed);
    return {
      ...(await publishOnce(options, { concerns: how.concerns })).publication,
      changed: publication.changed,
    };
  } catch (error) {
    // The next cron run tries again. Until then no placement ends.
    options.onError(error);
    return publication;
  }
}

async function publishOnce(options: PublishOptions, { again = false, repairs, concerns }: HowToPublish) {
  const { kv, regions, onError } = options;
  if (again) await forgetPlacements(options.database);
  const [standing, read] = await Promise.all([readAnnouncements(options), readContent(options)]);
  const published = await readAbove(
    options,
    read,
    Math.max(0, ...standing.map((known) => known?.sequence ?? 0)),
  );
  const rulesText = joinSnapshot({ ...published.content, rules: published.texts });
  const bytes = byteLength(rulesText);
  expectPublishable(bytes);
  const callersText = JSON.stringify(published.callers);
  const announcement = keepNumber(repairs && [...standing, repairs.recorded], {
    sequence: published.sequence,
    rules: await versionOf(rulesText),
    callers: await versionOf(callersText),
  });
  const isWritten = !again && isSameAnnouncement(repairs?.recorded, announcement);
  // A part that a region announces should be in KV. Asking KV would make it cache a missing key for a minute.
  const isKnown = (part: 'rules' | 'callers') =>
    standing.some((known) => known?.[part] === announcement[part]);
  const parts = [
    publishedText({ kind: 'rules', version: announcement.rules }, rulesText),
    publishedText({ kind: 'callers', version: announcement.callers }, callersText),
  ];
  const copying = regions.map(({ pointer }, i) =>
    copyTo(pointer, parts, { known: standing[i], again, onError }),
  );
  const [broken] = await Promise.all([
    findBroken(options),
    ...parts.filter(({ kind }) => again || !isKnown(kind)).map((part) => writePart(kv, part)),
  ]);
  const [told, unknown] = await Promise.all([
    Promise.all(
      regions.map(async (region, i) => {
        await copying[i];
        return broken[i] ?? announce(region, announcement, onError);
      }),
    ),
    // Nobody reads the warnings of a cron run.
    repairs ? undefined : unknownIn(options, published.content.rules, concerns),
    complete(options, { announcement, published, bytes, isWritten }),
  ]);
  const publication: Publication = {
    version: announcement.rules,
    changed: !isKnown('rules'),
    ruleCount: published.content.rules.length,
    rejected: published.rejected,
    warnings: findWarnings({ ...published.content, regions, nowMs: options.now(), concerns, unknown }),
    regions: told,
  };
  return { publication, unconfirmed: published.unconfirmed };
}

/** Undefined if Postgres cannot say. The publication does not depend on it. */
async function unknownIn(
  { database, onError }: PublishOptions,
  rules: readonly Rule[],
  concerns: HowToPublish['concerns'],
) {
  const asked = concerns && new Set(concerns);
  const concerned = asked ? rules.filter(({ id }) => asked.has(id)) : rules;
  try {
    return await findUnknownSubjects(database, concerned);
  } catch (error) {
    onError(error);
    return undefined;
  }
}

/** Makes the number higher than those in the regions. It is lower only if the database was restored or replaced. */
async function readAbove(options: PublishOptions, read: ContentToPublish, highest: number) {
  if (read.sequence > highest) return read;
  const { database } = options;
  // Never sets the sequence back: another publication may have raised it meanwhile.
  await database.execute(
    sql`select setval('weir.publications', greatest(last_value, ${highest})) from weir.publications`,
  );
  return readContent(options);
}

const readContent = (options: PublishOptions) =>
  options.reader.read(sharesOf(options.regions), configurationOf(options));

const sharesOf = (regions: readonly WeightedRegion[]): SharesByRegion =>
  Object.fromEntries(regions.map(({ name, share }) => [name, share]));

/** Everything outside the tables that decides what is published. */
export const configurationOf = ({ regions, deployment = '' }: PublishOptions): string =>
  JSON.stringify([sharesOf(regions), deployment]);

/**
 * The newest announcement if it names the same versions, else the new one. `known` is undefined if a new one is wanted.
 */
function keepNumber(
  known: readonly (Announcement | undefined | null)[] | undefined,
  announcement: Announcement,
): Announcement {
  const newest = newestAnnouncement(known ?? []);
  const isKept = newest?.rules === announcement.rules && newest.callers === announcement.callers;
  return isKept ? newest : announcement;
}

interface Completion {
  readonly announcement: Announcement;
  readonly published: ContentToPublish;
  readonly bytes: number;
  /** Whether KV has the announcement already. */
  readonly isWritten: boolean;
}

/** If this fails, the next cron run finds that the publication was not recorded, and records it. */
async function complete(options: PublishOptions, completion: Completion): Promise<void> {
  const { announcement, published, bytes, isWritten } = completion;
  try {
    if (!isWritten) await writeCurrent(options.kv, announcement);
    await recordPublication(options.database, announcement, { mark: published.mark, bytes });
  } catch (error) {
    options.onError(error);
  }
}

/** The announcement in each region: null if it does not answer, undefined if this Worker can read none. */
export function readAnnouncements({ regions, onError }: Pick<PublishOptions, 'regions' | 'onError'>) {
  return Promise.all(
    regions.map(async ({ name, pointer }): Promise<Announcement | undefined | null> => {
      try {
        return parseAnnouncement(await pointer.read(AbortSignal.timeout(READ_MS)));
      } catch (error) {
        onError(error, name);
        return null;
      }
    }),
  );
}

/**
 * The regions that answer but cannot run the script. The publisher must not announce rules there, because isolates
 * would believe that the region counts them. It still tries to announce them in a region that does not answer.
 */
function findBroken({ regions, onError }: Pick<PublishOptions, 'regions' | 'onError'>) {
  return Promise.all(
    regions.map(async ({ name, store }): Promise<Announced | undefined> => {
      try {
        await store.probe(AbortSignal.timeout(READ_MS));
        return undefined;
      } catch (error) {
        if (!(error instanceof CounterStoreError)) onError(error, name);
        return brokenBy(error, name, onError);
      }
    }),
  );
}

async function announce(
  { name, pointer }: PublishedRegion,
  announcement: Announcement,
  onError: PublishOptions['onError'],
): Promise<Announced> {
  try {
    await pointer.write(announcement, AbortSignal.timeout(ANNOUNCE_MS));
    return { name, announced: true };
  } catch (error) {
    const broken = brokenBy(error, name, onError);
    if (!broken) onError(error, name);
    return broken ?? { name, announced: false };
  }
}

function brokenBy(error: unknown, name: string, onError: PublishOptions['onError']): Announced | undefined {
  if (!(error instanceof CounterStoreError) || error.failure !== 'script-failed') return undefined;
  onError(error, name);
  return { name, announced: false, problem: error.message };
}
