CREATE TABLE "record_batches" (
	"id" text PRIMARY KEY NOT NULL,
	"written_at" timestamp with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "usage" (
	"at" timestamp with time zone NOT NULL,
	"tenant_id" text NOT NULL,
	"user_id" text NOT NULL,
	"api_key_id" text NOT NULL,
	"rule_id" text NOT NULL,
	"requests" bigint NOT NULL,
	"cost" bigint NOT NULL,
	CONSTRAINT "usage_at_tenant_id_user_id_api_key_id_rule_id_pk" PRIMARY KEY("at","tenant_id","user_id","api_key_id","rule_id")
);
--> statement-breakpoint
-- Nothing has written this table so far. A row that somebody wrote by hand has no place in the new form.
DELETE FROM "events";--> statement-breakpoint
ALTER TABLE "events" DROP COLUMN "id";--> statement-breakpoint
ALTER TABLE "events" DROP CONSTRAINT "events_scope_is_known";--> statement-breakpoint
DROP INDEX "events_at";--> statement-breakpoint
DROP INDEX "events_rule";--> statement-breakpoint
ALTER TABLE "events" ALTER COLUMN "count" SET DATA TYPE bigint;--> statement-breakpoint
ALTER TABLE "events" ALTER COLUMN "count" DROP DEFAULT;--> statement-breakpoint
ALTER TABLE "events" ADD CONSTRAINT "events_at_scope_rule_id_subject_pk" PRIMARY KEY("at","scope","rule_id","subject");--> statement-breakpoint
CREATE INDEX "record_batches_written_at" ON "record_batches" USING btree ("written_at");--> statement-breakpoint
CREATE INDEX "usage_tenant" ON "usage" USING btree ("tenant_id","at");--> statement-breakpoint
CREATE INDEX "usage_user" ON "usage" USING btree ("user_id","at");--> statement-breakpoint
CREATE INDEX "events_scope_at" ON "events" USING btree ("scope","at");--> statement-breakpoint
ALTER TABLE "events" DROP COLUMN "region";--> statement-breakpoint
ALTER TABLE "events" DROP COLUMN "action";--> statement-breakpoint
ALTER TABLE "events" DROP COLUMN "method";--> statement-breakpoint
ALTER TABLE "events" DROP COLUMN "resource";