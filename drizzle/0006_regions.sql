CREATE TABLE "regional_split" (
	"id" integer PRIMARY KEY DEFAULT 1 NOT NULL,
	"shares" jsonb NOT NULL,
	"before" jsonb DEFAULT '[]'::jsonb NOT NULL,
	"updated_at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "regional_split_is_one" CHECK ("regional_split"."id" = 1),
	CONSTRAINT "regional_split_shares_is_an_object" CHECK (jsonb_typeof("regional_split"."shares") = 'object'),
	CONSTRAINT "regional_split_shares_are_parts" CHECK (jsonb_typeof("regional_split"."shares") <> 'object' or not jsonb_path_exists("regional_split"."shares", '$.* ? (@.type() != "number" || @ < 0)') and jsonb_path_exists("regional_split"."shares", '$.* ? (@ > 0)')),
	CONSTRAINT "regional_split_before_is_a_list_of_splits" CHECK (jsonb_typeof("regional_split"."before") = 'array' and not jsonb_path_exists("regional_split"."before", '$[*] ? (!(@.replacedAtMs.type() == "number" && @.shares.type() == "object"))'))
);
--> statement-breakpoint
ALTER TABLE "rules" ADD COLUMN "central" boolean DEFAULT false NOT NULL;--> statement-breakpoint
ALTER TABLE "rules" ADD COLUMN "placed_before" jsonb DEFAULT '[]'::jsonb NOT NULL;--> statement-breakpoint
ALTER TABLE "rules" ADD CONSTRAINT "rules_shares_are_parts" CHECK (jsonb_typeof("rules"."shares") <> 'object' or not jsonb_path_exists("rules"."shares", '$.* ? (@.type() != "number" || @ < 0)') and jsonb_path_exists("rules"."shares", '$.* ? (@ > 0)'));--> statement-breakpoint
ALTER TABLE "rules" ADD CONSTRAINT "rules_central_has_no_shares" CHECK (not "rules"."central" or "rules"."shares" is null);--> statement-breakpoint
ALTER TABLE "rules" ADD CONSTRAINT "rules_placed_before_is_a_list_of_placements" CHECK (jsonb_typeof("rules"."placed_before") = 'array' and not jsonb_path_exists("rules"."placed_before", '$[*] ? (!(@.replacedAtMs.type() == "number" && @.central.type() == "boolean" && (@.shares.type() == "object" || @.shares.type() == "null")))'));