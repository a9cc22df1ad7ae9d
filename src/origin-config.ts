// Reads the origin policy from the environment: the service bindings, and whether private addresses and plain http are
// allowed.
import type { Bindings } from './bindings.ts';
import { isPrivateHost, type OriginPolicy, parseOrigin } from './core/matching/origin.ts';
import type { ServiceBinding } from './http/origin-choice.ts';

/** A binding that answers requests: another Worker. */
export function serviceOf(env: Bindings, name: string): ServiceBinding | undefined {
  const binding: unknown = Reflect.get(env, name);
  const isFetcher = typeof binding === 'object' && binding !== null && 'fetch' in binding;
  return isFetcher && typeof binding.fetch === 'function' ? (binding as ServiceBinding) : undefined;
}

interface OriginVariables {
  readonly PRIVATE_ORIGINS?: 'allow' | 'refuse' | undefined;
  readonly PLAIN_HTTP?: 'allow' | 'refuse' | undefined;
  readonly ENVIRONMENT?: 'production' | 'development' | undefined;
}

/** Bindings that Weir itself reads do not count as services. */
export function originPolicyOf(
  { PRIVATE_ORIGINS, PLAIN_HTTP, ENVIRONMENT }: OriginVariables,
  env: Bindings,
  ownNames: object,
): OriginPolicy {
  const byDefault = ENVIRONMENT === 'development' ? 'allow' : 'refuse';
  const isService = (name: string) => !(name in ownNames) && serviceOf(env, name) !== undefined;
  return {
    allowsPrivate: (PRIVATE_ORIGINS ?? byDefault) === 'allow',
    allowsPlainHttp: (PLAIN_HTTP ?? byDefault) === 'allow',
    services: Object.keys(env).filter(isService),
  };
}

/** Undefined if Weir can use the origin, or if config-variables.ts reports its problem. */
export function originUrlProblem(
  text: string | undefined,
  { allowsPrivate, services }: OriginPolicy,
): string | undefined {
  const origin = parseOrigin(text ?? '');
  if (origin?.kind === 'service' && !services.includes(origin.name))
    return 'ORIGIN_URL: names a service binding that this Worker does not have';
  const isPrivate = origin?.kind === 'url' && isPrivateHost(new URL(origin.url).hostname);
  return isPrivate && !allowsPrivate
    ? 'ORIGIN_URL: is a loopback or private address; PRIVATE_ORIGINS=allow takes it outside development too'
    : undefined;
}
