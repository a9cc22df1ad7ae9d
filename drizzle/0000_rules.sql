CREATE TABLE "rules" (
	"id" uuid PRIMARY KEY DEFAULT gen_random_uuid() NOT NULL,
	"name" text NOT NULL,
	"resource" text NOT NULL,
	"scope" text NOT NULL,
	"algorithm" text NOT NULL,
	"limit" integer NOT NULL,
	"window_seconds" integer NOT NULL,
	"priority" integer DEFAULT 100 NOT NULL,
	"enabled" boolean DEFAULT true NOT NULL,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	"updated_at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "rules_name_unique" UNIQUE("name"),
	CONSTRAINT "rules_resource_is_a_path" CHECK ("rules"."resource" like '/%'),
	CONSTRAINT "rules_scope_is_known" CHECK ("rules"."scope" in ('global', 'ip')),
	CONSTRAINT "rules_algorithm_is_known" CHECK ("rules"."algorithm" in ('fixed-window')),
	CONSTRAINT "rules_limit_is_positive" CHECK ("rules"."limit" > 0),
	CONSTRAINT "rules_window_is_positive" CHECK ("rules"."window_seconds" > 0)
);
