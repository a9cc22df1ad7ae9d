// Publish: Postgres → validated → KV → announced in every region. Run after every change through the admin route,
// by the cron trigger, and on demand.
import { sql } from 'drizzle-orm';
import { type Announcement, type AnnouncementBoard, parseAnnouncement } from '../core/announcement.ts';
import { type CounterStore, CounterStoreError } from '../core/counter-store.ts';
import type { SharesByRegion } from '../core/rule.ts';
import type { WeightedRegion } from '../core/shares.ts';
import { joinSnapshot, versionOf } from '../core/stored-snapshot.ts';
import { findWarnings, type RuleWarning } from '../core/warnings.ts';
import type { Database } from './database.ts';
import type { Kv } from './kv.ts';
import type { PublishedContent, RuleReader } from './rule-reader.ts';
import type { RejectedRow } from './rule-schema.ts';
import { writeCallers, writeCurrent, writeRules } from './snapshot-kv.ts';

/** For the Redis of one region: to be told must not fail lightly, to be asked must not take long. */
const ANNOUNCE_MS = 2_000;
const READ_MS = 500;

export interface PublishOptions {
  readonly database: Database;
  readonly reader: RuleReader;
  readonly kv: Kv;
  readonly regions: readonly PublishedRegion[];
  /** With the name of the region, if it is one that failed. */
  readonly onError: (error: unknown, region?: string) => void;
}

interface PublishedRegion extends WeightedRegion {
  readonly board: AnnouncementBoard;
  readonly store: Pick<CounterStore, 'probe'>;
}

export interface Publication {
  /** Of the rules. The same rules have the same version. */
  readonly version: string;
  readonly changed: boolean;
  readonly ruleCount: number;
  readonly rejected: readonly RejectedRow[];
  readonly warnings: readonly RuleWarning[];
  readonly regions: readonly Announced[];
}

/** Where it is announced. A region that cannot be told now is told by the next cron run. */
export interface Announced {
  readonly name: string;
  readonly announced: boolean;
  /** What the server said, if it cannot run the script: it is told nothing until it can. */
  readonly problem?: string;
}

export interface HowToPublish {
  /** Write to KV even what should be there: now and then, and when a person asks. */
  readonly again?: boolean;
}

export async function publish(
  options: PublishOptions,
  { again = false }: HowToPublish = {},
): Promise<Publication> {
  const { kv, regions, onError } = options;
  const [standing, read] = await Promise.all([readBoards(options), options.reader.read(sharesOf(regions))]);
  const published = await readAbove(
    options,
    read,
    Math.max(0, ...standing.map((known) => known?.sequence ?? 0)),
  );
  const rulesText = joinSnapshot({ ...published.content, rules: published.texts });
  const callersText = JSON.stringify(published.callers);
  const announcement = {
    sequence: published.sequence,
    rules: await versionOf(rulesText),
    callers: await versionOf(callersText),
  };
  // What a region announces should be in KV. KV itself is not asked: it would remember for a minute what it has not got.
  const isKnown = (part: 'rules' | 'callers') =>
    standing.some((known) => known?.[part] === announcement[part]);
  const [broken] = await Promise.all([
    findBroken(options),
    (!again && isKnown('rules')) || writeRules(kv, announcement.rules, rulesText),
    (!again && isKnown('callers')) || writeCallers(kv, announcement.callers, callersText),
  ]);
  const [told] = await Promise.all([
    Promise.all(regions.map((region, i) => broken[i] ?? announce(region, announcement, onError))),
    writeCurrent(kv, announcement).catch(onError),
  ]);
  return {
    version: announcement.rules,
    changed: !isKnown('rules'),
    ruleCount: published.content.rules.length,
    rejected: published.rejected,
    warnings: findWarnings({ ...published.content, regions }),
    regions: told,
  };
}

/** What stands in a region has a lower number, unless it is newer, or the database has been put back or changed. */
async function readAbove(
  { reader, database, regions }: PublishOptions,
  read: PublishedContent,
  highest: number,
) {
  if (read.sequence > highest) return read;
  // Never backwards: another publication may have seen to it meanwhile, and taken the next numbers.
  await database.execute(
    sql`select setval('publications', greatest(last_value, ${highest})) from publications`,
  );
  return reader.read(sharesOf(regions));
}

const sharesOf = (regions: readonly WeightedRegion[]): SharesByRegion =>
  Object.fromEntries(regions.map(({ name, share }) => [name, share]));

function readBoards({ regions, onError }: Pick<PublishOptions, 'regions' | 'onError'>) {
  return Promise.all(
    regions.map(async ({ name, board }): Promise<Announcement | undefined> => {
      try {
        return parseAnnouncement(await board.read(AbortSignal.timeout(READ_MS)));
      } catch (error) {
        onError(error, name);
        return undefined;
      }
    }),
  );
}

/**
 * The regions that answer, but cannot run the script: whoever sees rules announced there would take them for being
 * counted. Whether one that does not answer can be told is found out by telling it.
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
  { name, board }: PublishedRegion,
  announcement: Announcement,
  onError: PublishOptions['onError'],
): Promise<Announced> {
  try {
    await board.write(announcement, AbortSignal.timeout(ANNOUNCE_MS));
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
