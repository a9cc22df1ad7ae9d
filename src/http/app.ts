// The front door: one canonical path per request, then either Weir's own routes or the gateway.
import { canonicalPath } from '../core/canonical-path.ts';
import { isOwnPath } from '../core/resource.ts';
import { handleGateway } from './gateway.ts';
import { createOwnRoutes } from './own-routes.ts';
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
      const region = services.regionOf(request);
      if (!region) return unknownRegion(services);
      return handleGateway(services, {
        request,
        region,
        path,
        matchPath,
        query: url.search,
        afterResponse: (work) => context.waitUntil(work),
      });
    },
  };
}

/** Only where X-Weir-Region plays a region: a typing error should not be served by another one. */
function unknownRegion({ regions }: Services): Response {
  const names = regions.map(({ name }) => name).join(', ');
  return problem({
    status: 400,
    code: 'unknown-region',
    title: 'There is no such region',
    detail: `X-Weir-Region must be one of ${names}.`,
  });
}
