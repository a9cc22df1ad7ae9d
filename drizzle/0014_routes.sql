CREATE TABLE "routes" (
	"id" uuid PRIMARY KEY DEFAULT gen_random_uuid() NOT NULL,
	"name" text DEFAULT 'route-' || left(gen_random_uuid()::text, 8) NOT NULL,
	"host" text DEFAULT '*' NOT NULL,
	"prefix" text DEFAULT '/' NOT NULL,
	"origin" text NOT NULL,
	"strip_prefix" text,
	"timeout_ms" integer,
	"host_header" text,
	"headers" jsonb DEFAULT '{}'::jsonb NOT NULL,
	"enabled" boolean DEFAULT true NOT NULL,
	"revision" bigint DEFAULT nextval('revisions') NOT NULL,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	"updated_at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "routes_name_unique" UNIQUE("name"),
	CONSTRAINT "routes_name_is_short" CHECK (length("routes"."name") between 1 and 128),
	CONSTRAINT "routes_name_has_no_control_characters" CHECK (not "routes"."name" ~ '[\u0001-\u001f\u007f-\u009f\u2028\u2029]'),
	CONSTRAINT "routes_host_is_a_host" CHECK ("routes"."host" = '*' or length("routes"."host") <= 253 and "routes"."host" ~ '^(\*\.)?[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*$'),
	CONSTRAINT "routes_prefix_is_a_path" CHECK ("routes"."prefix" = '/' or length("routes"."prefix") <= 1024 and "routes"."prefix" ~ '^(/[^/?#*{}[:upper:][:space:]]+)+$'),
	CONSTRAINT "routes_origin_is_known" CHECK (length("routes"."origin") <= 2048 and "routes"."origin" ~ '^(pass|service:[A-Za-z_][A-Za-z0-9_]{0,63}|https?://[^[:space:]?#@]+)$'),
	CONSTRAINT "routes_strip_prefix_is_of_prefix" CHECK ("routes"."strip_prefix" is null or starts_with("routes"."prefix" || '/', "routes"."strip_prefix" || '/') and "routes"."strip_prefix" ~ '^/.'),
	CONSTRAINT "routes_timeout_is_positive" CHECK ("routes"."timeout_ms" between 1 and 900000),
	CONSTRAINT "routes_host_header_is_a_host" CHECK ("routes"."host_header" ~ '^[A-Za-z0-9._-]{1,253}$'),
	CONSTRAINT "routes_headers_are_texts" CHECK (jsonb_typeof("routes"."headers") = 'object' and not jsonb_path_exists("routes"."headers", '$.* ? (@.type() != "string")'))
);
--> statement-breakpoint
CREATE UNIQUE INDEX "routes_once" ON "routes" USING btree ("host","prefix") WHERE "routes"."enabled";