// One canonical form for a request path, used both for matching and for the origin, so that no other
// spelling of the same path escapes a limit. What could be read in two ways is refused.

export type CanonicalPath =
  | { readonly ok: true; readonly path: string; readonly matchPath: string }
  | { readonly ok: false; readonly reason: string };

const UNRESERVED = /[A-Za-z0-9._~-]/;
/** Encoded slash, backslash, and control characters: origins disagree on what these mean. */
const AMBIGUOUS = /%(2F|5C|[01][0-9A-F]|7F)/;

export function canonicalPath(rawPath: string): CanonicalPath {
  const decoded = decodeUnreserved(rawPath);
  if (decoded === undefined) return { ok: false, reason: 'a % must be followed by two hexadecimal digits' };
  const ambiguous = AMBIGUOUS.exec(decoded);
  if (ambiguous) return { ok: false, reason: `${ambiguous[0]} is not allowed in a path` };
  if (decoded.includes('\\')) return { ok: false, reason: 'a backslash is not allowed in a path' };
  const path = resolveSegments(decoded);
  return { ok: true, path, matchPath: toMatchPath(path) };
}

/** Escapes of characters that need none are undone; all others are written in upper case. */
function decodeUnreserved(path: string): string | undefined {
  if (!path.includes('%')) return path;
  if (/%(?![0-9A-Fa-f]{2})/.test(path)) return undefined;
  return path.replace(/%[0-9A-Fa-f]{2}/g, (encoded) => {
    const character = String.fromCharCode(Number.parseInt(encoded.slice(1), 16));
    return UNRESERVED.test(character) ? character : encoded.toUpperCase();
  });
}

/** Repeated slashes count as one; `.` and `..` are resolved as a browser does, never above the root. */
function resolveSegments(path: string): string {
  const kept: string[] = [];
  const segments = path.split('/').filter((segment) => segment !== '');
  for (const segment of segments) {
    if (segment === '..') kept.pop();
    else if (segment !== '.') kept.push(segment);
  }
  const endsAsFolder = /\/\.{0,2}$/.test(path) && kept.length > 0;
  return `/${kept.join('/')}${endsAsFolder ? '/' : ''}`;
}

/** Rules are matched without regard to case, a trailing slash or `;parameters`. */
function toMatchPath(path: string): string {
  const bare = path.replace(/;[^/]*/g, '').toLowerCase();
  return bare.length > 1 && bare.endsWith('/') ? bare.slice(0, -1) : bare;
}
