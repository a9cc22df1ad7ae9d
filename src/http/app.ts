// The front door: one canonical path per request, then either Weir's own routes or the gateway.
import { canonicalPath } from '../core/canonical-path.ts';
import { handleGateway } from './gateway.ts';
import { createOwnRoutes, isOwnPath } from './own-routes.ts';
import { problem } from './problem.ts';
import type { Services } from './services.ts';

export interface App {
  fetch(request: Request, context: ExecutionContext): Promise<Response>;
}

export function createApp(services: Services): App {
  const ownRoutes = createOwnRoutes(services);

  return {
    async fetch(request, context) {
      const url = new URL(request.url);
      const canonical = canonicalPath(url.pathname);
      if (!canonical.ok)
        return problem({ status: 400, code: 'bad-path', title: 'Ambiguous path', detail: canonical.reason });
      const { path, matchPath } = canonical;
      if (isOwnPath(matchPath)) {
        url.pathname = matchPath;
        return ownRoutes.fetch(new Request(url, request), undefined, context);
      }
      return handleGateway(services, {
        request,
        path,
        matchPath,
        query: url.search,
        afterResponse: (work) => context.waitUntil(work),
      });
    },
  };
}
