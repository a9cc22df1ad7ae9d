// Publish: Postgres → validated → KV → announced in every region. Run after every change through the admin route,
// by the cron trigger, and on demand.
import { sql } from 'drizzle-orm';
import { type Announcement, type AnnouncementBoard, parseAnnouncement } from '../core/announcement.ts';
import { joinSnapshot, versionOf } from '../core/stored-snapshot.ts';
import { findWarnings, type RuleWarning } from '../core/warnings.ts';
import type { Database } from './database.ts';
import type { Kv } from './kv.ts';
import type { RuleReader } from './rule-reader.ts';
import type { RejectedRow } from './rule-schema.ts';
import { sweep, writeCallers, writeCurrent, writeRules } from './snapshot-kv.ts';

/** For one call to the Redis of one region. */
const ANNOUNCE_MS = 2_000;

export interface PublishOptions {
  readonly database: Database;
  readonly reader: RuleReader;
  readonly kv: Kv;
  readonly regions: readonly { readonly name: string; readonly board: AnnouncementBoard }[];
  readonly now: () => number;
  readonly onError: (error: unknown) => void;
}

export interface Publication {
  /** Of the rules. The same rules have the same version. */
  readonly version: string;
  readonly changed: boolean;
  readonly ruleCount: number;
  readonly rejected: readonly RejectedRow[];
  readonly warnings: readonly RuleWarning[];
  /** Where it is announced. A region that cannot be told now is told by the next cron run. */
  readonly regions: readonly { readonly name: string; readonly announced: boolean }[];
}

export async function publish(options: PublishOptions): Promise<Publication> {
  const { kv, regions, now, onError } = options;
  const standing = await readBoards(options);
  const published = await readAbove(options, Math.max(0, ...standing.map((known) => known?.sequence ?? 0)));
  const rulesText = joinSnapshot({ ...published.content, rules: published.texts });
  const callersText = JSON.stringify(published.callers);
  const announcement = {
    sequence: published.sequence,
    rules: await versionOf(rulesText),
    callers: await versionOf(callersText),
  };
  // What a region announces is in KV. KV itself is not asked: it would remember for a minute what it has not got.
  const isKnown = (part: 'rules' | 'callers') =>
    standing.some((known) => known?.[part] === announcement[part]);
  await Promise.all([
    isKnown('rules') || writeRules(kv, announcement.rules, rulesText, now()),
    isKnown('callers') || writeCallers(kv, announcement.callers, callersText, now()),
  ]);
  const [told] = await Promise.all([
    Promise.all(regions.map((region) => announce(region, announcement, onError))),
    writeCurrent(kv, announcement).catch(onError),
  ]);
  return {
    version: announcement.rules,
    changed: !isKnown('rules'),
    ruleCount: published.content.rules.length,
    rejected: published.rejected,
    warnings: findWarnings(published.content),
    regions: regions.map(({ name }, i) => ({ name, announced: told[i] === true })),
  };
}

/** Once an hour, by the cron run: what is no longer in force need not be kept. */
export async function sweepPublished({ kv, regions, now, onError }: PublishOptions): Promise<void> {
  const standing = await readBoards({ regions, onError });
  const inForce = standing.filter((known) => known !== undefined);
  if (inForce.length > 0) await sweep(kv, inForce, now()).catch(onError);
}

/** What stood there before the number was taken has a lower one, unless the database has been put back or changed. */
async function readAbove({ reader, database }: PublishOptions, highest: number) {
  const read = await reader.read();
  if (read.sequence > highest) return read;
  await database.execute(sql`select setval('publications', ${highest})`);
  return reader.read();
}

function readBoards({ regions, onError }: Pick<PublishOptions, 'regions' | 'onError'>) {
  return Promise.all(
    regions.map(async ({ board }): Promise<Announcement | undefined> => {
      try {
        return parseAnnouncement(await board.read(AbortSignal.timeout(ANNOUNCE_MS)));
      } catch (error) {
        onError(error);
        return undefined;
      }
    }),
  );
}

async function announce(
  { board }: PublishOptions['regions'][number],
  announcement: Announcement,
  onError: (error: unknown) => void,
): Promise<boolean> {
  try {
    await board.write(announcement, AbortSignal.timeout(ANNOUNCE_MS));
    return true;
  } catch (error) {
    onError(error);
    return false;
  }
}
