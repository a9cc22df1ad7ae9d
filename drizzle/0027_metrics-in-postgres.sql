CREATE TABLE "weir"."isolate_reports" (
	"isolate_id" text PRIMARY KEY NOT NULL,
	"at" timestamp with time zone NOT NULL,
	"report" jsonb NOT NULL
);
--> statement-breakpoint
CREATE TABLE "weir"."metric_sums" (
	"series" text PRIMARY KEY NOT NULL,
	"amount" bigint NOT NULL,
	"at" timestamp with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
CREATE INDEX "isolate_reports_at" ON "weir"."isolate_reports" USING btree ("at");--> statement-breakpoint
CREATE INDEX "metric_sums_at" ON "weir"."metric_sums" USING btree ("at");