// Weir's own paths, all under /_weir. None of them is ever proxied.
import { type Context, Hono } from 'hono';
import { hasAdminCredentials } from '../core/authorization.ts';
import { hostOf } from '../core/matching/origin-routes.ts';
import { OWN_PREFIX } from '../core/matching/resource.ts';
import { PLAIN_VIEWS, plainPath } from '../core/page-paths.ts';
import { problem } from '../core/problem.ts';
import { sessionCookieOf } from '../core/session-cookie.ts';
import { whenNeeded } from '../core/when-needed.ts';
import { runAfterResponse } from './guard.ts';
import { createOwnLimit } from './own-limit.ts';
import type { Services } from './services.ts';

export function createOwnRoutes(services: Services): Hono {
  const app = new Hono();
  const answers = whenNeeded(
    () => import('./own-answers.ts'),
    ({ createHealth, createQuota }) => ({
      health: createHealth(services),
      quota: createQuota({ ...services, ...services.identity }),
    }),
  );
  const checks = whenNeeded(
    () => import('./own-answers.ts'),
    ({ createCheckRoute }) => createCheckRoute(services),
  );
  const tooMany = createOwnLimit({ now: services.now, ipv6Prefix: services.identity.ipv6Prefix });

  const { adminHost } = services;
  const hasCredentials = (request: Request) => hasAdminCredentials(request, sessionCookieOf(adminHost));
  const isForAdmins = ({ url }: Request) => adminHost === undefined || hostOf(url) === adminHost;

  /** The gate counts failed log-ins itself, and a valid token has no limit. */
  const isForTheGate = (request: Request, path: string) =>
    (path.startsWith(CHECK) || (isForAdmins(request) && isOpenToTokens(path))) && hasCredentials(request);

  app.use(async (c, next) => {
    const { raw, path } = c.req;
    if (!isForAdmins(raw) && !isForEveryHost(path)) return nothingHere();
    const refused = isForTheGate(raw, path) ? undefined : tooMany(raw);
    if (refused) return refused;
    await next();
    if (isOpenToTokens(path)) keepFromScripts(c.res.headers);
    return undefined;
  });
  app.get('/health', async ({ req: { raw } }) => {
    // On other hosts, nobody learns more than a stranger, so that a script on a proxied page does not, either.
    const hasDetails = isForAdmins(raw) && hasCredentials(raw);
    const refusal = hasDetails ? await services.adminRefusal(raw) : undefined;
    return refusal ?? (await answers()).health(raw, { hasDetails });
  });
  app.get(
    '/metrics',
    async ({ req: { raw } }) => (await services.adminRefusal(raw)) ?? services.metrics(raw),
  );
  app.all('/quota', async (c) =>
    (await answers()).quota(c.req.raw, (work) => runAfterResponse(services.log, c, work)),
  );
  const check = async (c: Context) =>
    (await checks())(c.req.raw, (work) => runAfterResponse(services.log, c, work));
  app.all('/check', check);
  app.all('/check/*', check);
  app.all('/admin', (c) => services.admin(c.req.raw, c.executionCtx));
  app.all('/admin/*', (c) => services.admin(c.req.raw, c.executionCtx));
  app.all('*', ({ req: { raw, path } }) =>
    PAGE_PATHS.has(path)
      ? services.page(raw, async () => (await answers()).health(raw, { hasDetails: true }))
      : nothingHere(),
  );
  return app;
}

const HEALTH = `${OWN_PREFIX}/health`;
const CHECK = `${OWN_PREFIX}/check`;

/** Listed by hand, because Hono matches a route `/` only without the slash. */
const PAGE_PATHS: ReadonlySet<string> = new Set([
  ...['', '/', '/login', '/logout'].map((end) => OWN_PREFIX + end),
  ...PLAIN_VIEWS.map(plainPath),
]);

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
