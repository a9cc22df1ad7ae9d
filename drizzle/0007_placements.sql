-- Where a rule was counted before is kept by the database: it holds for the admin route, for migrations, for a
-- rollback and for whoever writes SQL by hand.

-- At least as long as the limiter heeds how a rule was placed (src/core/placement.ts): two windows; as long as a bucket
-- takes to fill, times four because parts are rounded; and three minutes for the news and for the longest queue. A named
-- limit may be any: it counts as 1.
create function weir_hold_ms(rule rules) returns numeric language sql immutable as $$
  select 180000 + 1000::numeric * rule.window_seconds * (2 + coalesce(
    4 * rule.burst::numeric / case when rule.limit_name is null then rule."limit" else 1 end, 0))
$$;
--> statement-breakpoint
-- The same as `isCentral` in src/core/rule.ts.
create function weir_is_central(rule rules) returns boolean language sql immutable as $$
  select coalesce(rule.central, false) or (rule.spill and (
    rule.algorithm = 'concurrency' or rule.action = 'throttle' or rule.count_denied or rule.block_seconds is not null
    or coalesce(rule.cost_from_origin, false)))
$$;
--> statement-breakpoint
-- Adds what is replaced now, and leaves out what no longer counts. Of two that are alike but for their time the later one
-- says all, so that two that take turns do not push others out. At most ten.
create function weir_add_replaced(earlier jsonb, replaced jsonb, hold_ms numeric) returns jsonb language sql as $$
  with present (ms) as (select floor(extract(epoch from clock_timestamp()) * 1000)),
  kept (entry, place) as (
    select entry, place from present, jsonb_array_elements(earlier) with ordinality as listed (entry, place)
    where (entry ->> 'replacedAtMs')::numeric + hold_ms >= ms and entry - 'replacedAtMs' <> replaced
    order by place desc limit 9
  )
  select coalesce(jsonb_agg(entry order by place), '[]') ||
    jsonb_build_array(replaced || jsonb_build_object('replacedAtMs', (select ms from present)))
  from kept
$$;
--> statement-breakpoint
-- A rule that comes back under its id (by a rollback, or an import that changes names) was last as the history says.
create function weir_keep_placement() returns trigger language plpgsql as $$
declare
  former rules;
  deleted jsonb;
begin
  if tg_op = 'UPDATE' then
    former := old;
  else
    select before into deleted from history
      where entity = 'rules' and entity_id = new.id::text and after is null order by id desc limit 1;
    if not found then
      return new;
    end if;
    former := jsonb_populate_record(null::rules, deleted);
  end if;
  new.placed_before := coalesce(former.placed_before, '[]');
  if former.shares is distinct from new.shares or weir_is_central(former) <> weir_is_central(new) then
    new.placed_before := weir_add_replaced(
      new.placed_before,
      jsonb_build_object('shares', former.shares, 'central', weir_is_central(former)),
      greatest(weir_hold_ms(former), weir_hold_ms(new)));
  end if;
  return new;
end $$;
--> statement-breakpoint
-- Triggers fire by name: this one before `revise`, which looks at what has changed.
create trigger keep_placement before insert or update on rules for each row execute function weir_keep_placement();
