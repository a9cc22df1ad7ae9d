// The front door: one canonical path per request, then either Weir's own routes or the gateway.
import type { Caller } from '../core/matching/caller.ts';
import { canonicalPath } from '../core/matching/canonical-path.ts';
import { isOwnPath } from '../core/matching/resource.ts';
import { type ForwardOptions, type GatewayRequest, handleGateway } from './gateway.ts';
import { identityHeaders } from './identity-headers.ts';
import { createOwnRoutes, nothingHere } from './own-routes.ts';
import { problem } from './problem.ts';
import { proxy } from './proxy.ts';
import { unknownRegion } from './refusals.ts';
import type { Services } from './services.ts';

export interface App {
  /** `forward` is for those who have something else behind Weir than an origin. */
  fetch(request: Request, context: ExecutionContext, forward?: GatewayRequest['forward']): Promise<Response>;
}

export function createApp(services: Services): App {
  const ownRoutes = createOwnRoutes(services);

  return {
    async fetch(request, context, forward) {
      const pathname = pathnameOf(request.url);
      // As it is, because ids in a path may be in upper case. Other spellings of it are nobody's.
      if (isOwnPath(pathname)) return ownRoutes.fetch(request, context);
      const canonical = canonicalPath(pathname);
      if (!canonical.ok)
        return problem({ status: 400, code: 'bad-path', title: 'Ambiguous path', detail: canonical.reason });
      const { path, matchPath } = canonical;
      if (isOwnPath(matchPath)) return nothingHere();
      const regions = services.regionsOf(request);
      if (!regions) return unknownRegion(services.regions);
      return handleGateway(services, {
        request,
        regions,
        matchPath,
        afterResponse: (work) => context.waitUntil(work),
        forward:
          forward ??
          ((caller, options) =>
            toOrigin(services, request, { ...options, path, query: queryOf(request.url), caller })),
      });
    },
  };
}

/** The URL of a request is in its normal form: between its host and its query nothing has to be parsed. */
const pathnameOf = (url: string) => /^[^:]*:\/\/[^/?#]*(\/[^?#]*)/.exec(url)?.[1] ?? '/';

/** As it was sent: `URL` would lose a question mark that nothing follows. */
const queryOf = (url: string) => /\?[^#]*/.exec(url)?.[0] ?? '';

interface OriginRequest extends ForwardOptions {
  readonly path: string;
  readonly query: string;
  readonly caller: Caller | undefined;
}

function toOrigin({ origin }: Services, request: Request, { caller, ...asked }: OriginRequest) {
  const { url: originUrl, timeoutMs, headers } = origin;
  return proxy(request, { ...asked, originUrl, identity: identityHeaders(caller), headers, timeoutMs });
}
