CREATE TABLE "weir"."ended_sessions" (
	"id" text PRIMARY KEY NOT NULL,
	"expires_at" timestamp with time zone NOT NULL
);
--> statement-breakpoint
CREATE INDEX "ended_sessions_expires_at" ON "weir"."ended_sessions" USING btree ("expires_at");--> statement-breakpoint
CREATE INDEX "events_rule" ON "weir"."events" USING btree ("rule_id","at");--> statement-breakpoint
CREATE INDEX "usage_rule" ON "weir"."usage" USING btree ("rule_id","at");