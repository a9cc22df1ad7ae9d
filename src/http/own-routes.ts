// Weir's own paths, all under /_weir. Nothing here is ever proxied.
import { Hono } from 'hono';
import { OWN_PREFIX } from '../core/resource.ts';
import { createHealth } from './health.ts';
import { problem } from './problem.ts';
import { createQuota } from './quota.ts';
import type { Services } from './services.ts';

export function createOwnRoutes(services: Services): Hono {
  const app = new Hono().basePath(OWN_PREFIX);
  const health = createHealth(services);
  const quota = createQuota({ ...services, ...services.identity });

  app.get('/health', (c) => health(c.req.raw));
  app.all('/quota', (c) => quota(c.req.raw, (work) => c.executionCtx.waitUntil(work)));
  app.all('/admin', (c) => services.admin(c.req.raw, c.executionCtx));
  app.all('/admin/*', (c) => services.admin(c.req.raw, c.executionCtx));
  app.notFound(nothingHere);
  return app;
}

export const nothingHere = () =>
  problem({ status: 404, code: 'not-found', title: 'Weir has nothing at this path' });
