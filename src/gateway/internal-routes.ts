// Weir's own paths, all under /_weir. None of them is ever proxied.

import { type Context, Hono } from 'hono';
import { createBoundedCounters, runChecks } from '../core/counting/counters.ts';
import { lazyModule } from '../core/lazy-module.ts';
import { UNKNOWN_CALLER } from '../core/matching/caller.ts';
import { countedIp } from '../core/matching/ip.ts';
import { hostOf } from '../core/matching/origin-routes.ts';
import { OWN_PREFIX } from '../core/matching/resource.ts';
import { hasAdminCredentials, sessionCookieOf } from '../http/credentials.ts';
import { runAfterResponse } from '../http/guard.ts';
import { problem } from '../http/problem.ts';
import type { AppBehind, Services } from './services.ts';

type Env = { Bindings: AppBehind };

// Limits requests to Weir's own paths. They are public, and some cost calls to Redis, KV or Postgres. The isolate
// counts each address in memory, before it does anything else.

/** More than any dashboard or health check needs. */
const PER_MINUTE = 120;
/** A page that opens, or a test that polls. */
const AT_ONCE = 60;
/** Beyond this, the isolate forgets the address seen longest ago. */
const MAX_ADDRESSES = 10_000;

/** Returns a test of requests: a 429 if the address has asked too often, else undefined. */
function createInternalLimit({ now, identity: { ipv6Prefix } }: Pick<Services, 'now' | 'identity'>) {
  const counters = createBoundedCounters(MAX_ADDRESSES);
  const check = { id: 'internal', limit: PER_MINUTE, windowMs: 60_000, extra: AT_ONCE, cost: 1 } as const;

  return ({ headers }: Request): Response | undefined => {
    const { ip: key } = countedIp(headers.get('CF-Connecting-IP') ?? '', ipv6Prefix) ?? UNKNOWN_CALLER;
    const { outcomes } = runChecks('take', [{ ...check, key, algorithm: 'token-bucket' }], now(), counters);
    const [outcome] = outcomes;
    return outcome?.allowed === false ? tooMany(outcome.retryAfterMs ?? 0) : undefined;
  };
}

const tooMany = (waitMs: number) =>
  problem({
    status: 429,
    code: 'too-many-requests',
    title: 'Too many requests to Weir itself',
    detail: `An address may ask ${AT_ONCE} times at once and ${PER_MINUTE} times a minute.`,
    'retry-after': Math.max(1, Math.ceil(waitMs / 1_000)),
  });

export function createInternalRoutes(services: Services): Hono<Env> {
  const app = new Hono<Env>();
  const load = () => import('./internal-handlers.ts');
  const health = lazyModule(load, ({ createHealth }) => createHealth(services));
  const quota = lazyModule(load, ({ createQuota }) => createQuota(services));
  const check = lazyModule(load, ({ createCheckRoute }) => createCheckRoute(services));
  const refuseTooMany = createInternalLimit(services);

  const { adminHost } = services;
  const hasCredentials = (request: Request) => hasAdminCredentials(request, sessionCookieOf(adminHost));
  const isForAdmins = ({ url }: Request) => adminHost === undefined || hostOf(url) === adminHost;

  /** The gate counts failed log-ins itself, and a valid token has no limit. */
  const isForTheGate = (request: Request, path: string) =>
    (path.startsWith(CHECK) || (isForAdmins(request) && isOpenToTokens(path))) && hasCredentials(request);

  app.use(async (c, next) => {
    const { raw, path } = c.req;
    if (!isForAdmins(raw) && !isForEveryHost(path)) return nothingHere();
    const refused = isForTheGate(raw, path) ? undefined : refuseTooMany(raw);
    if (refused) return refused;
    await next();
    if (isOpenToTokens(path)) keepFromScripts(c.res.headers);
    return undefined;
  });
  app.get('/health', async ({ req: { raw } }) => {
    // On other hosts, nobody learns more than a stranger, so that a script on a proxied page does not, either.
    const hasDetails = isForAdmins(raw) && hasCredentials(raw);
    const refusal = hasDetails ? await services.adminRefusal(raw) : undefined;
    return refusal ?? (await health())(raw, { hasDetails });
  });
  app.get(
    '/metrics',
    async ({ req: { raw } }) => (await services.adminRefusal(raw)) ?? services.metrics(raw),
  );
  const answerBy = (handler: typeof quota | typeof check) => async (c: Context<Env>) =>
    (await handler())(c.req.raw, (work) => runAfterResponse(services.log, c, work), c.env.named);
  app.all('/quota', answerBy(quota));
  app.all('/check', answerBy(check));
  app.all('/check/*', answerBy(check));
  app.all('/admin', (c) => services.admin(c.req.raw, c.executionCtx));
  app.all('/admin/*', (c) => services.admin(c.req.raw, c.executionCtx));
  app.all('*', ({ req: { raw, path } }) => (PAGE_PATHS.has(path) ? services.page(raw) : nothingHere()));
  return app;
}

const HEALTH = `${OWN_PREFIX}/health`;
const CHECK = `${OWN_PREFIX}/check`;

/** Listed by hand, because Hono matches a route `/` only without the slash. */
const PAGE_PATHS: ReadonlySet<string> = new Set(
  ['', '/', '/login', '/logout'].map((end) => OWN_PREFIX + end),
);

const isOpenToTokens = (path: string): boolean =>
  path.startsWith(`${OWN_PREFIX}/admin`) || path === HEALTH || path === `${OWN_PREFIX}/metrics`;

/**
 * A script on a proxied page of the same host may not ask for these answers. So it must not find them in the cache of
 * the browser either, nor read a window in which it has opened one: a sandboxed document has no origin in common with
 * any page. The description of the admin route has a policy of its own, and no secrets.
 */
function keepFromScripts(headers: Headers): void {
  headers.set('Cache-Control', 'no-store');
  if (!headers.has('Content-Security-Policy')) headers.set('Content-Security-Policy', 'sandbox');
}

/** These are for callers and monitors. Everything else is for admins, and with ADMIN_HOST no other host has it. */
const isForEveryHost = (path: string): boolean =>
  path === HEALTH || path === `${OWN_PREFIX}/quota` || path === CHECK || path.startsWith(`${CHECK}/`);

export const nothingHere = () =>
  problem({ status: 404, code: 'not-found', title: 'Weir has nothing at this path' });
