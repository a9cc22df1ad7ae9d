// Facts about a request that rules may count by, beyond its path, method and caller. Each is computed when a rule asks.
import type { RequestFacts } from '../core/matching/counted-by.ts';
import { hostOf } from '../core/matching/origin-routes.ts';

export const factsOf = (request: Request): RequestFacts => ({
  host: () => hostOf(request.url),
  header: (name) => request.headers.get(name),
  place: (kind) => {
    const { [kind]: value } = (request.cf ?? {}) as Readonly<Record<string, unknown>>;
    return typeof value === 'string' || typeof value === 'number' ? String(value) : '';
  },
});
