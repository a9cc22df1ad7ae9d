// The canonical form of a request path: `path` goes to the origin, `matchPath` to the rules. Two spellings that an
// origin may read as the same path have the same `matchPath`. A path that can be read in two ways is refused.
import { matchSegment } from './match-segment.ts';

export type CanonicalPath =
  | { readonly ok: true; readonly path: string; readonly matchPath: string }
  | { readonly ok: false; readonly reason: string };

/** Nearly all paths look like this and need no resolving, decoding or refusing. */
const PLAIN = /^(?:\/[\w~-][\w.~-]*)+\/?$/;
/**
 * Encoded slash, backslash, question mark, hash and control characters: some origins decode them before they split,
 * route or log.
 */
const AMBIGUOUS = /%(2F|5C|3F|23|[01][0-9A-F]|7F)/;
/** What the WHATWG URL parser encodes in a path; not braces, which stand for parameters in a rule's resource. */
const TO_ENCODE = /[^\x21-\x7e]|["<>^`]/gu;
const UNRESERVED = /[A-Za-z0-9._~-]/;

export function canonicalPath(rawPath: string): CanonicalPath {
  if (PLAIN.test(rawPath)) return plain(rawPath);
  if (/%(?![0-9A-Fa-f]{2})/.test(rawPath)) return refused('a % must be followed by two hexadecimal digits');
  const spelled = respell(rawPath);
  const ambiguous = AMBIGUOUS.exec(spelled);
  if (ambiguous) return refused(`${ambiguous[0]} is not allowed in a path`);
  // The URL parser turns backslashes of requests into slashes, but a rule's resource may still contain one.
  if (spelled.includes('\\')) return refused('a backslash is not allowed in a path');
  return match(resolve(spelled.split('/').slice(1)));
}

function plain(path: string): CanonicalPath {
  const bare = path.endsWith('/') ? path.slice(0, -1) : path;
  return { ok: true, path, matchPath: bare.toLowerCase() };
}

const refused = (reason: string): CanonicalPath => ({ ok: false, reason });

/** Decodes characters that need no escape and writes all other escapes in upper case. */
function respell(path: string): string {
  return path
    .toWellFormed()
    .replace(TO_ENCODE, (character) => encodeURIComponent(character))
    .replace(/%[0-9A-Fa-f]{2}/g, (encoded) => {
      const character = String.fromCharCode(Number.parseInt(encoded.slice(1), 16));
      return UNRESERVED.test(character) ? character : encoded.toUpperCase();
    });
}

interface Resolved {
  readonly segments: readonly string[];
  readonly endsAsFolder: boolean;
}

/** Resolves `.` and `..` like the WHATWG URL parser, never above the root. Then repeated slashes become one. */
function resolve(written: readonly string[]): Resolved {
  const kept: string[] = [];
  for (const segment of written) {
    if (segment === '..') kept.pop();
    else if (segment !== '.') kept.push(segment);
  }
  const last = written.at(-1);
  const segments = kept.filter((segment) => segment !== '');
  return { segments, endsAsFolder: last === '' || last === '.' || last === '..' };
}

function match({ segments, endsAsFolder }: Resolved): CanonicalPath {
  const matched: string[] = [];
  for (const segment of segments) {
    const result = matchSegment(segment);
    if (!result.ok) return result;
    if (result.text !== '') matched.push(result.text);
  }
  const path = `/${segments.join('/')}${endsAsFolder && segments.length > 0 ? '/' : ''}`;
  return { ok: true, path, matchPath: `/${matched.join('/')}` };
}
