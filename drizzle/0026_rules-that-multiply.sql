ALTER TABLE "weir"."rules" DROP CONSTRAINT "rules_has_an_algorithm";--> statement-breakpoint
ALTER TABLE "weir"."rules" DROP CONSTRAINT "rules_has_a_limit";--> statement-breakpoint
ALTER TABLE "weir"."rules" DROP CONSTRAINT "rules_has_a_window";--> statement-breakpoint
ALTER TABLE "weir"."rules" DROP CONSTRAINT "rules_action_is_known";--> statement-breakpoint
ALTER TABLE "weir"."rules" ADD COLUMN "times" double precision;--> statement-breakpoint
ALTER TABLE "weir"."rules" ADD CONSTRAINT "rules_times_are_of_multiply" CHECK (("weir"."rules"."times" is null) = ("weir"."rules"."action" <> 'multiply'));--> statement-breakpoint
ALTER TABLE "weir"."rules" ADD CONSTRAINT "rules_times_are_positive" CHECK ("weir"."rules"."times" between 0.001 and 1000000);--> statement-breakpoint
ALTER TABLE "weir"."rules" ADD CONSTRAINT "rules_multiply_looks_at_callers_alone" CHECK ("weir"."rules"."action" <> 'multiply' or cardinality("weir"."rules"."methods" || "weir"."rules"."hosts" || "weir"."rules"."routes" || "weir"."rules"."by" || "weir"."rules"."per") = 0 and not "weir"."rules"."replaces");--> statement-breakpoint
ALTER TABLE "weir"."rules" ADD CONSTRAINT "rules_has_an_algorithm" CHECK ("weir"."rules"."action" in ('allow', 'multiply') or "weir"."rules"."algorithm" is not null);--> statement-breakpoint
ALTER TABLE "weir"."rules" ADD CONSTRAINT "rules_has_a_limit" CHECK ("weir"."rules"."action" in ('allow', 'multiply') or "weir"."rules"."limits" <> '[]' or "weir"."rules"."limit" is not null or "weir"."rules"."limit_name" is not null);--> statement-breakpoint
ALTER TABLE "weir"."rules" ADD CONSTRAINT "rules_has_a_window" CHECK ("weir"."rules"."action" in ('allow', 'multiply') or "weir"."rules"."limits" <> '[]' or num_nonnulls("weir"."rules"."window_seconds", "weir"."rules"."window") = 1);--> statement-breakpoint
ALTER TABLE "weir"."rules" ADD CONSTRAINT "rules_action_is_known" CHECK ("weir"."rules"."action" in ('reject', 'throttle', 'log', 'allow', 'multiply'));