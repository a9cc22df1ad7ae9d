// Weir's own paths, all under /_weir. Nothing here is ever proxied.
import { type ExecutionContext, Hono } from 'hono';
import { hasAdminCredentials } from '../core/authorization.ts';
import { OWN_PREFIX } from '../core/matching/resource.ts';
import { createHealth } from './health.ts';
import { createOwnLimit } from './own-limit.ts';
import { problem } from './problem.ts';
import { createQuota } from './quota.ts';
import type { Services } from './services.ts';

export interface OwnRoutes {
  fetch(request: Request, context: ExecutionContext): Response | Promise<Response>;
}

export function createOwnRoutes(services: Services): OwnRoutes {
  const app = new Hono().basePath(OWN_PREFIX);
  const health = createHealth(services);
  const quota = createQuota({ ...services, ...services.identity });
  const tooMany = createOwnLimit({ now: services.now, ipv6Prefix: services.identity.ipv6Prefix });

  app.get('/health', async ({ req: { raw } }) => {
    if (!hasAdminCredentials(raw)) return health(raw, { hasDetails: false });
    return (await services.adminRefusal(raw)) ?? health(raw, { hasDetails: true });
  });
  app.all('/quota', (c) => quota(c.req.raw, (work) => c.executionCtx.waitUntil(work)));
  app.all('/admin', (c) => services.admin(c.req.raw, c.executionCtx));
  app.all('/admin/*', (c) => services.admin(c.req.raw, c.executionCtx));
  app.notFound(nothingHere);
  return {
    fetch: (request, context) =>
      (isForTheGate(request) ? undefined : tooMany(request)) ?? app.fetch(request, undefined, context),
  };
}

/** The gate of the admin route counts failures itself, and a right token has no limit. */
function isForTheGate(request: Request): boolean {
  if (!hasAdminCredentials(request)) return false;
  const { pathname } = new URL(request.url);
  return pathname.startsWith(`${OWN_PREFIX}/admin`) || pathname === `${OWN_PREFIX}/health`;
}

export const nothingHere = () =>
  problem({ status: 404, code: 'not-found', title: 'Weir has nothing at this path' });
