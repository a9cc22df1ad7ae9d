CREATE TABLE "weir"."denials" (
	"at" timestamp with time zone NOT NULL,
	"scope" text NOT NULL,
	"rule_id" text NOT NULL,
	"rule_name" text NOT NULL,
	"subject" text NOT NULL,
	"tenant_id" text NOT NULL,
	"user_id" text NOT NULL,
	"api_key_id" text NOT NULL,
	"count" bigint NOT NULL,
	CONSTRAINT "denials_once" PRIMARY KEY("at","scope","rule_id","subject","tenant_id","user_id","api_key_id"),
	CONSTRAINT "denials_count_is_positive" CHECK ("weir"."denials"."count" >= 1)
);
--> statement-breakpoint
CREATE INDEX "denials_scope_at" ON "weir"."denials" USING btree ("scope","at");--> statement-breakpoint
CREATE INDEX "denials_subject" ON "weir"."denials" USING btree ("scope","subject","at");--> statement-breakpoint
CREATE INDEX "denials_rule" ON "weir"."denials" USING btree ("rule_id","at");--> statement-breakpoint
CREATE INDEX "denials_tenant" ON "weir"."denials" USING btree ("tenant_id","at") WHERE "weir"."denials"."tenant_id" <> '';--> statement-breakpoint
CREATE INDEX "denials_user" ON "weir"."denials" USING btree ("user_id","at") WHERE "weir"."denials"."user_id" <> '';--> statement-breakpoint
CREATE INDEX "denials_key" ON "weir"."denials" USING btree ("api_key_id","at") WHERE "weir"."denials"."api_key_id" <> '';