// Facts about a request that rules may count by, beyond its path, method and caller. Each is computed when a rule asks.
import type { RequestFacts } from '../core/matching/counted-by.ts';
import { hostOf } from '../core/matching/origin-routes.ts';
import type { ClientRequest } from './client-request.ts';

/** The functions are made once, because every request has facts. */
export const factsOf = (request: ClientRequest): RequestFacts & Held => ({ request, host, header, place });

interface Held {
  readonly request: ClientRequest;
}

function host(this: Held): string {
  return hostOf(this.request.url);
}

function header(this: Held, name: string): string | null {
  return this.request.headers.get(name);
}

function place(this: Held, kind: 'country' | 'asn' | 'colo'): string {
  const { [kind]: value } = (this.request.raw.cf ?? {}) as Readonly<Record<string, unknown>>;
  return typeof value === 'string' || typeof value === 'number' ? String(value) : '';
}
