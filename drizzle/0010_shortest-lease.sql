-- Leases of rules that said less last for as long as they must from now on.
UPDATE "rules" SET "window_seconds" = 30 WHERE "algorithm" = 'concurrency' AND "window_seconds" < 30;--> statement-breakpoint
ALTER TABLE "rules" ADD CONSTRAINT "rules_leases_last" CHECK ("rules"."algorithm" <> 'concurrency' or "rules"."window_seconds" between 30 and 31622400);
