// The admin route, by which people and programs change rules, callers and settings, and read what Weir has recorded.
// An isolate loads it with its first admin request, so the gateway never pays for it.
//
// A request is answered in this order:
// 1. auth.ts finds out who asks: a bearer token, a session of the page, or Cloudflare Access. Whoever is not known gets
//    the same answer for every path, and an address that guesses has to wait (failed-attempts.ts).
// 2. operation.ts reads the parameters and the body by the declaration of the operation, and refuses what does not fit.
// 3. The operation answers. Tables that people edit are declared in collections.ts, and collection/ makes six operations
//    of each. All other operations are in routes/, a file for each group. import/ makes one document of the collections.
// 4. A change is one transaction, with the name of the actor for the history. publish-change.ts then publishes it. If
//    that fails, the change stays, the answer says so, and the cron run publishes it.
//
// Errors are thrown as ProblemError and rendered here, in one place and one shape. An answer never contains a message of
// Postgres, a token, or more than the beginning of what was sent. An operation that is not in the OpenAPI document does
// not exist: both come from the same declaration.

import { OpenAPIHono } from '@hono/zod-openapi';
import type { OriginPolicy } from '../core/matching/origin-routes.ts';
import type { RuleCheck } from '../core/matching/plan.ts';
import { OWN_PREFIX } from '../core/matching/resource.ts';
import type { Scope } from '../core/matching/rule.ts';
import type { Snapshot } from '../core/matching/snapshot.ts';
import type { AttemptGuard } from '../core/ports/callers.ts';
import type { CounterStore } from '../core/ports/region.ts';
import type { WeightedRegion } from '../core/regions/parts.ts';
import { ProblemError, render } from '../http/internal-requests.ts';
import type { HowToPublish, Publication } from '../rules/publishing/publish.ts';
import type { Database } from '../rules/tables/repository.ts';
import type { Family } from '../telemetry/fleet.ts';
import { createAuth, createGate, type Gate } from './auth.ts';
import { addCollection } from './collection/collection.ts';
import { COLLECTIONS } from './collections.ts';
import { postgresProblem } from './problems.ts';
import { addCounterRoutes } from './routes/counters.ts';
import { addExplainRoutes } from './routes/explain.ts';
import { addHistoryRoutes, addRevocationRoutes } from './routes/history.ts';
import { addImportExportRoutes } from './routes/import-export.ts';
import { addImportKeysRoutes } from './routes/import-keys.ts';
import { addLimitRoutes } from './routes/limits.ts';
import { addOpenApiRoutes } from './routes/openapi.ts';
import { addRecordRoutes } from './routes/records.ts';
import { addPublishRoutes, addSettingsRoutes } from './routes/settings.ts';
import { addTrafficRoutes } from './routes/traffic.ts';
import { addWouldDenyRoutes } from './routes/would-deny.ts';
import type { EndedSessions } from './session.ts';
import type { Finding } from './smoke.ts';
import { addSmokeRoutes } from './smoke.ts';

type AddRoutes = (app: AdminApp, services: AdminServices) => void;

/** A new group of operations is a file in routes/ and a line here. */
const ROUTE_GROUPS: readonly AddRoutes[] = [
  addSettingsRoutes,
  addHistoryRoutes,
  addExplainRoutes,
  addLimitRoutes,
  addCounterRoutes,
  addImportExportRoutes,
  addImportKeysRoutes,
  addPublishRoutes,
  addRevocationRoutes,
  addRecordRoutes,
  addWouldDenyRoutes,
  addSmokeRoutes,
  addTrafficRoutes,
  // Last: it describes all the others.
  addOpenApiRoutes,
];

const BASE = `${OWN_PREFIX}/admin`;

export function createAdminApp(services: AdminServices, gate: Gate = createGate(services)): AdminApp {
  const app = new OpenAPIHono<AdminEnv>().basePath(BASE);
  app.use(createAuth(gate));
  for (const collection of COLLECTIONS) addCollection(app, services, collection);
  for (const addRoutes of ROUTE_GROUPS) addRoutes(app, services);
  app.notFound((c) => nothingHere(app, c.req.path));
  app.onError((error) => {
    if (error instanceof ProblemError) return render(error.problem, error.headers);
    const body = postgresProblem(error);
    if (body.status >= 500) services.log.error('admin-failed', error);
    return render(body);
  });
  return app;
}

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'];

/** A 404; or, if the path exists for other methods, a 405 that lists them. */
function nothingHere({ routes }: AdminApp, path: string): Response {
  const here = new Set(
    routes.filter((route) => toPattern(route.path).test(path)).map(({ method }) => method),
  );
  if (here.has('GET')) here.add('HEAD');
  const allowed = METHODS.filter((method) => here.has(method)).join(', ');
  if (!allowed) return render({ status: 404, code: 'not-found', title: 'The admin route has nothing here' });
  const title = 'This method does nothing here';
  return render({ status: 405, code: 'method-not-allowed', title }, { Allow: allowed });
}

const toPattern = (path: string) =>
  new RegExp(`^${path.replaceAll('.', '\\.').replace(/:[^/]+/g, '[^/]+')}$`);

// The interfaces that the admin route needs. management.ts provides the real parts.

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
