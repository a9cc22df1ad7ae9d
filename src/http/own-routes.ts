// Weir's own paths, all under /_weir. Nothing here is ever proxied.
import { Hono } from 'hono';
import { OWN_PREFIX } from '../core/resource.ts';
import { isAdmin } from './admin-auth.ts';
import { createHealth } from './health.ts';
import { problem } from './problem.ts';
import type { Services } from './services.ts';

export function createOwnRoutes(services: Services): Hono {
  const app = new Hono().basePath(OWN_PREFIX);
  const health = createHealth(services);

  app.get('/health', (c) => health(c.req.raw, (work) => c.executionCtx.waitUntil(work)));

  app.use('/admin/*', async (c, next) => {
    if (await isAdmin(c.req.raw, services.adminToken)) return next();
    return problem(
      { status: 401, code: 'unauthorized', title: 'An admin token is needed' },
      { 'WWW-Authenticate': 'Bearer' },
    );
  });

  app.post('/admin/publish', async (c) => {
    try {
      return c.json(await services.publish());
    } catch (error) {
      services.log.error('publish-failed', error);
      return problem({
        status: 503,
        code: 'publish-failed',
        title: 'The rules could not be published',
        detail: `${reasonOf(error)} The rules that were in force stay in force.`,
      });
    }
  });

  app.notFound(() => problem({ status: 404, code: 'not-found', title: 'Weir has nothing at this path' }));
  return app;
}

const UNDEFINED_TABLE = '42P01';

/** The likeliest mistake of a first deployment has a reason of its own. */
function reasonOf(error: unknown): string {
  const cause = error instanceof Error ? (error.cause ?? error) : error;
  const code = cause instanceof Error && 'code' in cause ? cause.code : undefined;
  if (code === UNDEFINED_TABLE) return 'The tables are missing: run `npm run db:migrate`.';
  return 'Postgres or KV did not answer.';
}
