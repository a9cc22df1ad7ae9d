ALTER TABLE "rules" ADD COLUMN "cost_from_origin" boolean DEFAULT false NOT NULL;--> statement-breakpoint
ALTER TABLE "rules" ADD COLUMN "refund_on_error" boolean DEFAULT false NOT NULL;--> statement-breakpoint
ALTER TABLE "rules" ADD CONSTRAINT "rules_throttle_has_its_algorithm" CHECK ("rules"."action" <> 'throttle' or "rules"."algorithm" = 'leaky-bucket');--> statement-breakpoint
ALTER TABLE "rules" ADD CONSTRAINT "rules_leases_have_no_cost_from_origin" CHECK ("rules"."algorithm" <> 'concurrency' or not ("rules"."cost_from_origin" or "rules"."count_denied"));