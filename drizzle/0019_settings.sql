CREATE TABLE "weir"."settings" (
	"id" text PRIMARY KEY DEFAULT 'all' NOT NULL,
	"enforcement" text DEFAULT 'on' NOT NULL,
	"revision" bigint DEFAULT nextval('weir.revisions') NOT NULL,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	"updated_at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "settings_are_one" CHECK ("weir"."settings"."id" = 'all'),
	CONSTRAINT "settings_enforcement_is_known" CHECK ("weir"."settings"."enforcement" in ('on', 'log'))
);
