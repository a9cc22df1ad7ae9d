CREATE TABLE "alerts" (
	"rule_id" text NOT NULL,
	"window_seconds" integer NOT NULL,
	"window_start" timestamp with time zone NOT NULL,
	"scope" text NOT NULL,
	"subject" text NOT NULL,
	"percent" integer NOT NULL,
	"rule_name" text NOT NULL,
	"limit" bigint NOT NULL,
	"used" bigint NOT NULL,
	"at" timestamp with time zone NOT NULL,
	"id" uuid DEFAULT gen_random_uuid() NOT NULL,
	"attempts" integer DEFAULT 0 NOT NULL,
	"next_at" timestamp with time zone DEFAULT now() NOT NULL,
	"sent_at" timestamp with time zone,
	CONSTRAINT "alerts_once" PRIMARY KEY("rule_id","window_seconds","window_start","scope","subject","percent")
);
--> statement-breakpoint
ALTER TABLE "rules" ADD COLUMN "alert_at" integer[] DEFAULT '{}' NOT NULL;--> statement-breakpoint
CREATE INDEX "alerts_due" ON "alerts" USING btree ("next_at") WHERE "alerts"."sent_at" is null;--> statement-breakpoint
CREATE INDEX "alerts_at" ON "alerts" USING btree ("at");--> statement-breakpoint
ALTER TABLE "rules" ADD CONSTRAINT "rules_alert_at_are_percents" CHECK (cardinality("rules"."alert_at") <= 5 and array_position("rules"."alert_at", null) is null and 1 <= all ("rules"."alert_at") and 100 >= all ("rules"."alert_at"));