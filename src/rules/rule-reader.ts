// Reads what is to be published. A rule that has been read before is not read, checked and encoded again: its
// revision tells. So a change among thousands of rules costs little more than one among ten.
import { and, asc, eq, inArray, sql } from 'drizzle-orm';
import type { SnapshotContent } from '../core/snapshot.ts';
import { type CompiledRule, withCounterIds } from '../core/snapshot.ts';
import { encodeRule } from '../core/stored-snapshot.ts';
import { type CallerRevisions, selectRevisions, toRevisions } from './caller-revisions.ts';
import { contentQueries, parseTiers, toListEntry, withUsableLimits } from './content.ts';
import type { Database } from './database.ts';
import { parseRules, type RejectedRow } from './rule-schema.ts';
import { rules as rulesTable } from './schema.ts';

/** Beyond so many it is simpler to ask for all. */
const MOST_BY_ID = 500;

export interface PublishedContent {
  readonly sequence: number;
  readonly content: SnapshotContent;
  /** Of the rules of the content, in their order. */
  readonly texts: readonly string[];
  readonly callers: CallerRevisions;
  readonly rejected: readonly RejectedRow[];
}

export interface RuleReader {
  read(): Promise<PublishedContent>;
}

type KnownRule = { readonly rule: CompiledRule; readonly text: string } | { readonly rejected: RejectedRow };

export function createRuleReader(database: Database): RuleReader {
  let known = new Map<number, KnownRule>();

  const learn = async (missing: readonly { readonly id: string }[]) => {
    const rows = await selectRules(database, missing);
    const revisionOf = new Map(rows.map(({ id, revision }) => [id, revision]));
    const learned = new Map<number, KnownRule>();
    const { rules, rejected } = parseRules(rows);
    for (const rule of await withCounterIds(rules))
      learned.set(revisionOf.get(rule.id) ?? 0, { rule, text: encodeRule(rule) });
    for (const row of rejected) learned.set(revisionOf.get(row.id) ?? 0, { rejected: row });
    return { learned, revisionOf };
  };

  return {
    async read() {
      const { sequence, places, tierRows, listRows, callers } = await readOutline(database);
      const missing = places.filter(({ revision }) => !known.has(revision));
      const { learned, revisionOf } = missing.length > 0 ? await learn(missing) : NOTHING;
      const rulesNow = new Map<number, KnownRule>();
      for (const { id, revision } of places) {
        // Changed or deleted since the outline was read: then it is as it is now, or gone.
        const latest = known.has(revision) ? revision : revisionOf.get(id);
        const rule = latest === undefined ? undefined : (known.get(latest) ?? learned.get(latest));
        if (latest !== undefined && rule) rulesNow.set(latest, rule);
      }
      known = rulesNow;
      return { sequence, callers, ...toContent([...rulesNow.values()], tierRows, listRows) };
    },
  };
}

const NOTHING = { learned: new Map<number, KnownRule>(), revisionOf: new Map<string, number>() };

/**
 * The number is taken first, and each query sees all that was committed when it starts: whoever has a higher number
 * has read at least what those with lower ones have.
 */
async function readOutline(database: Database) {
  const [, tiers, lists] = contentQueries(database, { onlyEnabled: true });
  const [numbers, callerRows, tierRows, listRows, places] = await database.batch([
    database.execute<{ number: string }>(sql`select nextval('publications')::text as number`),
    selectRevisions(database),
    tiers,
    lists,
    database
      .select({ id: rulesTable.id, revision: rulesTable.revision })
      .from(rulesTable)
      .where(eq(rulesTable.enabled, true))
      .orderBy(asc(rulesTable.priority), asc(rulesTable.id)),
  ]);
  const sequence = Number(numbers.rows[0]?.number);
  if (!Number.isSafeInteger(sequence)) throw new Error('Postgres gave no number for the publication');
  return { sequence, places, tierRows, listRows, callers: toRevisions(callerRows.rows) };
}

const selectRules = (database: Database, missing: readonly { readonly id: string }[]) =>
  database
    .select()
    .from(rulesTable)
    .where(
      and(
        eq(rulesTable.enabled, true),
        missing.length > MOST_BY_ID
          ? undefined
          : inArray(
              rulesTable.id,
              missing.map(({ id }) => id),
            ),
      ),
    );

type ContentRows = Awaited<ReturnType<typeof readOutline>>;

function toContent(
  read: readonly KnownRule[],
  tierRows: ContentRows['tierRows'],
  listRows: ContentRows['listRows'],
): Omit<PublishedContent, 'sequence' | 'callers'> {
  const tiers = parseTiers(tierRows);
  const parsed = read.filter((known) => 'rule' in known);
  const usable = withUsableLimits(
    parsed.map(({ rule }) => rule),
    tiers.good,
  );
  const isGood = new Set<CompiledRule>(usable.good);
  return {
    content: { rules: usable.good, tiers: tiers.good, lists: listRows.map(toListEntry) },
    texts: parsed.filter(({ rule }) => isGood.has(rule)).map(({ text }) => text),
    rejected: [
      ...read.flatMap((known) => ('rejected' in known ? [known.rejected] : [])),
      ...usable.rejected,
      ...tiers.rejected,
    ],
  };
}
