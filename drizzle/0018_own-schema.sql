-- All of Weir moves to a schema of its own. A database can then hold other tables beside it, whatever they are called,
-- and other migrations have a table of their own.
create schema if not exists weir;
--> statement-breakpoint
-- On a database that is new, the migrations before this one have created everything in the schema `weir` at once
-- (local/migrations.ts), and nothing is moved: `public` may hold tables of the same names that are not Weir's.
do $$
declare
  relation text;
  routine text;
begin
  if to_regclass('weir.rules') is not null then
    return;
  end if;
  foreach relation in array array['tiers', 'tenants', 'users', 'api_keys', 'list_entries', 'rules', 'routes', 'history',
      'placements', 'last_publication', 'events', 'usage', 'alerts', 'record_batches'] loop
    execute format('alter table public.%I set schema weir', relation);
  end loop;
  foreach relation in array array['revisions', 'publications', 'changes'] loop
    execute format('alter sequence public.%I set schema weir', relation);
  end loop;
  foreach routine in array array['weir_revise()', 'weir_record()', 'weir_one_default()', 'weir_change_id()',
      'weir_rollback(bigint, boolean)', 'weir_expect_unchanged(text[], bigint)'] loop
    execute format('alter function public.%s set schema weir', routine);
  end loop;
  -- A Worker of the version before names no schema. As long as one may run (a gradual deployment, a rollback), the
  -- database also searches `weir`, last: no name that was found before is found elsewhere. Only the owner of the database
  -- may say so for all roles; another role says it for itself.
  if exists (select from weir.last_publication) then
    begin
      execute format('alter database %I set search_path = %s, weir', current_database(), current_setting('search_path'));
    exception when insufficient_privilege then
      execute format('alter role %I in database %I set search_path = %s, weir',
        session_user, current_database(), current_setting('search_path'));
    end;
  end if;
end $$;
--> statement-breakpoint
-- The functions find Weir's tables whatever schemas their caller searches.

-- A row that has really changed gets another revision.
create or replace function weir.weir_revise() returns trigger language plpgsql set search_path = weir, pg_temp as $$
begin
  if to_jsonb(new) - 'revision' - 'updated_at' = to_jsonb(old) - 'revision' - 'updated_at' then
    return old;
  end if;
  new.revision := nextval('revisions');
  new.updated_at := now();
  return new;
end $$;
--> statement-breakpoint
-- The number of the change that this transaction makes: taken once, and kept until the transaction ends.
create or replace function weir.weir_change_id() returns bigint language plpgsql set search_path = weir, pg_temp as $$
declare
  number text := nullif(current_setting('weir.change_id', true), '');
begin
  if number is null then
    number := nextval('changes')::text;
    perform set_config('weir.change_id', number, true);
  end if;
  return number::bigint;
end $$;
--> statement-breakpoint
-- The actor is the one that the admin route names for its transaction, or else the database role.
create or replace function weir.weir_record() returns trigger language plpgsql set search_path = weir, pg_temp as $$
declare
  old_row jsonb := case when tg_op <> 'INSERT' then to_jsonb(old) end;
  new_row jsonb := case when tg_op <> 'DELETE' then to_jsonb(new) end;
begin
  if old_row is distinct from new_row then
    insert into history (change_id, actor, entity, entity_id, before, after) values (
      weir_change_id(),
      coalesce(nullif(current_setting('weir.actor', true), ''), session_user),
      tg_table_name, coalesce(new_row, old_row) ->> tg_argv[0], old_row, new_row);
  end if;
  return null;
end $$;
--> statement-breakpoint
-- Undoes all that one transaction did, last first, and returns how many rows that were. If a row has changed
-- since, nothing is undone (WE409), unless it is forced. A change that is not known is WE404.
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
--> statement-breakpoint
-- Fails (WE409) if anything of these tables has changed since `expected`, the last id of the history.
create or replace function weir.weir_expect_unchanged(entities text[], expected bigint) returns void
language plpgsql set search_path = weir, pg_temp as $$
declare
  latest bigint := (select coalesce(max(id), 0) from history where entity = any(entities));
begin
  if latest <> expected then
    raise exception using errcode = 'WE409', message = format('changed since %s: now at %s', expected, latest);
  end if;
end $$;
--> statement-breakpoint
-- A tier that becomes the default takes the place of the one that was: there is no moment with none.
create or replace function weir.weir_one_default() returns trigger language plpgsql set search_path = weir, pg_temp as $$
begin
  update tiers set is_default = false where is_default and name <> new.name;
  return new;
end $$;
