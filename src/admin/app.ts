// The admin route: authentication, body limits, errors. The routes themselves are in routes/, a file for each group. It
// is loaded with the first admin request, so the gateway never pays for it.
import { OpenAPIHono } from '@hono/zod-openapi';
import { HTTPException } from 'hono/http-exception';
import { OWN_PREFIX } from '../core/matching/resource.ts';
import { bodyTooLarge } from '../core/problem.ts';
import { readAtMost } from '../core/read-at-most.ts';
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
  app.use(async (c, next) => {
    const mostBytes = c.req.path === IMPORT_PATH ? MAX_BYTES_OF_AN_IMPORT : MAX_BYTES;
    const { raw } = c.req;
    const body = raw.body && (await readAtMost(raw.body, mostBytes));
    if (body === undefined) return bodyTooLarge(mostBytes);
    c.req.raw = withBody(body ? new Request(raw, { body }) : raw);
    return next();
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

/** Turns an empty JSON body into an empty object, so that the error names the missing fields. */
function withBody(request: Request): Request {
  const { method, body, headers } = request;
  const isEmpty = body === null || headers.get('Content-Length') === '0';
  if (!isEmpty || method === 'GET' || method === 'HEAD' || !headers.has('Content-Type')) return request;
  return new Request(request, { body: '{}' });
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
      // The result has the input after a failure, too, although its type does not say so.
      const input = 'data' in result ? result.data : undefined;
      const toProblem = result.target === 'json' ? invalidBody : invalidRequest;
      return render(toProblem(result.error, input));
    },
  });
