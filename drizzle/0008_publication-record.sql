CREATE SEQUENCE "public"."changes" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1;--> statement-breakpoint
CREATE TABLE "last_publication" (
	"id" integer PRIMARY KEY DEFAULT 1 NOT NULL,
	"sequence" bigint NOT NULL,
	"announcement" text NOT NULL,
	"fingerprint" text NOT NULL,
	"callers_since" timestamp with time zone NOT NULL,
	"bytes" integer NOT NULL,
	CONSTRAINT "last_publication_is_one" CHECK ("last_publication"."id" = 1)
);
--> statement-breakpoint
-- Not valid: rules that have such a name already stay in force, and are refused when they are next changed.
ALTER TABLE "rules" ADD CONSTRAINT "rules_name_has_no_control_characters" CHECK (not "rules"."name" ~ '[\u0001-\u001f\u007f-\u009f\u2028\u2029]') NOT VALID;
