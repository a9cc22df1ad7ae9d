// Weir's own paths, all under /_weir. None of them is ever proxied.
import { type Context, Hono } from 'hono';
import { hasAdminCredentials } from '../core/authorization.ts';
import { OWN_PREFIX } from '../core/matching/resource.ts';
import { PLAIN_VIEWS, plainPath } from '../core/page-paths.ts';
import { problem } from '../core/problem.ts';
import { whenNeeded } from '../core/when-needed.ts';
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

  app.use(async ({ req: { raw } }, next) => (isForTheGate(raw) ? undefined : tooMany(raw)) ?? next());
  app.get('/health', async ({ req: { raw } }) => {
    const hasDetails = hasAdminCredentials(raw);
    const refusal = hasDetails ? await services.adminRefusal(raw) : undefined;
    return refusal ?? (await answers()).health(raw, { hasDetails });
  });
  app.get(
    '/metrics',
    async ({ req: { raw } }) => (await services.adminRefusal(raw)) ?? services.metrics(raw),
  );
  app.all('/quota', async (c) =>
    (await answers()).quota(c.req.raw, (work) => c.executionCtx.waitUntil(work)),
  );
  const check = async (c: Context) => (await checks())(c.req.raw, (work) => c.executionCtx.waitUntil(work));
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

const OPEN_TO_TOKENS: ReadonlySet<string> = new Set([`${OWN_PREFIX}/health`, `${OWN_PREFIX}/metrics`]);

/** Listed by hand, because Hono matches a route `/` only without the slash. */
const PAGE_PATHS: ReadonlySet<string> = new Set([
  ...['', '/', '/login', '/logout'].map((end) => OWN_PREFIX + end),
  ...PLAIN_VIEWS.map(plainPath),
]);

/** The admin route counts failed log-ins itself, and a valid token has no limit. */
function isForTheGate(request: Request): boolean {
  if (!hasAdminCredentials(request)) return false;
  const { pathname } = new URL(request.url);
  return (
    pathname.startsWith(`${OWN_PREFIX}/admin`) ||
    pathname.startsWith(`${OWN_PREFIX}/check`) ||
    OPEN_TO_TOKENS.has(pathname)
  );
}

export const nothingHere = () =>
  problem({ status: 404, code: 'not-found', title: 'Weir has nothing at this path' });
