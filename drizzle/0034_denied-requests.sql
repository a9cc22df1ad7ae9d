CREATE TABLE "weir"."denied_requests" (
	"request_id" text PRIMARY KEY NOT NULL,
	"at" timestamp with time zone NOT NULL,
	"status" integer NOT NULL,
	"code" text NOT NULL,
	"method" text NOT NULL,
	"route" text NOT NULL,
	"region" text NOT NULL,
	"tenant_id" text NOT NULL,
	"user_id" text NOT NULL,
	"api_key_id" text NOT NULL,
	"rules" jsonb NOT NULL
);
--> statement-breakpoint
CREATE INDEX "denied_requests_at" ON "weir"."denied_requests" USING btree ("at","request_id");