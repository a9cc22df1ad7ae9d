// The admin route: who may enter, what a body may be, how errors look; the routes themselves are in routes/, a
// file for each group. Loaded when the first admin request comes: the gateway never pays for it.
import { OpenAPIHono } from '@hono/zod-openapi';
import { bodyLimit } from 'hono/body-limit';
import { HTTPException } from 'hono/http-exception';
import { OWN_PREFIX } from '../core/matching/resource.ts';
import { createAuth, createGate, type Gate } from './auth.ts';
import { postgresProblem } from './postgres-problems.ts';
import { AdminError, type AdminProblem, invalidBody, invalidRequest, render } from './problems.ts';
import { ROUTE_GROUPS } from './routes/index.ts';
import type { AdminApp, AdminEnv, AdminServices } from './services.ts';

const MEBIBYTE = 1024 * 1024;
/** Large enough for 10,000 rules. */
const MAX_BYTES_OF_AN_IMPORT = 10 * MEBIBYTE;
const MAX_BYTES = MEBIBYTE;
const IMPORT_PATH = `${OWN_PREFIX}/admin/import`;

export function createAdminApp(services: AdminServices, gate: Gate = createGate(services)): AdminApp {
  const app = createRouter().basePath(`${OWN_PREFIX}/admin`);
  app.use(createAuth(gate));
  app.use((c, next) => (c.req.path === IMPORT_PATH ? limitImport : limitBody)(c, next));
  app.use(async (c, next) => {
    c.req.raw = withBody(c.req.raw);
    await next();
  });
  for (const addRoutes of ROUTE_GROUPS) addRoutes(app, services);
  app.notFound((c) => nothingHere(app, c.req.path));
  app.onError((error) => {
    if (error instanceof AdminError) return render(error.problem, error.headers);
    if (error instanceof HTTPException && error.status < 500)
      return render(error.status === 415 ? NOT_JSON : UNREADABLE);
    const body = postgresProblem(error);
    if (body.status >= 500) services.log.error('admin-failed', error);
    return render(body);
  });
  return app;
}

/** Clients that declare JSON and send nothing mean an empty object: what is missing in it is told by name. */
function withBody(request: Request): Request {
  const { method, body, headers } = request;
  const isEmpty = body === null || headers.get('Content-Length') === '0';
  if (!isEmpty || method === 'GET' || method === 'HEAD' || !headers.has('Content-Type')) return request;
  return new Request(request, { body: '{}' });
}

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'];

/** Nothing at this path; or nothing for this method, and then those that there is something for. */
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

const bodyOfAtMost = (mostBytes: number) =>
  bodyLimit({
    maxSize: mostBytes,
    onError: () =>
      render({
        status: 413,
        code: 'body-too-large',
        title: 'The body is too large',
        detail: `At most ${mostBytes / MEBIBYTE} MiB.`,
      }),
  });

const limitImport = bodyOfAtMost(MAX_BYTES_OF_AN_IMPORT);
const limitBody = bodyOfAtMost(MAX_BYTES);

const NOT_JSON: AdminProblem = {
  status: 415,
  code: 'not-json',
  title: 'The body must be JSON',
  detail: 'Send it with Content-Type: application/json.',
};

const UNREADABLE: AdminProblem = { status: 400, code: 'invalid-json', title: 'The body is not JSON' };

const createRouter = () =>
  new OpenAPIHono<AdminEnv>({
    defaultHook(result) {
      if (result.success) return;
      // What was validated is there for a failure too, though the type does not tell.
      const input = 'data' in result ? result.data : undefined;
      const toProblem = result.target === 'json' ? invalidBody : invalidRequest;
      return render(toProblem(result.error, input));
    },
  });
