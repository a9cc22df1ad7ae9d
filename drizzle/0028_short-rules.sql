ALTER TABLE "weir"."rules" ALTER COLUMN "scope" SET DEFAULT 'ip';--> statement-breakpoint
ALTER TABLE "weir"."rules" ALTER COLUMN "algorithm" SET DEFAULT 'sliding-window-counter';