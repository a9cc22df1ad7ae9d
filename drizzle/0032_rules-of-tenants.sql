ALTER TABLE "weir"."rules" DROP CONSTRAINT "rules_scope_is_known";--> statement-breakpoint
ALTER TABLE "weir"."rules" ADD COLUMN "tenants" text[] DEFAULT '{}' NOT NULL;--> statement-breakpoint
ALTER TABLE "weir"."rules" ADD CONSTRAINT "rules_tenants_has_no_null" CHECK (array_position("weir"."rules"."tenants", null) is null);--> statement-breakpoint
ALTER TABLE "weir"."rules" ADD CONSTRAINT "rules_all_counts_nothing" CHECK ("weir"."rules"."scope" <> 'all' or "weir"."rules"."action" in ('allow', 'multiply'));--> statement-breakpoint
ALTER TABLE "weir"."rules" ADD CONSTRAINT "rules_all_has_no_subjects" CHECK ("weir"."rules"."scope" <> 'all' or "weir"."rules"."subjects" = '{}' and "weir"."rules"."percent" = 100);--> statement-breakpoint
ALTER TABLE "weir"."rules" ADD CONSTRAINT "rules_tenants_stand_alone" CHECK ("weir"."rules"."tenants" = '{}' or "weir"."rules"."scope" <> 'tenant' or "weir"."rules"."subjects" = '{}');--> statement-breakpoint
ALTER TABLE "weir"."rules" ADD CONSTRAINT "rules_multiply_has_counters_of_tenants" CHECK ("weir"."rules"."tenants" = '{}' or "weir"."rules"."action" <> 'multiply' or "weir"."rules"."scope" not in ('ip', 'global'));--> statement-breakpoint
ALTER TABLE "weir"."rules" ADD CONSTRAINT "rules_scope_is_known" CHECK ("weir"."rules"."scope" in ('global', 'tenant', 'user', 'apiKey', 'ip', 'all'));