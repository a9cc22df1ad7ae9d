// The admin route: authentication, body limits, errors. The routes themselves are in routes/, a file for each group. It
// is loaded with the first admin request, so the gateway never pays for it.

import { OpenAPIHono } from '@hono/zod-openapi';
import { HTTPException } from 'hono/http-exception';
import type { OriginPolicy } from '../core/matching/origin-routes.ts';
import type { RuleCheck } from '../core/matching/plan.ts';
import { OWN_PREFIX } from '../core/matching/resource.ts';
import type { Scope } from '../core/matching/rule.ts';
import type { Snapshot } from '../core/matching/snapshot.ts';
import type { AttemptGuard } from '../core/ports/callers.ts';
import type { CounterStore } from '../core/ports/region.ts';
import type { WeightedRegion } from '../core/regions/parts.ts';
import { bodyNotRead, invalidBody, invalidRequest, ProblemError, render } from '../http/internal-problems.ts';
import type { Problem } from '../http/problem.ts';
import { readAtMost } from '../http/read-at-most.ts';
import type { HowToPublish, Publication } from '../rules/publishing/publish.ts';
import type { Database } from '../rules/tables/repository.ts';
import type { Family } from '../telemetry/fleet.ts';
import { createAuth, createGate, type Gate } from './auth.ts';
import { fieldErrors, postgresProblem } from './problems.ts';
import { ROUTE_GROUPS } from './routes/index.ts';
import type { EndedSessions } from './session.ts';
import type { Finding } from './smoke.ts';

const MEBIBYTE = 1024 * 1024;
/** Large enough for 10,000 rules. */
const MAX_BYTES_OF_AN_IMPORT = 10 * MEBIBYTE;
const MAX_BYTES = MEBIBYTE;
const BASE = `${OWN_PREFIX}/admin`;
const IMPORT_PATH = `${BASE}/import`;

export function createAdminApp(services: AdminServices, gate: Gate = createGate(services)): AdminApp {
  const app = createRouter().basePath(BASE);
  let needsBody: ReturnType<typeof createBodyNeeds> = () => false;
  app.use(createAuth(gate));
  app.use(async (c, next) => {
    // The body of a read means nothing, and no Request can be made of it.
    if (isRead(c.req.raw)) return next();
    const mostBytes = c.req.path === IMPORT_PATH ? MAX_BYTES_OF_AN_IMPORT : MAX_BYTES;
    const { raw } = c.req;
    const body = raw.body && (await readAtMost(raw, mostBytes));
    if (typeof body === 'string') return bodyNotRead(body, mostBytes);
    const isMissing = !body || isBlank(body);
    // Without this, a missing body would replace a row with defaults.
    if (isMissing && needsBody(c.req.method, c.req.path)) return render(MISSING_BODY);
    c.req.raw = isMissing ? withoutBody(raw) : new Request(raw, { body });
    return next();
  });
  for (const addRoutes of ROUTE_GROUPS) addRoutes(app, services);
  needsBody = createBodyNeeds(app);
  app.notFound((c) => nothingHere(app, c.req.path));
  app.onError((error) => {
    if (error instanceof ProblemError) return render(error.problem, error.headers);
    if (error instanceof HTTPException && error.status < 500)
      return render(error.status === 415 ? NOT_JSON : UNREADABLE);
    const body = postgresProblem(error);
    if (body.status >= 500) services.log.error('admin-failed', error);
    return render(body);
  });
  return app;
}

/** A body that only declares itself as JSON, where none is needed, counts as an object without fields. */
const withoutBody = (request: Request): Request =>
  // Bytes, because a text would name its type. A new request, because the body of this one may have been read.
  new Request(request, { body: request.headers.has('Content-Type') ? '{}' : new Uint8Array() });

const isRead = ({ method }: Request) => method === 'GET' || method === 'HEAD';

/** Blanks alone are no body, either. */
const isBlank = (body: Uint8Array): boolean =>
  body.every((byte) => byte === 32 || byte === 9 || byte === 10 || byte === 13);

/** Returns a test for requests to an operation that needs a body. */
function createBodyNeeds({ openAPIRegistry }: AdminApp): (method: string, path: string) => boolean {
  const needed = openAPIRegistry.definitions.flatMap((one) =>
    one.type === 'route' && one.route.request?.body?.required
      ? [{ method: one.route.method, pattern: toPattern(BASE + one.route.path.replace(/\{(\w+)\}/g, ':$1')) }]
      : [],
  );
  return (method, path) =>
    needed.some((one) => one.method.toUpperCase() === method && one.pattern.test(path));
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

const NOT_JSON: Problem = {
  status: 415,
  code: 'not-json',
  title: 'The body must be JSON',
  detail: 'Send it with Content-Type: application/json.',
};

const MISSING_BODY: Problem = {
  status: 400,
  code: 'missing-body',
  title: 'The body is missing',
  detail: 'Send a JSON object; {} is one without fields.',
};

const UNREADABLE: Problem = { status: 400, code: 'invalid-json', title: 'The body is not JSON' };

const createRouter = () =>
  new OpenAPIHono<AdminEnv>({
    defaultHook(result) {
      if (result.success) return;
      // The result has the input after a failure, too, although its type does not say so.
      const input = 'data' in result ? result.data : undefined;
      throw result.target === 'json'
        ? invalidBody(fieldErrors(result.error, input))
        : invalidRequest(fieldErrors(result.error, input, (path) => path.join('.')));
    },
  });

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
