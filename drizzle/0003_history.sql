-- Revisions and the history are kept by triggers: they hold for the admin route, for migrations and for
-- whoever writes SQL by hand.

-- A row that has really changed gets another revision.
create function weir_revise() returns trigger language plpgsql as $$
begin
  if to_jsonb(new) - 'revision' - 'updated_at' = to_jsonb(old) - 'revision' - 'updated_at' then
    return old;
  end if;
  new.revision := nextval('revisions');
  new.updated_at := now();
  return new;
end $$;
--> statement-breakpoint
-- The actor is the one that the admin route names for its transaction, or else the database role.
create function weir_record() returns trigger language plpgsql as $$
declare
  old_row jsonb := case when tg_op <> 'INSERT' then to_jsonb(old) end;
  new_row jsonb := case when tg_op <> 'DELETE' then to_jsonb(new) end;
begin
  if old_row is distinct from new_row then
    insert into history (change_id, actor, entity, entity_id, before, after) values (
      pg_current_xact_id()::text::bigint,
      coalesce(nullif(current_setting('weir.actor', true), ''), session_user),
      tg_table_name, coalesce(new_row, old_row) ->> tg_argv[0], old_row, new_row);
  end if;
  return null;
end $$;
--> statement-breakpoint
create trigger revise before update on tiers for each row execute function weir_revise();--> statement-breakpoint
create trigger revise before update on tenants for each row execute function weir_revise();--> statement-breakpoint
create trigger revise before update on users for each row execute function weir_revise();--> statement-breakpoint
create trigger revise before update on api_keys for each row execute function weir_revise();--> statement-breakpoint
create trigger revise before update on rules for each row execute function weir_revise();--> statement-breakpoint
create trigger revise before update on list_entries for each row execute function weir_revise();--> statement-breakpoint
create trigger record after insert or update or delete on tiers for each row execute function weir_record('name');--> statement-breakpoint
create trigger record after insert or update or delete on tenants for each row execute function weir_record('id');--> statement-breakpoint
create trigger record after insert or update or delete on users for each row execute function weir_record('id');--> statement-breakpoint
create trigger record after insert or update or delete on api_keys for each row execute function weir_record('id');--> statement-breakpoint
create trigger record after insert or update or delete on rules for each row execute function weir_record('id');--> statement-breakpoint
create trigger record after insert or update or delete on list_entries for each row execute function weir_record('id');
--> statement-breakpoint
-- Undoes all that one transaction did, last first, and returns how many rows that were. If a row has changed
-- since, nothing is undone (WE409), unless it is forced. A change that is not known is WE404.
create function weir_rollback(undone_change bigint, forced boolean) returns integer language plpgsql as $$
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
    id_type := case when entry.entity in ('tiers', 'tenants', 'users') then 'text' else 'uuid' end;
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
      where table_schema = 'public' and table_name = entry.entity and entry.before ? column_name::text
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
--> statement-breakpoint
-- Fails (WE409) if anything of these tables has changed since `expected`, the last id of the history.
create function weir_expect_unchanged(entities text[], expected bigint) returns void language plpgsql as $$
declare
  latest bigint := (select coalesce(max(id), 0) from history where entity = any(entities));
begin
  if latest <> expected then
    raise exception using errcode = 'WE409', message = format('changed since %s: now at %s', expected, latest);
  end if;
end $$;
--> statement-breakpoint
-- A tier that becomes the default takes the place of the one that was: there is no moment with none.
create function weir_one_default() returns trigger language plpgsql as $$
begin
  update tiers set is_default = false where is_default and name <> new.name;
  return new;
end $$;
--> statement-breakpoint
create trigger one_default before insert or update of is_default on tiers
  for each row when (new.is_default) execute function weir_one_default();
