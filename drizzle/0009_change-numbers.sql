-- A change is numbered by a sequence. It was numbered by its transaction id, which starts over after a dump and
-- restore: then two changes had one number, and one rollback undid both.

-- Above all numbers that the history has, so that those keep their meaning.
select setval('changes', greatest(1, (select max(change_id) from history)));
--> statement-breakpoint
-- The number of the change that this transaction makes: taken once, and kept until the transaction ends.
create function weir_change_id() returns bigint language plpgsql as $$
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
-- As in 0003_history.sql, but for the number.
create or replace function weir_record() returns trigger language plpgsql as $$
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
