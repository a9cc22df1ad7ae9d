-- Revisions and the history of routes are kept by triggers, as for the other tables.
create trigger revise before update on routes for each row execute function weir_revise();
--> statement-breakpoint
create trigger record after insert or update or delete on routes for each row execute function weir_record('id');
