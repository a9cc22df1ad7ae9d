-- `resource` takes the place of `prefix`, which the previous version reads and writes. This trigger keeps both alike,
-- until a later version drops `prefix`. The one that a statement changes decides; of a new row, the one that is not the
-- default.
create function weir.weir_route_resource(path text) returns text language sql immutable as
  $$ select case path when '/' then '/*' else path || '/*' end $$;--> statement-breakpoint
create function weir.weir_align_prefix() returns trigger language plpgsql set search_path = weir, pg_temp as $$
begin
  if tg_op = 'INSERT' and new.resource = '/*' or tg_op = 'UPDATE' and new.resource = old.resource then
    new.resource := weir_route_resource(new.prefix);
  else
    new.prefix := coalesce(nullif(left(new.resource, -2), ''), '/');
  end if;
  return new;
end $$;--> statement-breakpoint
create trigger align_prefix before insert or update on weir.routes
  for each row execute function weir.weir_align_prefix();--> statement-breakpoint
-- No change of anybody: neither a new revision nor an entry in the history.
alter table weir.routes disable trigger user;--> statement-breakpoint
update weir.routes set resource = weir.weir_route_resource(prefix);--> statement-breakpoint
alter table weir.routes enable trigger user;
