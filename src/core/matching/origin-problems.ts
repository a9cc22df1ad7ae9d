// Why an origin is refused, always or in this deployment. The admin route and the publisher ask, not the request path.
import { isPrivateHost, type OriginPolicy, parseOrigin } from './origin.ts';

const FORMS = 'must be an https URL, service:NAME or pass';

/** Why a route cannot have this origin, whatever the environment; or undefined. */
export function originProblem(text: string): string | undefined {
  const origin = parseOrigin(text);
  if (origin?.kind !== 'url') return origin ? undefined : FORMS;
  const { username, password, search, hash } = new URL(text);
  if (username || password) return 'must have no user name and no password: fetch refuses them';
  return search || hash ? 'must have no ? and no #: path and query come from the request' : undefined;
}

/** Why this deployment cannot use the origin, or undefined. Weir does not resolve names: only the text counts. */
export function originProblemHere(
  text: string,
  { allowsPrivate, allowsPlainHttp, services }: OriginPolicy,
): string | undefined {
  const origin = parseOrigin(text);
  if (origin?.kind === 'service' && !services.includes(origin.name))
    return `names a service binding that this Worker does not have; it has ${services.join(', ') || 'none'}`;
  if (origin?.kind !== 'url') return undefined;
  if (!allowsPrivate && isPrivateHost(new URL(origin.url).hostname))
    return 'is a loopback or private address, which Weir allows only in development (PRIVATE_ORIGINS)';
  return allowsPlainHttp || origin.url.startsWith('https:')
    ? undefined
    : `${FORMS}: plain http needs PLAIN_HTTP=allow`;
}
