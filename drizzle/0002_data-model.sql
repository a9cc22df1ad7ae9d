CREATE SEQUENCE "public"."publications" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1;--> statement-breakpoint
CREATE SEQUENCE "public"."revisions" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1;--> statement-breakpoint
CREATE TABLE "api_keys" (
	"id" uuid PRIMARY KEY DEFAULT gen_random_uuid() NOT NULL,
	"name" text DEFAULT '' NOT NULL,
	"hash" text NOT NULL,
	"prefix" text NOT NULL,
	"user_id" text,
	"tenant_id" text,
	"tier" text,
	"expires_at" timestamp with time zone,
	"disabled" boolean DEFAULT false NOT NULL,
	"revision" bigint DEFAULT nextval('revisions') NOT NULL,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	"updated_at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "api_keys_hash_unique" UNIQUE("hash"),
	CONSTRAINT "api_keys_name_is_short" CHECK (length("api_keys"."name") <= 128),
	CONSTRAINT "api_keys_hash_is_a_sha256" CHECK ("api_keys"."hash" ~ '^[0-9a-f]{64}$'),
	CONSTRAINT "api_keys_prefix_is_short" CHECK (length("api_keys"."prefix") between 1 and 16),
	CONSTRAINT "api_keys_user_id_is_short" CHECK (length("api_keys"."user_id") between 1 and 256),
	CONSTRAINT "api_keys_expires_on_a_date" CHECK (isfinite("api_keys"."expires_at"))
);
--> statement-breakpoint
CREATE TABLE "events" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "events_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"at" timestamp with time zone NOT NULL,
	"region" text NOT NULL,
	"rule_id" text NOT NULL,
	"rule_name" text NOT NULL,
	"scope" text NOT NULL,
	"subject" text NOT NULL,
	"action" text NOT NULL,
	"method" text NOT NULL,
	"resource" text NOT NULL,
	"count" integer DEFAULT 1 NOT NULL,
	CONSTRAINT "events_scope_is_known" CHECK ("events"."scope" in ('global', 'tenant', 'user', 'apiKey', 'ip')),
	CONSTRAINT "events_count_is_positive" CHECK ("events"."count" >= 1)
);
--> statement-breakpoint
CREATE TABLE "history" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "history_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"change_id" bigint NOT NULL,
	"at" timestamp with time zone DEFAULT now() NOT NULL,
	"actor" text NOT NULL,
	"entity" text NOT NULL,
	"entity_id" text NOT NULL,
	"before" jsonb,
	"after" jsonb,
	CONSTRAINT "history_says_something" CHECK ("history"."before" is not null or "history"."after" is not null)
);
--> statement-breakpoint
CREATE TABLE "list_entries" (
	"id" uuid PRIMARY KEY DEFAULT gen_random_uuid() NOT NULL,
	"list" text NOT NULL,
	"kind" text NOT NULL,
	"value" text NOT NULL,
	"reason" text DEFAULT '' NOT NULL,
	"expires_at" timestamp with time zone,
	"revision" bigint DEFAULT nextval('revisions') NOT NULL,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	"updated_at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "list_entries_list_is_known" CHECK ("list_entries"."list" in ('allow', 'deny')),
	CONSTRAINT "list_entries_kind_is_known" CHECK ("list_entries"."kind" in ('ip', 'apiKey', 'user', 'tenant')),
	CONSTRAINT "list_entries_value_is_short" CHECK (length("list_entries"."value") between 1 and 256),
	CONSTRAINT "list_entries_ip_is_an_address" CHECK ("list_entries"."kind" <> 'ip' or "list_entries"."value"::inet is not null),
	CONSTRAINT "list_entries_expires_on_a_date" CHECK (isfinite("list_entries"."expires_at")),
	CONSTRAINT "list_entries_reason_is_short" CHECK (length("list_entries"."reason") <= 1024)
);
--> statement-breakpoint
CREATE TABLE "tenants" (
	"id" text PRIMARY KEY NOT NULL,
	"name" text DEFAULT '' NOT NULL,
	"tier" text,
	"revision" bigint DEFAULT nextval('revisions') NOT NULL,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	"updated_at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "tenants_id_is_short" CHECK (length("tenants"."id") between 1 and 256),
	CONSTRAINT "tenants_name_is_short" CHECK (length("tenants"."name") <= 128)
);
--> statement-breakpoint
CREATE TABLE "tiers" (
	"name" text PRIMARY KEY NOT NULL,
	"display_name" text DEFAULT '' NOT NULL,
	"price_cents" integer DEFAULT 0 NOT NULL,
	"limits" jsonb DEFAULT '{}'::jsonb NOT NULL,
	"is_default" boolean DEFAULT false NOT NULL,
	"revision" bigint DEFAULT nextval('revisions') NOT NULL,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	"updated_at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "tiers_name_is_plain" CHECK ("tiers"."name" ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
	CONSTRAINT "tiers_display_name_is_short" CHECK (length("tiers"."display_name") <= 128),
	CONSTRAINT "tiers_price_is_not_negative" CHECK ("tiers"."price_cents" >= 0),
	CONSTRAINT "tiers_limits_is_an_object" CHECK (jsonb_typeof("tiers"."limits") = 'object'),
	CONSTRAINT "tiers_limits_are_whole_numbers_or_null" CHECK (not jsonb_path_exists("tiers"."limits", '$.* ? (@ != null && (@.type() != "number" || @ < 1 || @ > 1000000000000 || @ != @.floor()))'))
);
--> statement-breakpoint
CREATE TABLE "users" (
	"id" text PRIMARY KEY NOT NULL,
	"tier" text,
	"tenant_id" text,
	"revision" bigint DEFAULT nextval('revisions') NOT NULL,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	"updated_at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "users_id_is_short" CHECK (length("users"."id") between 1 and 256)
);
--> statement-breakpoint
ALTER TABLE "rules" DROP CONSTRAINT "rules_resource_is_a_path";--> statement-breakpoint
ALTER TABLE "rules" DROP CONSTRAINT "rules_scope_is_known";--> statement-breakpoint
ALTER TABLE "rules" DROP CONSTRAINT "rules_limit_is_positive";--> statement-breakpoint
ALTER TABLE "rules" DROP CONSTRAINT "rules_window_is_positive";--> statement-breakpoint
ALTER TABLE "rules" ALTER COLUMN "name" SET DEFAULT 'rule-' || left(gen_random_uuid()::text, 8);--> statement-breakpoint
ALTER TABLE "rules" ALTER COLUMN "limit" SET DATA TYPE bigint;--> statement-breakpoint
ALTER TABLE "rules" ALTER COLUMN "limit" DROP NOT NULL;--> statement-breakpoint
ALTER TABLE "rules" ADD COLUMN "methods" text[] DEFAULT '{}' NOT NULL;--> statement-breakpoint
ALTER TABLE "rules" ADD COLUMN "tiers" text[] DEFAULT '{}' NOT NULL;--> statement-breakpoint
ALTER TABLE "rules" ADD COLUMN "subjects" text[] DEFAULT '{}' NOT NULL;--> statement-breakpoint
ALTER TABLE "rules" ADD COLUMN "limit_name" text;--> statement-breakpoint
ALTER TABLE "rules" ADD COLUMN "burst" bigint;--> statement-breakpoint
ALTER TABLE "rules" ADD COLUMN "buckets" integer;--> statement-breakpoint
ALTER TABLE "rules" ADD COLUMN "cost" integer DEFAULT 1 NOT NULL;--> statement-breakpoint
ALTER TABLE "rules" ADD COLUMN "action" text DEFAULT 'reject' NOT NULL;--> statement-breakpoint
ALTER TABLE "rules" ADD COLUMN "max_delay_ms" integer;--> statement-breakpoint
ALTER TABLE "rules" ADD COLUMN "count_denied" boolean DEFAULT false NOT NULL;--> statement-breakpoint
ALTER TABLE "rules" ADD COLUMN "block_seconds" integer;--> statement-breakpoint
ALTER TABLE "rules" ADD COLUMN "status" integer DEFAULT 429 NOT NULL;--> statement-breakpoint
ALTER TABLE "rules" ADD COLUMN "message" text;--> statement-breakpoint
ALTER TABLE "rules" ADD COLUMN "on_unavailable" text DEFAULT 'open' NOT NULL;--> statement-breakpoint
ALTER TABLE "rules" ADD COLUMN "shares" jsonb;--> statement-breakpoint
ALTER TABLE "rules" ADD COLUMN "spill" boolean DEFAULT true NOT NULL;--> statement-breakpoint
ALTER TABLE "rules" ADD COLUMN "ordinal" integer NOT NULL GENERATED BY DEFAULT AS IDENTITY (sequence name "rules_ordinal_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 2147483647 START WITH 1 CACHE 1);--> statement-breakpoint
ALTER TABLE "rules" ADD COLUMN "revision" bigint DEFAULT nextval('revisions') NOT NULL;--> statement-breakpoint
ALTER TABLE "api_keys" ADD CONSTRAINT "api_keys_tenant_id_tenants_id_fk" FOREIGN KEY ("tenant_id") REFERENCES "public"."tenants"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "api_keys" ADD CONSTRAINT "api_keys_tier_tiers_name_fk" FOREIGN KEY ("tier") REFERENCES "public"."tiers"("name") ON DELETE no action ON UPDATE cascade;--> statement-breakpoint
ALTER TABLE "tenants" ADD CONSTRAINT "tenants_tier_tiers_name_fk" FOREIGN KEY ("tier") REFERENCES "public"."tiers"("name") ON DELETE no action ON UPDATE cascade;--> statement-breakpoint
ALTER TABLE "users" ADD CONSTRAINT "users_tier_tiers_name_fk" FOREIGN KEY ("tier") REFERENCES "public"."tiers"("name") ON DELETE no action ON UPDATE cascade;--> statement-breakpoint
ALTER TABLE "users" ADD CONSTRAINT "users_tenant_id_tenants_id_fk" FOREIGN KEY ("tenant_id") REFERENCES "public"."tenants"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "api_keys_user_id" ON "api_keys" USING btree ("user_id");--> statement-breakpoint
CREATE INDEX "api_keys_tenant_id" ON "api_keys" USING btree ("tenant_id");--> statement-breakpoint
CREATE INDEX "api_keys_tier" ON "api_keys" USING btree ("tier");--> statement-breakpoint
CREATE INDEX "events_at" ON "events" USING btree ("at");--> statement-breakpoint
CREATE INDEX "events_subject" ON "events" USING btree ("scope","subject","at");--> statement-breakpoint
CREATE INDEX "events_rule" ON "events" USING btree ("rule_id","at");--> statement-breakpoint
CREATE INDEX "history_change_id" ON "history" USING btree ("change_id");--> statement-breakpoint
CREATE INDEX "history_at" ON "history" USING btree ("at");--> statement-breakpoint
CREATE INDEX "history_entity" ON "history" USING btree ("entity","entity_id","id");--> statement-breakpoint
CREATE INDEX "history_actor" ON "history" USING btree ("actor","id");--> statement-breakpoint
CREATE UNIQUE INDEX "list_entries_once" ON "list_entries" USING btree ("list","kind","value");--> statement-breakpoint
CREATE INDEX "tenants_tier" ON "tenants" USING btree ("tier");--> statement-breakpoint
CREATE UNIQUE INDEX "tiers_one_default" ON "tiers" USING btree ("is_default") WHERE "tiers"."is_default";--> statement-breakpoint
CREATE INDEX "users_tier" ON "users" USING btree ("tier");--> statement-breakpoint
CREATE INDEX "users_tenant_id" ON "users" USING btree ("tenant_id");--> statement-breakpoint
CREATE UNIQUE INDEX "rules_ordinal" ON "rules" USING btree ("ordinal");--> statement-breakpoint
ALTER TABLE "rules" ADD CONSTRAINT "rules_name_is_short" CHECK (length("rules"."name") between 1 and 128);--> statement-breakpoint
ALTER TABLE "rules" ADD CONSTRAINT "rules_methods_are_upper_case" CHECK (array_to_string("rules"."methods", ',', '?') ~ '^([A-Z]{1,20}(,[A-Z]{1,20})*)?$');--> statement-breakpoint
ALTER TABLE "rules" ADD CONSTRAINT "rules_tiers_has_no_null" CHECK (array_position("rules"."tiers", null) is null);--> statement-breakpoint
ALTER TABLE "rules" ADD CONSTRAINT "rules_subjects_has_no_null" CHECK (array_position("rules"."subjects", null) is null);--> statement-breakpoint
ALTER TABLE "rules" ADD CONSTRAINT "rules_global_has_no_subjects" CHECK ("rules"."scope" <> 'global' or "rules"."subjects" = '{}');--> statement-breakpoint
ALTER TABLE "rules" ADD CONSTRAINT "rules_has_a_limit" CHECK ("rules"."limit" is not null or "rules"."limit_name" is not null);--> statement-breakpoint
ALTER TABLE "rules" ADD CONSTRAINT "rules_limit_name_is_short" CHECK (length("rules"."limit_name") between 1 and 64);--> statement-breakpoint
ALTER TABLE "rules" ADD CONSTRAINT "rules_burst_has_its_algorithm" CHECK ("rules"."burst" is null or "rules"."burst" between 1 and 1000000000000 and "rules"."algorithm" in ('token-bucket', 'leaky-bucket', 'gcra'));--> statement-breakpoint
ALTER TABLE "rules" ADD CONSTRAINT "rules_buckets_have_their_algorithm" CHECK ("rules"."buckets" is null or "rules"."buckets" between 1 and 100 and "rules"."algorithm" = 'sliding-window-buckets');--> statement-breakpoint
ALTER TABLE "rules" ADD CONSTRAINT "rules_cost_is_positive" CHECK ("rules"."cost" between 1 and 1000000000);--> statement-breakpoint
ALTER TABLE "rules" ADD CONSTRAINT "rules_action_is_known" CHECK ("rules"."action" in ('reject', 'throttle', 'log'));--> statement-breakpoint
ALTER TABLE "rules" ADD CONSTRAINT "rules_max_delay_is_of_throttle" CHECK ("rules"."max_delay_ms" is null or "rules"."max_delay_ms" between 1 and 30000 and "rules"."action" = 'throttle');--> statement-breakpoint
ALTER TABLE "rules" ADD CONSTRAINT "rules_block_is_positive" CHECK ("rules"."block_seconds" between 1 and 31622400);--> statement-breakpoint
ALTER TABLE "rules" ADD CONSTRAINT "rules_status_is_an_error" CHECK ("rules"."status" between 400 and 599);--> statement-breakpoint
ALTER TABLE "rules" ADD CONSTRAINT "rules_message_is_short" CHECK (length("rules"."message") <= 1024);--> statement-breakpoint
ALTER TABLE "rules" ADD CONSTRAINT "rules_on_unavailable_is_known" CHECK ("rules"."on_unavailable" in ('open', 'closed', 'local'));--> statement-breakpoint
ALTER TABLE "rules" ADD CONSTRAINT "rules_shares_is_an_object" CHECK (jsonb_typeof("rules"."shares") = 'object');--> statement-breakpoint
ALTER TABLE "rules" ADD CONSTRAINT "rules_resource_is_a_path" CHECK ("rules"."resource" like '/%' and length("rules"."resource") <= 1024);--> statement-breakpoint
ALTER TABLE "rules" ADD CONSTRAINT "rules_scope_is_known" CHECK ("rules"."scope" in ('global', 'tenant', 'user', 'apiKey', 'ip'));--> statement-breakpoint
ALTER TABLE "rules" ADD CONSTRAINT "rules_limit_is_positive" CHECK ("rules"."limit" between 1 and 1000000000000);--> statement-breakpoint
ALTER TABLE "rules" ADD CONSTRAINT "rules_window_is_positive" CHECK ("rules"."window_seconds" between 1 and 31622400);