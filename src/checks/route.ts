// POST /_weir/check, and /refund and /settle below it, for tokens of role `check` or `admin`.

import { OWN_PREFIX } from '../core/matching/resource.ts';
import type { AfterResponse } from '../core/ports/telemetry.ts';
import { unknownRegion } from '../gateway/refusals.ts';
import type { Services } from '../gateway/services.ts';
import { parseAuthorization } from '../http/credentials.ts';
import {
  createTokenFinder,
  ProblemError,
  readAtMost,
  renderError,
  tooManyAttempts,
  UNAUTHORIZED,
} from '../http/internal-requests.ts';
import { problem } from '../http/problem.ts';
import { type CheckToken, serviceChecks } from './checks.ts';

const MAX_BYTES = 64 * 1024;
const NOT_KEPT = { 'Cache-Control': 'no-store' };

const CHECK = `${OWN_PREFIX}/check`;

/** The whole path as the client wrote it. */
const pathOf = ({ url }: Request): string => url.split(/[?#]/, 1)[0]?.replace(/^[^/]*\/\/[^/]*/, '') ?? '';

export function createCheckRoute(services: Services) {
  const checks = serviceChecks(services);
  const findToken = createTokenFinder(services.check.tokens);

  /** The answer to a caller who may not check. Wrong tokens count towards the limit of failed admin log-ins. */
  const refusalTo = async (request: Request): Promise<Response | undefined> => {
    const { scheme, credentials } = parseAuthorization(request.headers.get('Authorization') ?? '');
    if (scheme !== 'bearer') return (await services.adminRefusal(request)) ?? problem(NOT_FOR_CHECKS);
    const verdict = await services.guardAttempt({
      address: request.headers.get('CF-Connecting-IP'),
      look: async () => toVerdict(await findToken(credentials)),
      // The nearest, because every check waits for it now and then.
      store: services.regionsOf(request)?.[0].store,
    });
    if (verdict.kind === 'waiting') return tooManyAttempts(verdict.waitMs);
    if (verdict.kind === 'refused') return problem(UNAUTHORIZED, { 'WWW-Authenticate': 'Bearer' });
    return verdict.role === 'read' ? problem(NOT_FOR_CHECKS) : undefined;
  };

  const answer = async (request: Request, afterResponse: AfterResponse): Promise<Response> => {
    const regions = services.regionsOf(request);
    if (!regions) return unknownRegion(services.regions);
    const body = await readBody(request);
    const asked = { regions, afterResponse, keyHeader: request.headers.get('Idempotency-Key') };
    switch (pathOf(request)) {
      case CHECK:
        return Response.json(await checks.check(body, asked), { headers: NOT_KEPT });
      case `${CHECK}/refund`:
        await checks.refund(body, asked);
        return new Response(null, { status: 204 });
      case `${CHECK}/settle`:
        return Response.json(await checks.settle(body, asked), { headers: NOT_KEPT });
      default:
        return problem({ status: 404, code: 'not-found', title: 'Weir has nothing at this path' });
    }
  };

  return async (request: Request, afterResponse: AfterResponse): Promise<Response> => {
    const refusal = await refusalTo(request);
    if (refusal) return refusal;
    if (request.method !== 'POST') return problem(NOT_POSTED, { Allow: 'POST' });
    const answered = answer(request, afterResponse);
    // The charge must be noted even if the client leaves.
    afterResponse(answered.catch(() => {}));
    return answered.catch(renderError);
  };
}

const toVerdict = (token: CheckToken | undefined) =>
  token ? ({ kind: 'actor', role: token.role } as const) : ({ kind: 'refused' } as const);

async function readBody(request: Request): Promise<unknown> {
  const bytes = await readAtMost(request, MAX_BYTES);
  try {
    return JSON.parse(UTF8.decode(bytes));
  } catch {
    throw new ProblemError({
      status: 400,
      code: 'invalid-json',
      title: 'The body is not JSON',
      detail: 'It must be JSON in UTF-8.',
    });
  }
}

/** Throws at bytes that are not UTF-8. Otherwise subjects that differ only in such bytes would share a counter. */
const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: false });

const NOT_POSTED = { status: 405, code: 'method-not-allowed', title: 'Checks accept only POST' };
const NOT_FOR_CHECKS = { status: 403, code: 'read-only-token', title: 'This token may not charge anything' };
