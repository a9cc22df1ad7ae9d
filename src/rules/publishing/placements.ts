// Records how publications placed rules over regions. A publication compares the current placement with the last one.
// It keeps the placement that it replaces, without an end until every region has the announcement. So it does not
// matter who changed a rule, or how.
import { eq, or, sql } from 'drizzle-orm';
import { type FlatRule, RULE_DEFAULTS } from '../../core/matching/flat-rule.ts';
import {
  isCentral,
  isUncounted,
  type PlacedBefore,
  type Rule,
  type SharesByRegion,
  type Split,
} from '../../core/matching/rule.ts';
import { BURST_DRAIN_TIMES, CHARGE_WINDOWS, OLD_RULES_GONE_MS } from '../../core/regions/placement.ts';
import type { Database } from '../tables/repository.ts';
import { placements } from '../tables/tables.ts';

/** The id of the row with the shares of REGIONS. The other rows have the ids of rules. */
const SPLIT = '*';
/** How many earlier placements of a rule are kept. */
const MAX_BEFORE = 10;
/** How long placements of deleted rules are kept: longer than any window. */
const FORGET = sql`interval '400 days'`;

export type PlacementRow = Pick<typeof placements.$inferSelect, 'id' | 'placed' | 'before'>;

/** The fields that `isCentral` and the split look at. */
const PLACED = sql`jsonb_build_object('shares', shares, 'central', central, 'spill', spill, 'algorithm', algorithm,
  'action', action, 'countDenied', count_denied, 'blockSeconds', block_seconds, 'costFromOrigin', cost_from_origin)`;

/**
 * Writes the new placement of each rule that has changed, and keeps the old one. A placement that returns is kept once.
 * The query looks only at rules with a new revision.
 */
export function recordPlacements(database: Database, configured: SharesByRegion) {
  const split = sql`${JSON.stringify(configured)}::jsonb`;
  return database.execute(sql`
    insert into ${placements} (id, placed, revision)
    select present.id, present.placed, present.revision from (
      select id::text, ${PLACED} as placed, revision from weir.rules where (id::text, revision) not in (
        select known.id, known.revision from ${placements} as known where known.revision is not null)
      union all select ${SPLIT}, ${split}, null where ${split} <> '{}'
    ) as present left join ${placements} as last on last.id = present.id
    where last.placed is distinct from present.placed or last.revision is distinct from present.revision
    on conflict (id) do update set placed = excluded.placed, revision = excluded.revision,
      updated_at = case when ${IS_MOVED} then now() else ${placements}.updated_at end,
      before = case when ${IS_MOVED} then ${WITH_LAST} else ${placements}.before end`);
}

const IS_MOVED = sql`${placements}.placed <> excluded.placed`;
/** The earlier placements plus the one that is replaced now. */
const WITH_LAST = sql`(
  select coalesce(jsonb_agg(entry order by place), '[]') from (
    select entry, place from jsonb_array_elements(${placements}.before) with ordinality as kept (entry, place)
    where entry -> 'placed' <> ${placements}.placed
    order by place desc limit ${sql.raw(String(MAX_BEFORE - 1))}
  ) as others) || jsonb_build_array(jsonb_build_object('placed', ${placements}.placed, 'replacedAtMs', null))`;

/** The placements of moving rules, and the split. */
export const selectPlacements = (database: Database) =>
  database
    .select({ id: placements.id, placed: placements.placed, before: placements.before })
    .from(placements)
    .where(or(eq(placements.id, SPLIT), sql`${placements.before} <> '[]'`));

/** Undefined if nothing was ever published. */
export function toSplit(rows: readonly PlacementRow[], rules: readonly Rule[]): Split | undefined {
  const own = rows.find(({ id }) => id === SPLIT);
  if (!own) return undefined;
  const published = new Map(rules.map((rule) => [rule.id, rule]));
  const moved = rows.flatMap(({ id, before }): [string, PlacedBefore[]][] => {
    const rule = published.get(id);
    const others = rule ? before.map(toBefore).filter((way) => !isSameWay(way, rule)) : [];
    return others.length > 0 ? [[id, others]] : [];
  });
  return {
    shares: own.placed as SharesByRegion,
    before: own.before
      .filter(({ placed }) => !isDeepEqual(placed, own.placed))
      .map(({ placed, replacedAtMs }) => ({ shares: placed as SharesByRegion, replacedAtMs })),
    ...(moved.length > 0 && { moved: Object.fromEntries(moved) }),
  };
}

function toBefore({ placed, replacedAtMs }: PlacementRow['before'][number]): PlacedBefore {
  const flat = { ...RULE_DEFAULTS, ...(placed as Partial<FlatRule>) };
  const limits = flat.algorithm === null || isUncounted(flat) ? [] : [{ algorithm: flat.algorithm }];
  return { shares: flat.shares, central: isCentral({ ...flat, limits }), replacedAtMs };
}

/** The rule is placed as before, although another field has changed. */
const isSameWay = (way: PlacedBefore, rule: Rule): boolean =>
  way.central === isCentral(rule) && isDeepEqual(way.shares, rule.shares);

/** Works because jsonb sorts names. */
const isDeepEqual = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);

/** Placements that some region may not have yet. */
export const unconfirmedOf = (rows: readonly PlacementRow[]): PlacementRow[] =>
  rows.filter(({ before }) => before.some(({ replacedAtMs }) => replacedAtMs === null));

/** For the cheap look of the cron run. */
export const IS_UNCONFIRMED = sql`exists (select from weir.placements where before @> '[{"replacedAtMs": null}]')`;

/** Every region has these placements, so the ones that they replaced end now. Rows changed meanwhile stay open. */
export const confirmPlacements = (database: Database, told: readonly PlacementRow[]) =>
  database.execute(sql`
    update ${placements} set before = (
      select jsonb_agg(case when entry -> 'replacedAtMs' = 'null' then entry || jsonb_build_object('replacedAtMs',
        floor(extract(epoch from clock_timestamp()) * 1000)) else entry end order by place)
      from jsonb_array_elements(${placements}.before) with ordinality as kept (entry, place))
    from jsonb_to_recordset(${JSON.stringify(told)}::jsonb) as told (id text, before jsonb)
    where ${placements}.id = told.id and ${placements}.before = told.before`);

/** The longest time for which a charge of an old placement counts: `movingMs` in SQL, with OLD_RULES_GONE_MS twice. */
const LONGEST_HOLD_MS = sql`(select ${2 * OLD_RULES_GONE_MS}::int + 1000 * coalesce(max(window_seconds * (${CHARGE_WINDOWS}::int + coalesce(
  ${BURST_DRAIN_TIMES}::int * burst::numeric / case when limit_name is null then "limit" else 1 end, 0))), 0) from weir.rules)`;
const IS_OVER = sql`(entry ->> 'replacedAtMs')::numeric + ${LONGEST_HOLD_MS} < extract(epoch from now()) * 1000`;

/** Deletes placements whose charges no longer count, and those of rules deleted long ago. */
export async function forgetPlacements(database: Database): Promise<void> {
  const shorten = database.execute(sql`
    update ${placements} set before = (
      select coalesce(jsonb_agg(entry order by place), '[]')
      from jsonb_array_elements(before) with ordinality as kept (entry, place) where not coalesce(${IS_OVER}, false))
    where exists (select from jsonb_array_elements(before) as entry where ${IS_OVER})`);
  const clear = database.execute(sql`
    delete from ${placements} where id <> ${SPLIT} and updated_at < now() - ${FORGET}
      and not exists (select from weir.rules where rules.id::text = ${placements}.id)`);
  await database.batch([shorten, clear]);
}
