-- The one row of settings, and its history, kept by triggers as for the other tables.
insert into weir.settings (id) values ('all') on conflict do nothing;
--> statement-breakpoint
create trigger revise before update on weir.settings for each row execute function weir.weir_revise();
--> statement-breakpoint
create trigger record after insert or update or delete on weir.settings
  for each row execute function weir.weir_record('id');
--> statement-breakpoint
-- As in 0018_own-schema.sql, but the table tells of which type its ids are.
create or replace function weir.weir_rollback(undone_change bigint, forced boolean) returns integer
language plpgsql set search_path = weir, pg_temp as $$
declare
  entry history;
  id_column text;
  id_type text;
  present jsonb;
  columns text;
  undone integer := 0;
begin
  for entry in select * from history where change_id = undone_change order by id desc loop
    id_column := case entry.entity when 'tiers' then 'name' else 'id' end;
    -- Compared as what it is, or the primary key would be of no use.
    id_type := (select data_type from information_schema.columns
      where table_schema = 'weir' and table_name = entry.entity and column_name = id_column);
    execute format('select to_jsonb(t) from %I t where %I = $1::%s for update', entry.entity, id_column, id_type)
      into present using entry.entity_id;
    -- Of a row that the transaction changed twice, the last state is the one to compare with.
    if not forced and present ->> 'revision' is distinct from entry.after ->> 'revision' and not exists (
      select from history later where later.change_id = undone_change and later.entity = entry.entity
        and later.entity_id = entry.entity_id and later.id > entry.id
    ) then
      raise exception using errcode = 'WE409',
        message = format('%s %s has changed since', entry.entity, entry.entity_id);
    end if;
    -- Columns that the row had then and the table has now; the others keep what they have.
    select string_agg(quote_ident(column_name), ', ') into columns from information_schema.columns
      where table_schema = 'weir' and table_name = entry.entity and entry.before ? column_name::text
        and column_name not in ('revision', 'updated_at');
    if entry.before is null then
      execute format('delete from %I where %I = $1::%s', entry.entity, id_column, id_type) using entry.entity_id;
    elsif present is null then
      execute format('insert into %1$I (%2$s) select %2$s from jsonb_populate_record(null::%1$I, $1)', entry.entity, columns)
        using entry.before;
    else
      execute format(
        'update %1$I set (%2$s) = (select %2$s from jsonb_populate_record(null::%1$I, $1)) where %3$I = $2::%4$s',
        entry.entity, columns, id_column, id_type) using entry.before, entry.entity_id;
    end if;
    undone := undone + 1;
  end loop;
  if undone = 0 then
    raise exception using errcode = 'WE404', message = format('there is no change %s', undone_change);
  end if;
  return undone;
end $$;
