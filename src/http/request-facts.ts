// Facts about a request that rules may count by, beyond its path, method and caller. Each is computed when a rule asks.
import type { RequestFacts } from '../core/matching/counted-by.ts';
import { hostOf } from '../core/matching/origin-routes.ts';

export const factsOf = (request: Request): RequestFacts => new Facts(request);

/** A class, because every request has one, and the methods of a class are made once. */
class Facts implements RequestFacts {
  readonly #request: Request;

  constructor(request: Request) {
    this.#request = request;
  }

  host(): string {
    return hostOf(this.#request.url);
  }

  header(name: string): string | null {
    return this.#request.headers.get(name);
  }

  place(kind: 'country' | 'asn' | 'colo'): string {
    const { [kind]: value } = (this.#request.cf ?? {}) as Readonly<Record<string, unknown>>;
    return typeof value === 'string' || typeof value === 'number' ? String(value) : '';
  }
}
