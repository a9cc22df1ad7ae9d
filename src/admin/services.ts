// The interfaces that the admin route needs. management.ts provides the real parts.
import type { OpenAPIHono } from '@hono/zod-openapi';
import type { OriginPolicy } from '../core/matching/origin.ts';
import type { RuleCheck } from '../core/matching/plan.ts';
import type { Scope } from '../core/matching/rule.ts';
import type { Snapshot } from '../core/matching/snapshot.ts';
import type { AttemptGuard } from '../core/ports/attempt-guard.ts';
import type { CounterStore } from '../core/ports/counter-store.ts';
import type { WeightedRegion } from '../core/regions/parts.ts';
import type { HowToPublish, Publication } from '../rules/publishing/publish.ts';
import type { Database } from '../rules/tables/database.ts';
import type { Family } from '../telemetry/fleet.ts';
import type { EndedSessions } from './ended-sessions.ts';
import type { Finding } from './smoke/findings.ts';

export interface AdminServices {
  readonly database: Database;
  /** Publishes the rules in Postgres, so that they are in force everywhere. */
  readonly publish: (how?: HowToPublish) => Promise<Publication>;
  /** Uses every part once and reports the results. */
  readonly smoke: () => Promise<readonly Finding[]>;
  readonly regions: readonly (WeightedRegion & { readonly store: CounterStore })[];
  readonly auth: AdminAuthOptions;
  /** What the isolates of all regions have counted. */
  readonly fleet: () => Promise<readonly Family[]>;
  /** Brings the rules of this isolate up to date and returns them; undefined if there are none. */
  readonly rulesInForce: () => Promise<Snapshot | undefined>;
  /** A part of the keys that sign sessions of the page. */
  readonly sessionSecret?: string | undefined;
  readonly endedSessions: EndedSessions;
  /** Shared with the route for checks, which accepts the same tokens. */
  readonly guardAttempt?: AttemptGuard;
  /** Which origins routes may have. */
  readonly origins: OriginPolicy;
  /** Returns a subject as denials and usage store it. Left out: in plain text. */
  readonly storedSubject?: ((scope: Scope, subject: string) => Promise<string>) | undefined;
  /** A variable makes all rules only record what they would have done, whatever the settings say. */
  readonly isLogOnly?: boolean | undefined;
  /** Units that this isolate has charged in advance and not used; undefined if the check is never leased. */
  readonly leasedOf: (check: RuleCheck) => number | undefined;
  /** The length of the prefix by which rules count IPv6 addresses. */
  readonly ipv6Prefix: number;
  /** For a call to Redis. */
  readonly deadlineMs: number;
  readonly now: () => number;
  readonly log: { error(event: string, error: unknown): void };
}

/** `check` may only check. It may not use the admin route. */
const ROLES = ['admin', 'read', 'check'] as const;
export type Role = (typeof ROLES)[number];

export interface AdminToken {
  readonly name: string;
  readonly token: string;
  readonly role: Role;
}

export interface AdminAuthOptions {
  readonly tokens: readonly AdminToken[];
  /** Cloudflare Access in front of the admin route, if configured. */
  readonly access?: AccessOptions | undefined;
  /** The host that alone answers the page and the admin route; undefined: every host does. */
  readonly adminHost?: string | undefined;
}

export interface AccessOptions {
  /** `https://TEAM.cloudflareaccess.com` */
  readonly teamDomain: string;
  readonly audience: string;
  /** E-mail addresses that may change things; everybody else whom Access lets in may read. */
  readonly admins: readonly string[];
}

/** Who is asking: the name goes into the history. */
export interface Actor {
  readonly name: string;
  readonly role: Role;
}

export type AdminEnv = { Variables: { actor: Actor } };
export type AdminApp = OpenAPIHono<AdminEnv>;
