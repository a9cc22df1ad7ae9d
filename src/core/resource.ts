// What a rule applies to: a path, a prefix (`/api/*`) or everything (`/*`), read as requests are read.
import { canonicalPath } from './canonical-path.ts';

/** Paths that are Weir's own: never proxied, never limited by rules. */
export const OWN_PREFIX = '/_weir';

export const isOwnPath = (matchPath: string) =>
  matchPath === OWN_PREFIX || matchPath.startsWith(`${OWN_PREFIX}/`);

/** Why a resource could never match a request, or undefined. */
export function resourceProblem(resource: string): string | undefined {
  if (!resource.startsWith('/')) return 'must start with /';
  const { base } = split(resource);
  if (base.includes('*')) return 'may have a * only at its end, as in /api/*';
  const canonical = canonicalPath(base);
  if (!canonical.ok) return canonical.reason;
  if (isOwnPath(canonical.matchPath)) return `is under ${OWN_PREFIX}, which rules do not apply to`;
  return undefined;
}

/** The resource as a test of canonical match paths. */
export function compileResource(resource: string): (matchPath: string) => boolean {
  const { base, isPrefix } = split(resource);
  const canonical = canonicalPath(base);
  if (!canonical.ok) return () => false;
  const { matchPath } = canonical;
  if (!isPrefix) return (path) => path === matchPath;
  if (matchPath === '/') return () => true;
  return (path) => path === matchPath || path.startsWith(`${matchPath}/`);
}

function split(resource: string): { base: string; isPrefix: boolean } {
  const isPrefix = resource.endsWith('/*');
  return { base: isPrefix ? resource.slice(0, -1) : resource, isPrefix };
}
