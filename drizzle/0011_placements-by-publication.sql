-- How rules were placed before is recorded by publications from now on, whoever changes a rule and however: the trigger
-- and its functions go.
CREATE TABLE "placements" (
	"id" text PRIMARY KEY NOT NULL,
	"placed" jsonb NOT NULL,
	"before" jsonb DEFAULT '[]'::jsonb NOT NULL,
	"updated_at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "placements_placed_is_an_object" CHECK (jsonb_typeof("placements"."placed") = 'object'),
	CONSTRAINT "placements_before_is_a_list_of_placements" CHECK (jsonb_typeof("placements"."before") = 'array' and not jsonb_path_exists("placements"."before", '$[*] ? (!((@.replacedAtMs.type() == "number" || @.replacedAtMs.type() == "null") && @.placed.type() == "object"))'))
);
--> statement-breakpoint
-- What is being moved while this runs goes on being moved.
INSERT INTO "placements" (id, placed, before)
SELECT '*', shares, (
  SELECT coalesce(jsonb_agg(jsonb_build_object('placed', entry -> 'shares', 'replacedAtMs', entry -> 'replacedAtMs') ORDER BY place), '[]')
  FROM jsonb_array_elements(before) WITH ORDINALITY AS listed (entry, place))
FROM "regional_split"
UNION ALL
SELECT id::text, jsonb_build_object('shares', shares, 'central', central, 'spill', spill, 'algorithm', algorithm,
  'action', action, 'countDenied', count_denied, 'blockSeconds', block_seconds, 'costFromOrigin', cost_from_origin), (
  SELECT coalesce(jsonb_agg(jsonb_build_object('placed', entry - 'replacedAtMs', 'replacedAtMs', entry -> 'replacedAtMs') ORDER BY place), '[]')
  FROM jsonb_array_elements(placed_before) WITH ORDINALITY AS listed (entry, place))
FROM "rules";
--> statement-breakpoint
DROP TRIGGER "keep_placement" ON "rules";--> statement-breakpoint
DROP FUNCTION weir_keep_placement();--> statement-breakpoint
DROP FUNCTION weir_add_replaced(jsonb, jsonb, numeric);--> statement-breakpoint
DROP FUNCTION weir_is_central(rules);--> statement-breakpoint
DROP FUNCTION weir_hold_ms(rules);--> statement-breakpoint
DROP TABLE "regional_split" CASCADE;--> statement-breakpoint
ALTER TABLE "rules" DROP CONSTRAINT "rules_placed_before_is_a_list_of_placements";--> statement-breakpoint
ALTER TABLE "rules" DROP COLUMN "placed_before";
