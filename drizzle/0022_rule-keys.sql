ALTER TABLE "weir"."rules" ADD COLUMN "per" text[] DEFAULT '{}' NOT NULL;--> statement-breakpoint
ALTER TABLE "weir"."rules" ADD COLUMN "by" text[] DEFAULT '{}' NOT NULL;--> statement-breakpoint
ALTER TABLE "weir"."rules" ADD COLUMN "bound_times" integer DEFAULT 10 NOT NULL;--> statement-breakpoint
ALTER TABLE "weir"."rules" ADD COLUMN "hosts" text[] DEFAULT '{}' NOT NULL;--> statement-breakpoint
ALTER TABLE "weir"."rules" ADD COLUMN "routes" text[] DEFAULT '{}' NOT NULL;--> statement-breakpoint
ALTER TABLE "weir"."settings" ADD COLUMN "file_extensions" text DEFAULT 'part' NOT NULL;--> statement-breakpoint
ALTER TABLE "weir"."rules" ADD CONSTRAINT "rules_per_is_known" CHECK ("weir"."rules"."per" <@ array['route', 'method']);--> statement-breakpoint
ALTER TABLE "weir"."rules" ADD CONSTRAINT "rules_by_are_parts" CHECK (cardinality("weir"."rules"."by") <= 3 and array_to_string("weir"."rules"."by", ',', '?') ~ '^((user|apiKey|tenant|ip|country|asn|colo|header:[A-Za-z0-9-]{1,64}|(claim|param):[A-Za-z0-9_-]{1,64})(,(user|apiKey|tenant|ip|country|asn|colo|header:[A-Za-z0-9-]{1,64}|(claim|param):[A-Za-z0-9_-]{1,64}))*)?$');--> statement-breakpoint
ALTER TABLE "weir"."rules" ADD CONSTRAINT "rules_by_has_a_bound" CHECK ("weir"."rules"."scope" <> 'global' or array_to_string("weir"."rules"."by", ',') !~ '(^|,)(header|param):');--> statement-breakpoint
ALTER TABLE "weir"."rules" ADD CONSTRAINT "rules_bound_times_is_positive" CHECK ("weir"."rules"."bound_times" between 1 and 1000000);--> statement-breakpoint
ALTER TABLE "weir"."rules" ADD CONSTRAINT "rules_throttle_has_no_parts" CHECK ("weir"."rules"."action" <> 'throttle' or "weir"."rules"."by" = '{}');--> statement-breakpoint
ALTER TABLE "weir"."rules" ADD CONSTRAINT "rules_hosts_are_hosts" CHECK (cardinality("weir"."rules"."hosts") <= 20 and array_to_string("weir"."rules"."hosts", ',', '?') ~ '^((\*\.)?[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*(,(\*\.)?[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*)*)?$');--> statement-breakpoint
ALTER TABLE "weir"."rules" ADD CONSTRAINT "rules_routes_has_no_null" CHECK (array_position("weir"."rules"."routes", null) is null);--> statement-breakpoint
ALTER TABLE "weir"."settings" ADD CONSTRAINT "settings_file_extensions_is_known" CHECK ("weir"."settings"."file_extensions" in ('part', 'ignored'));