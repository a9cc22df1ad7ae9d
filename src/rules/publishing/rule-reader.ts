// Reads the rules to publish. It does not read, check and encode a rule again if it knows the revision. So a change
// among thousands of rules costs little more than a change among ten.
import { and, asc, eq, inArray, sql } from 'drizzle-orm';
import { parseRules, type RejectedRow } from '../../authoring/rule-schema.ts';
import { formatFlatRule } from '../../core/matching/flat-rule.ts';
import type { OriginPolicy } from '../../core/matching/origin-routes.ts';
import type { SharesByRegion } from '../../core/matching/rule.ts';
import type { SnapshotContent } from '../../core/matching/snapshot.ts';
import { type PublishedRule, withCounterIds } from '../../core/matching/snapshot.ts';
import type { CallerRevisions } from '../../core/ports/callers.ts';
import type { Database } from '../tables/repository.ts';
import { rules as rulesTable } from '../tables/tables.ts';
import {
  type AssembleOptions,
  assemble,
  type OtherRows,
  otherQueries,
  selectForeignKeys,
  selectRevisions,
  toRevisions,
} from './content.ts';
import { type PlacementRow, recordPlacements, unconfirmedOf } from './placements.ts';
import { type Mark, selectMark } from './record.ts';

/** With more changed rules than this, one query reads all rules. */
const MAX_BY_ID = 500;

export interface ContentToPublish {
  readonly sequence: number;
  readonly mark: Mark;
  readonly content: SnapshotContent;
  /** The encoded rules, in their order. */
  readonly texts: readonly string[];
  readonly callers: CallerRevisions;
  readonly rejected: readonly RejectedRow[];
  /** Placements that some region may not have yet. */
  readonly unconfirmed: readonly PlacementRow[];
}

export interface RuleReader {
  /** `shares`: the configured shares; `configured`: the shares, and all other configuration outside the tables. */
  read(shares: SharesByRegion, configured?: string): Promise<ContentToPublish>;
}

const NOTHING_SPECIAL: OriginPolicy = { allowsPrivate: false, allowsPlainHttp: false, services: [] };

/** A rule that was read. Its stamp shows whether the row has changed since. */
type KnownRule = { readonly stamp: string } & (
  | { readonly rule: PublishedRule; readonly text: string }
  | { readonly rejected: RejectedRow }
);

interface Place {
  readonly id: string;
  readonly revision: number;
  readonly updatedAt: Date;
}

/** Includes the time, because a restored database uses the same revisions again. */
const stampOf = ({ revision, updatedAt }: Place) => `${revision} ${updatedAt.getTime()}`;

export interface RuleReaderOptions {
  readonly now: () => number;
  /** Only routes that it allows are published. */
  readonly origins?: OriginPolicy | undefined;
}

export function createRuleReader(
  database: Database,
  { now, origins = NOTHING_SPECIAL }: RuleReaderOptions,
): RuleReader {
  let known: ReadonlyMap<string, KnownRule> = new Map();

  return {
    async read(shares, configured = '') {
      // Another read may replace `known` while this one waits.
      const before = known;
      const outline = await readOutline(database, shares, configured);
      const { sequence, mark, places, otherRows, callers } = outline;
      const isKnown = (place: Place) => before.get(place.id)?.stamp === stampOf(place);
      const missing = places.filter((place) => !isKnown(place));
      const learned = missing.length === 0 ? before : await learn(database, missing);
      // Rules that changed after the outline was read are taken as they are now. Deleted ones are left out.
      const rules = places.flatMap((place) => {
        const rule = (isKnown(place) ? before : learned).get(place.id);
        return rule ? [[place.id, rule] as const] : [];
      });
      known = new Map(rules);
      return {
        sequence,
        mark,
        callers,
        ...toContent([...known.values()], otherRows, { nowMs: now(), origins }),
      };
    },
  };
}

async function learn(database: Database, missing: readonly Place[]): Promise<Map<string, KnownRule>> {
  const rows = await selectRules(database, missing);
  const stamps = new Map(rows.map((row) => [row.id, stampOf(row)]));
  const { rules, rejected } = parseRules(rows);
  const good = (await withCounterIds(rules)).map((rule) => ({
    id: rule.id,
    rule,
    text: formatFlatRule(rule),
  }));
  const bad = rejected.map((row) => ({ id: row.id, rejected: row }));
  return new Map([...good, ...bad].map(({ id, ...read }) => [id, { stamp: stamps.get(id) ?? '', ...read }]));
}

/**
 * The transaction takes the number before it reads the rules, and each query sees everything committed when it starts.
 * So a read with a higher number sees at least as much as a read with a lower number. The transaction writes placements
 * first. It locks their rows until it ends, so placements replace one another in the order of the numbers.
 */
async function readOutline(database: Database, shares: SharesByRegion, configured: string) {
  const [, marks, numbers, callerRows, foreignKeys, places, ...otherRows] = await database.batch([
    recordPlacements(database, shares),
    selectMark(database, configured),
    database.execute<{ number: string }>(sql`select nextval('weir.publications')::text as number`),
    selectRevisions(database),
    selectForeignKeys(database),
    database
      .select({ id: rulesTable.id, revision: rulesTable.revision, updatedAt: rulesTable.updatedAt })
      .from(rulesTable)
      .where(eq(rulesTable.enabled, true))
      .orderBy(asc(rulesTable.ordinal)),
    ...otherQueries(database),
  ]);
  const sequence = Number(numbers.rows[0]?.number);
  if (!Number.isSafeInteger(sequence)) throw new Error('Postgres gave no number for the publication');
  const { fingerprint = '', since: callersSince = '' } = marks.rows[0] ?? {};
  return {
    sequence,
    mark: { fingerprint, callersSince },
    places,
    otherRows,
    callers: toRevisions(callerRows.rows, foreignKeys.rows[0]?.isThere === false),
  };
}

const selectRules = (database: Database, missing: readonly { readonly id: string }[]) =>
  database
    .select()
    .from(rulesTable)
    .where(
      and(
        eq(rulesTable.enabled, true),
        missing.length > MAX_BY_ID
          ? undefined
          : inArray(
              rulesTable.id,
              missing.map(({ id }) => id),
            ),
      ),
    );

function toContent(
  read: readonly KnownRule[],
  otherRows: OtherRows,
  options: AssembleOptions,
): Omit<ContentToPublish, 'sequence' | 'mark' | 'callers'> {
  const parsed = read.filter((known) => 'rule' in known);
  const bad = read.flatMap((known) => ('rejected' in known ? [known.rejected] : []));
  const rules = parsed.map(({ rule }) => rule);
  const { content, rejected } = assemble(rules, otherRows, options);
  const isGood = new Set<PublishedRule>(content.rules);
  const texts = parsed.filter(({ rule }) => isGood.has(rule)).map(({ text }) => text);
  return { content, texts, rejected: [...bad, ...rejected], unconfirmed: unconfirmedOf(otherRows[2]) };
}
